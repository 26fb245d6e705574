import Crypto
import Evidence
import Foundation
import NIOCore

/// The parts of a bundle.
enum BundlePart: String, CaseIterable, Sendable {
  case video
  case depth = "depth_data"
  case chain = "hash_chain"
  case metadata

  /// Most bytes that it may have.
  var limit: Int64 {
    switch self {
    case .video: 104_857_600
    case .depth: 20_971_520
    case .chain: 1_048_576
    case .metadata: 102_400
    }
  }

  /// Its name in the store, by which the reader of bundles knows it.
  var fileName: String {
    switch self {
    case .video: "video.mp4"
    case .depth: "depth.gz"
    case .chain: "hash_chain.json"
    case .metadata: "metadata.json"
    }
  }

  /// Most bytes of a request: those of the parts, and almost a megabyte for what is between them.
  static let bodyLimit: Int64 = 122 << 20
}

/// A bundle whose parts are on the disk.
struct ReceivedBundle: Sendable {
  var parts: [BundlePart: CaptureFile]
  var metadata: UploadedMetadata
  /// Bytes of the whole body.
  var bytes: Int64
  var digest: SHA256Digest

  var files: [CaptureFile] { BundlePart.allCases.compactMap { parts[$0] } }

  /// The same for two requests if the same device sent the same four parts.
  func contentDigest(of device: String) -> String {
    let lines = ["video", device] + files.map(\.sha256)
    return Hex.text(SHA256.hash(data: Data(lines.joined(separator: "\n").utf8)))
  }
}

/// Writes the parts of a bundle to disk as they arrive. Memory is a piece of the body, and the metadata.
///
/// Not `Sendable`: one task feeds it.
struct BundleReceiver: ~Copyable {
  private let staging: Staging
  private let intake: Intake
  private let isStrict: Bool
  private let isStranger: Bool
  private var parser: MultipartParser
  private var hasher = SHA256()
  private(set) var bytes: Int64 = 0
  /// Number of bytes at which the free space is looked at again.
  private var nextCheck = spaceStep
  private static let spaceStep: Int64 = 8 << 20

  private var files: [BundlePart: CaptureFile] = [:]
  private var metadata: [UInt8] = []
  /// The part that arrives; `nil` also for a part that is ignored.
  private var current: (part: BundlePart, file: IncomingFile)?

  init(_ parser: MultipartParser, into staging: Staging, _ intake: Intake, policy: Configuration.Policy, isStranger: Bool) {
    self.parser = parser
    self.staging = staging
    self.intake = intake
    isStrict = policy == .strict
    self.isStranger = isStranger
  }

  /// Takes a piece of the body. Throws `Failure`: 400 for a malformed body, 413 as soon as a limit is passed, 507.
  mutating func append(_ piece: ByteBuffer) async throws {
    bytes += Int64(piece.readableBytes)
    guard bytes <= BundlePart.bodyLimit else { throw Self.bodyTooLarge() }
    if bytes >= nextCheck {
      nextCheck = bytes + Self.spaceStep
      try intake.checkSpace(isStranger: isStranger)
    }
    piece.withUnsafeReadableBytes { hasher.update(bufferPointer: $0) }
    parser.append(piece.readableBytesView)
    try await readEvents()
  }

  static func bodyTooLarge() -> Failure { .tooLarge("The request has more than \(BundlePart.bodyLimit) bytes") }

  /// The body has ended. Its digest, which a signature may cover. Throws `Failure` 400 for a body without its closing boundary.
  mutating func end() async throws -> SHA256Digest {
    parser.end()
    try await readEvents()
    return hasher.finalize()
  }

  /// The bundle, when the body has ended. Throws `Failure` 400 unless all four parts are there, none is empty, and the metadata is fine.
  func bundle(digest: SHA256Digest) throws -> ReceivedBundle {
    for part in BundlePart.allCases {
      guard let file = files[part] else { throw Failure.invalid("Missing required part: \(part.rawValue)") }
      guard file.bytes > 0 else { throw Failure.invalid("Empty part: \(part.rawValue)") }
    }
    do {
      return ReceivedBundle(parts: files, metadata: try UploadedMetadata(metadata), bytes: bytes, digest: digest)
    } catch let problem as UploadedMetadata.Problem {
      throw Failure.invalid(problem.description)
    }
  }

  private mutating func readEvents() async throws {
    do {
      while let event = try parser.next() {
        switch event {
        case .part(let header): try begin(header)
        case .data(let data): try await write(data)
        case .endOfPart: try await endPart()
        case .end: break
        }
      }
    } catch let malformed as MultipartParser.Malformed {
      throw Failure.invalid("The multipart body is malformed: \(malformed)")
    }
  }

  private mutating func begin(_ header: MultipartParser.Header) throws {
    if header.contentType?.lowercased().hasPrefix("multipart/") ?? false { throw Failure.invalid("A part is a multipart body itself") }
    guard let part = header.name.flatMap(BundlePart.init(rawValue:)) else {
      if isStrict { throw Failure.invalid("A part has \(header.name == nil ? "no name" : "an unknown name")") }
      return
    }
    if files.removeValue(forKey: part) != nil {
      if isStrict { throw Failure.invalid("Two parts are named \(part.rawValue)") }
      unlink(staging.path + "/" + part.fileName)
      if part == .metadata { metadata = [] }
    }
    current = (part, try staging.file(part.fileName))
  }

  private mutating func write(_ data: ArraySlice<UInt8>) async throws {
    guard let (part, file) = current else { return }
    guard file.bytes + Int64(data.count) <= part.limit else {
      throw Failure.tooLarge("The part \(part.rawValue) has more than \(part.limit) bytes")
    }
    if part == .metadata { metadata += data }
    try await file.append(ByteBuffer(bytes: data))
  }

  private mutating func endPart() async throws {
    guard let (part, file) = current else { return }
    current = nil
    files[part] = CaptureFile(capture: "", name: part.fileName, bytes: file.bytes, sha256: Hex.text(try await file.finish()))
  }
}
