import Crypto
import Foundation
import NIOPosix

/// The identity of a file that arrived: its type, and its name in the store, which is never the client's.
struct ReceivedFile: Sendable, Equatable {
  var type: CaptureType
  var name: String
  /// The reason why nothing can be made of it; such a file is kept in quarantine.
  var problem: String?

  /// Looks at the first bytes of a file, or at the list of an archive. Nothing is unpacked.
  static func inspect(_ path: String, _ metadata: UploadMetadata) async throws -> ReceivedFile {
    try await NIOThreadPool.singleton.runIfActive {
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { throw DurableFile.failure("open", path) }
      defer { close(descriptor) }
      var status = stat()
      guard fstat(descriptor, &status) == 0 else { throw DurableFile.failure("examine", path) }
      return inspect(ArchiveFile(descriptor: descriptor, bytes: Int64(status.st_size)), metadata)
    }
  }

  private static func inspect(_ file: ArchiveFile, _ metadata: UploadMetadata) -> ReceivedFile {
    let ending = metadata.filename.split(separator: ".").count > 1 ? metadata.filename.split(separator: ".").last?.lowercased() ?? "" : ""
    let start = (try? file.bytes(0..<512)) ?? []
    let type: CaptureType =
      switch metadata.kind {
      case .bundle: .video
      case .session: .session
      case .movie: .movie
      case nil: ["mov", "mp4", "m4v"].contains(ending) ? .movie : ending == "multipart" ? .video : .session
      }
    func quarantined(_ problem: String) -> ReceivedFile { ReceivedFile(type: type, name: "upload.bin", problem: problem) }
    if type == .movie { return isMovie(start) ? movie(metadata.filename) : quarantined("it is not a movie") }
    do {
      if let contents = try ArchiveContents(file, start: start) {
        let isBundle = metadata.kind == .bundle || (metadata.kind == nil && contents.isBundle)
        return ReceivedFile(
          type: isBundle ? .video : .session, name: "\(isBundle ? "bundle" : "session").\(contents.format.rawValue)", problem: nil)
      }
    } catch let problem as ArchiveContents.Problem {
      return quarantined(problem.description)
    } catch {
      return quarantined("it cannot be read")
    }
    if metadata.kind != .session, isForm(start) { return ReceivedFile(type: .video, name: "bundle.multipart", problem: nil) }
    if metadata.kind == nil, isMovie(start) { return movie(metadata.filename) }
    if start.starts(with: [0x1F, 0x8B]) {
      return ReceivedFile(
        type: type, name: "upload.tgz", problem: "it is compressed as a whole; a zip or an uncompressed tar can be converted")
    }
    return quarantined("it is no archive of a session, no bundle and no movie")
  }

  /// The reader of movies takes the time at which the recording began from such a name.
  static func movie(_ filename: String) -> ReceivedFile {
    let isTimed = filename.wholeMatch(of: /(?i)(video|recording)_[0-9]{1,12}\.(mov|mp4)/) != nil
    let name = isTimed ? filename : filename.lowercased().hasSuffix(".mp4") ? "movie.mp4" : "movie.mov"
    return ReceivedFile(type: .movie, name: name, problem: nil)
  }

  /// ISO 14496-12: the first box has one of these types.
  private static func isMovie(_ start: [UInt8]) -> Bool {
    start.count >= 8 && ["ftyp", "moov", "mdat", "wide", "free", "skip", "pnot"].contains(String(decoding: start[4..<8], as: UTF8.self))
  }

  private static func isForm(_ start: [UInt8]) -> Bool {
    start.starts(with: Array("--".utf8)) && String(decoding: start, as: UTF8.self).lowercased().contains("content-disposition: form-data")
  }

  /// Returns the digest by which two captures are the same: of project, type and bytes. Bytes in quarantine are not those of a capture.
  func contentDigest(sha256: String, project: String) -> String {
    let type = problem == nil ? type.rawValue : "quarantine"
    return Hex.text(SHA256.hash(data: Data("contents\0\(project)\0\(type)\0\(sha256)".utf8)))
  }
}
