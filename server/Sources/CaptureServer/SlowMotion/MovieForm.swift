import Crypto
import Evidence
import Foundation
import NIOCore

/// Takes the body of an upload apart as it arrives, and stores every file in it. Nothing that arrives in a file is lost, however odd the
/// body is: what does not parse is stored as it is.
///
/// `@unchecked Sendable`: one task uses it, one call after the other.
final class MovieForm: @unchecked Sendable {
  struct File: Sendable {
    /// The client's name of the file.
    var clientName: String?
    var stored: CaptureFile
    /// The first bytes.
    var start: [UInt8]
  }

  private(set) var files: [File] = []
  /// Texts that came with the movie.
  private(set) var fields: [String: String] = [:]
  /// The fault of the body; `nil` where it was complete.
  private(set) var problem: String?

  private let staging: Staging
  private var parser: MultipartParser?
  /// Bytes that the parser has not used yet; before the first part, all there was, since it may turn out to be no form.
  private var carry: [UInt8] = []
  private var hasPart = false
  private var part: MultipartParser.Header?
  private var text: [UInt8] = []
  private var open: (name: String?, file: IncomingFile, fileName: String, start: [UInt8])?
  private var hasEnded = false

  private static let fieldLimit = 8 << 10
  private static let startLength = 12

  init(_ staging: Staging, contentType: String?) {
    self.staging = staging
    parser = contentType.flatMap { MultipartParser(contentType: $0) }
    // A bare movie is as good as one in a form.
    if parser == nil, contentType?.lowercased().hasPrefix("multipart/") ?? false { problem = "the form has no boundary" }
  }

  func append(_ piece: ByteBuffer) async throws {
    guard parser != nil else { return try await store(Array(piece.readableBytesView)) }
    let bytes = Array(piece.readableBytesView)
    parser?.append(bytes)
    try await parse(carry + bytes)
  }

  /// The body has ended.
  func finish() async throws {
    if parser != nil, !hasEnded {
      parser?.end()
      try await parse(carry)
    }
    try await closeFile()
  }

  /// - Parameter unused: All bytes that the parser has got and not used.
  private func parse(_ unused: [UInt8]) async throws {
    guard let before = hasPart ? parser?.offset : 0 else { return }
    do {
      while let event = try parser?.next() { try await handle(event) }
    } catch let malformed as MultipartParser.Malformed {
      problem = malformed.description
      let used = hasPart ? Int((parser?.offset ?? before) - before) : 0
      parser = nil
      // Those bytes belong to the part that was being read, or to nothing known.
      try await store(Array(unused.dropFirst(used)))
      return
    }
    carry = hasPart ? Array(unused.dropFirst(Int((parser?.offset ?? before) - before))) : unused
  }

  private func handle(_ event: MultipartParser.Event) async throws {
    switch event {
    case .part(let header):
      part = header
      hasPart = true
      text = []
      if header.filename != nil { try openFile(header.filename) }
    case .data(let bytes):
      if open != nil { return try await write(bytes) }
      text += bytes
      // No text is so long, so it is a movie without a name.
      if text.count > Self.fieldLimit || part?.contentType?.lowercased().hasPrefix("video/") == true {
        try openFile(nil)
        try await write(text[...])
        text = []
      }
    case .endOfPart:
      if open != nil { try await closeFile() } else { fields[part?.name ?? ""] = String(decoding: text, as: UTF8.self) }
      part = nil
    case .end: hasEnded = true
    }
  }

  private func store(_ bytes: [UInt8]) async throws {
    guard !bytes.isEmpty else { return }
    if open == nil { try openFile(nil) }
    try await write(bytes[...])
  }

  private func openFile(_ clientName: String?) throws {
    let name = (files.isEmpty ? "" : "part-\(files.count + 1)-") + MovieName.safe(clientName)
    open = (clientName, try staging.file(name), name, [])
  }

  private func write(_ bytes: ArraySlice<UInt8>) async throws {
    guard let current = open else { return }
    if current.start.count < Self.startLength { open?.start += bytes.prefix(Self.startLength - current.start.count) }
    try await current.file.append(ByteBuffer(bytes: bytes))
  }

  private func closeFile() async throws {
    guard let current = open else { return }
    open = nil
    let digest = try await current.file.finish()
    let stored = CaptureFile(capture: "", name: current.fileName, bytes: current.file.bytes, sha256: Hex.text(digest))
    files.append(File(clientName: current.name, stored: stored, start: current.start))
  }
}

/// Names of movies.
enum MovieName {
  /// A name for the file here: the client's where it is one of the app's, whose number is the only start time there is.
  static func safe(_ client: String?) -> String {
    guard let client, let match = client.wholeMatch(of: #/(video|recording)_([0-9]{1,16})\.([A-Za-z0-9]{2,3})/#),
      MediaType.isMovie(client)
    else { return "movie.\(fileType(client ?? ""))" }
    return "\(match.1)_\(match.2).\(match.3.lowercased())"
  }

  /// The name under which the movie is listed, of which there is one.
  static func listed(_ file: String, _ capture: Capture) -> String {
    let stem = (file as NSString).deletingPathExtension
    return "\(stem == "movie" ? "video_\(capture.receivedAt)" : stem)_\(capture.id.prefix(8)).\((file as NSString).pathExtension)"
  }

  /// The first digits of the id of the capture that a listed name is of.
  static func captureID(_ listed: String) -> String? {
    listed.wholeMatch(of: #/.*_([0-9a-f]{8})\.[A-Za-z0-9]{1,3}/#).map { String($0.1) }
  }

  private static func fileType(_ name: String) -> String {
    MediaType.isMovie(name) ? (name as NSString).pathExtension.lowercased() : "mov"
  }

  /// Whether these first bytes are those of a QuickTime or MP4 file: a length and the name of a box.
  static func startsMovie(_ start: [UInt8]) -> Bool {
    guard start.count >= 8 else { return false }
    return ["ftyp", "moov", "mdat", "wide", "free", "skip", "pnot"].contains(String(decoding: start[4..<8], as: UTF8.self))
  }
}
