import Evidence
import Foundation
import Media
import Model
import Steps

/// The parts of an uploaded bundle, in a folder or in the body of the upload as it was received.
struct BundleParts {
  /// The parts, by the names that the upload gives them.
  enum Name: String, CaseIterable, Sendable {
    case video, metadata
    case depth = "depth_data"
    case chain = "hash_chain"

    /// Limit of the app's server, in bytes.
    var limit: Int64 {
      switch self {
      case .video: 104_857_600
      case .depth: 20_971_520
      case .chain: 1_048_576
      case .metadata: 102_400
      }
    }

    var role: TakeInputs.Role {
      switch self {
      case .video: .movie
      case .metadata: .metadata
      case .depth: .depth
      case .chain: .hashChain
      }
    }
  }

  struct Part {
    /// Name for messages: the file's, or the part's in the body.
    var file: String
    var slice: FileSlice
    /// Its place among the inputs.
    var place: InputOrigin
  }

  private var parts: [Name: Part] = [:]
  /// Whether the files come from the storage of the app's server, which keeps video, depth (`video_depth.gz`) and chain, but no metadata.
  let isServerStorage: Bool

  init(_ inputs: TakeInputs) throws {
    if let body = inputs.entries.firstIndex(where: { $0.role == .body }) {
      let file = inputs.entries[body].path
      let slice = try inputs.slice(body)
      isServerStorage = false
      parts = try naming(file) {
        try MultipartBody(slice, file: file).parts.reduce(into: [:]) { parts, part in
          if let name = Name(rawValue: part.name) {
            let origin = SampleOrigin.Part(name: part.name, range: part.range)
            parts[name] = Part(
              file: "\(file):\(part.name)", slice: slice[part.range], place: InputOrigin(inputs: inputs, entry: body, part: origin))
          }
        }
      }
    } else {
      for (index, entry) in inputs.entries.enumerated() {
        guard let name = Name.allCases.first(where: { $0.role == entry.role }) else { continue }
        parts[name] = Part(file: entry.path, slice: try inputs.slice(index), place: InputOrigin(inputs: inputs, entry: index))
      }
      isServerStorage = inputs.index(of: "video_depth.gz") != nil
    }
    for name in Name.allCases {
      guard let part = parts[name], part.slice.count > name.limit else { continue }
      throw TakeFailure(
        .inputTooLarge, "the part \(name.rawValue) has \(part.slice.count) bytes, over the limit of \(name.limit)", file: part.file)
    }
  }

  /// The part, if it is present and not empty.
  func existing(_ name: Name) -> Part? { parts[name].flatMap { $0.slice.count > 0 ? $0 : nil } }

  /// The part. Throws `TakeFailure` when it is missing or empty.
  func required(_ name: Name) throws -> Part {
    guard let part = parts[name] else { throw TakeFailure(.partMissing, "the bundle has no part \(name.rawValue)") }
    guard part.slice.count > 0 else {
      throw TakeFailure(.partEmpty, "the part \(name.rawValue) is empty", file: part.file)
    }
    return part
  }

  /// Every byte of a small part.
  func bytes(_ part: Part) throws -> [UInt8] { try naming(part.file) { try part.slice.bytes(0..<part.slice.count) } }

  /// Size and digest of every part, for the record.
  func json() throws -> JSONValue {
    .array(
      try parts.sorted { $0.key.rawValue < $1.key.rawValue }.map { name, part in
        [
          "name": .string(name.rawValue), "bytes": .integer(part.slice.count),
          "sha256": .string(try naming(part.file) { try digest(part.slice) }.description),
        ]
      })
  }

  private func digest(_ slice: FileSlice) throws -> Digest {
    let hasher = SHA256()
    try withBuffer(of: 1 << 18) { buffer in
      var offset: Int64 = 0
      while offset < slice.count {
        let count = try slice.read(into: buffer, at: offset)
        if count == 0 { break }
        hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        offset += Int64(count)
      }
    }
    return hasher.finish()
  }
}
