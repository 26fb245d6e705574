import Evidence
import Foundation

/// The list of a zip or tar, examined without unpacking it, by the rules with which archives are converted.
struct ArchiveContents {
  enum Format: String { case zip, tar }

  /// The reason why an archive is refused, as the end of a sentence about it. The names in it are not repeated.
  struct Problem: Error, CustomStringConvertible {
    var description: String
  }

  let format: Format
  /// Whether it holds a bundle with a hash chain rather than a session.
  let isBundle: Bool

  /// The limits of the converter's readers.
  private static let limits = MemberList.Limits(members: 200_000, bytes: 64 * 0x1p30, ratio: 200)

  /// The result is `nil` for a file that is neither a zip nor a tar. Throws `Problem`, and `Failure` where the file cannot be read.
  init?(_ file: ArchiveFile, start: [UInt8]) throws {
    guard let format = ZipList.isStart(start) ? Format.zip : TarList.isHeader(start) ? .tar : nil else { return nil }
    self.format = format
    var (members, isBundle) = (MemberList(limits: Self.limits), false)
    func add(_ name: some Sequence<UInt8>, _ kind: MemberKind, _ bytes: Int64) throws {
      guard let path = try members.add(name, kind, bytes: bytes) else { return }
      if path.split(separator: UInt8(ascii: "/")).last?.elementsEqual("hash_chain.json".utf8) == true { isBundle = true }
    }
    do {
      switch format {
      case .zip: try ZipList.read(file.bytes, limit: Self.limits.members, file.bytes, add)
      case .tar:
        try TarList.read(file.bytes, file.bytes) { member in
          try add(member.name, member.kind, Int64(member.data.count))
          return true
        }
      }
      try members.finish(archiveBytes: file.bytes)
    } catch let malformed as MalformedArchive {
      throw Problem(description: malformed.description)
    } catch let refusal as MemberList.Refusal {
      throw Problem(description: Self.words(refusal))
    }
    guard members.files > 0 else { throw Problem(description: "it has no files") }
    self.isBundle = isBundle
  }

  private static func words(_ refusal: MemberList.Refusal) -> String {
    switch refusal {
    case .member(let what): "it has a member that \(what)"
    case .tooManyMembers: "it has more than \(limits.members) members"
    case .tooManyBytes: "its members claim more than \(Int64(limits.bytes)) bytes"
    case .tooLarge: "its members claim more than \(Int64(limits.ratio)) times the bytes of the archive"
    }
  }
}

/// A file that is read here and there.
struct ArchiveFile {
  let descriptor: Int32
  let bytes: Int64

  /// The bytes of a range; fewer at the end of the file. Throws `Failure`.
  func bytes(_ range: Range<Int64>) throws -> [UInt8] {
    guard range.lowerBound >= 0, range.lowerBound < bytes else { return [] }
    var found = [UInt8](repeating: 0, count: Int(min(range.upperBound, bytes) - range.lowerBound))
    var done = 0
    while done < found.count {
      let got = found.withUnsafeMutableBytes { bytes in
        let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[done...])
        return pread(descriptor, rest.baseAddress, rest.count, off_t(range.lowerBound) + off_t(done))
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { throw DurableFile.failure("read", "an archive") }
      done += got
    }
    return found
  }
}
