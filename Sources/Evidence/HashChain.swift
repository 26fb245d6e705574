package import Model

/// The `hash_chain` part of an uploaded bundle: a SHA-256 for each frame that the phone recorded, checkpoints at regular intervals, and the
/// last hash, which the phone signed.
///
/// Only its structure can be checked: the hashes are of camera bytes that were never uploaded.
package struct HashChain: Sendable {
  /// A frame of the chain at a regular interval, with its hash and its time.
  package struct Checkpoint: Sendable, Equatable {
    package var index: Int64
    /// Number of the frame; 1 is the first.
    package var frameNumber: Int64
    package var hash: [UInt8]
    /// Seconds since the first frame.
    package var seconds: Double
  }

  package let hashes: [[UInt8]]
  package let checkpoints: [Checkpoint]
  package let final: [UInt8]
  package private(set) var findings: [Finding] = []

  /// Limit on the number of hashes; at 60 fps, 15 s are 900 frames.
  package static let limit = 1024
  private static let spacing: Int64 = 150

  /// The reason why a chain is invalid.
  package struct Broken: Error, Equatable {
    package var reason: String
    package init(_ reason: String) { self.reason = reason }
  }

  /// Reads the part. Throws `Broken` naming the invalid entry.
  package init(_ part: [UInt8], file: String, frameLimit: Int = limit) throws {
    let document: JSONValue
    do {
      document = try JSONReader(part).document()
    } catch let error as JSONError {
      throw Broken("not JSON: \(error.message), \(error.place)")
    }
    guard case .object(let members) = document else { throw Broken("expected an object, found \(document.kind)") }
    var isStandard = true
    func hash(_ value: JSONValue?, _ path: String) throws -> [UInt8] {
      guard let text = value?.string else {
        throw Broken("\(path): expected a hash as text, found \(value == nil ? "nothing" : "something else")")
      }
      guard let digest = Base64.digest(text) else {
        throw Broken("\(path): expected base64 of 32 bytes, found text of \(text.count) characters")
      }
      if !digest.isStandard { isStandard = false }
      return digest.bytes
    }
    guard let list = members["frame_hashes"]?.array else { throw Broken("frame_hashes: expected a list of hashes") }
    guard !list.isEmpty else { throw Broken("frame_hashes: the list is empty") }
    guard list.count <= frameLimit else { throw Broken("frame_hashes: \(list.count) hashes are over the limit of \(frameLimit)") }
    let hashes = try list.enumerated().map { try hash($1, "frame_hashes[\($0)]") }
    guard let points = members["checkpoints"]?.array else { throw Broken("checkpoints: expected a list") }
    guard points.count <= Self.limit else { throw Broken("checkpoints: \(points.count) are over the limit of \(Self.limit)") }
    checkpoints = try points.enumerated().map { number, point in
      guard let index = point["index"]?.integer, let frame = point["frame_number"]?.integer, index >= 0, frame >= 1,
        max(index, frame) < 1 << 40
      else { throw Broken("checkpoints[\(number)]: expected whole numbers index and frame_number") }
      guard let seconds = point["timestamp"]?.double, (0...86_400).contains(seconds) else {
        throw Broken("checkpoints[\(number)].timestamp: expected seconds since the first frame")
      }
      return Checkpoint(index: index, frameNumber: frame, hash: try hash(point["hash"], "checkpoints[\(number)].hash"), seconds: seconds)
    }
    final = try hash(members["final_hash"], "final_hash")
    self.hashes = hashes
    guard final == hashes.last else { throw Broken("final_hash is not the last of frame_hashes") }

    if !isStandard {
      findings.append(Finding(.hashEncoding, "hashes are not in standard base64 with padding", file: file))
    }
    try placeCheckpoints(file)
    for (key, count) in [("frame_count", hashes.count), ("checkpoint_count", checkpoints.count)] {
      if let declared = members[key], declared.integer != Int64(count) {
        findings.append(
          Finding(
            .chainCountMismatch, "\(key) is \(declared.integer.map { String($0) } ?? declared.type), the list has \(count)",
            file: file, field: ".\(key)"))
      }
    }
  }

  /// Number of frames that a checkpoint covers: up to the position of its hash in the chain, regardless of the number it claims.
  package func frames(upTo point: Checkpoint) -> Int {
    let slot = Int(point.frameNumber) - 1
    if hashes.indices.contains(slot), hashes[slot] == point.hash { return slot + 1 }
    return (hashes.firstIndex(of: point.hash) ?? -1) + 1
  }

  /// Matches each checkpoint's hash with its frame, or, as frames may be hashed out of order, with another position in the chain.
  private mutating func placeCheckpoints(_ file: String) throws {
    var reordered = 0, spaced = 0
    for (number, point) in checkpoints.enumerated() {
      if point.frameNumber != Self.spacing * (point.index + 1) { spaced += 1 }
      let slot = Int(point.frameNumber) - 1
      if hashes.indices.contains(slot), hashes[slot] == point.hash { continue }
      guard hashes.contains(point.hash) else {
        throw Broken("checkpoints[\(number)].hash is not that of frame \(point.frameNumber), nor of any other frame in the chain")
      }
      reordered += 1
    }
    if reordered > 0 {
      findings.append(
        Finding(.chainReordered, "hashes of checkpoints are at other frames than they claim", file: file, count: reordered))
    }
    if spaced > 0 {
      findings.append(
        Finding(
          .checkpointSpacing, "checkpoints are not at every \(Self.spacing)th frame, in order", file: file, count: spaced))
    }
  }

  /// Compares the chain with the bundle's metadata. Throws `Broken`.
  package mutating func check(against metadata: (final: String?, frameCount: Int64?), file: String) throws {
    if let text = metadata.final {
      guard let claimed = Base64.digest(text)?.bytes else {
        throw Broken("hash_chain_final of the metadata is not base64 of 32 bytes")
      }
      guard claimed == final else { throw Broken("hash_chain_final of the metadata is not the chain's final_hash") }
    }
    guard let frames = metadata.frameCount else { return }
    let count = Int64(hashes.count)
    guard count <= frames, count >= frames - 5 else {
      throw Broken("the chain has \(count) hashes for \(frames) recorded frames; expected as many, or up to 5 fewer")
    }
    if count < frames {
      findings.append(
        Finding(.chainShort, "the chain has \(count) hashes for \(frames) recorded frames", file: file))
    }
  }
}
