package import Evidence
package import Model

/// Evidence in an uploaded bundle that it is genuine, as its reader found it.
package struct BundleEvidence: Sendable {
  /// The hash chain's bytes and name; `nil` where there is none.
  var chain: (bytes: [UInt8], file: String)?
  /// Final hash, according to the metadata.
  var finalHash: String?
  var assertion: String?
  var frameCount: Int64?
  var isPartial: Bool?
  var metadataFile: String?
  /// The device's id, lower-case, where the metadata name it.
  var device: String?
  /// Lower-case names of the folders that contain the bundle, one of which may be the device's id.
  var folders: [String] = []
  /// Whether the limits of the app's own server apply.
  var isStrict: Bool
  /// Presentation time of each video frame, in seconds since the first, and the video's length.
  var frameSeconds: [Double]
  var recordedSeconds: Double
  var recordedFrames: Int { frameSeconds.count }
}

extension Episode {
  /// Evidence in an uploaded bundle that it is genuine.
  package var evidence: BundleEvidence? {
    get { extensions[BundleEvidence.self] }
    set { extensions[BundleEvidence.self] = newValue }
  }

  /// Result of checking the evidence; set by `verify-hash-chain`.
  package var verification: BundleVerification? {
    get { extensions[BundleVerification.self] }
    set { extensions[BundleVerification.self] = newValue }
  }
}

/// Proven properties of a bundle, level by level; never that the video shows what was hashed, which cannot be verified.
package struct BundleVerification: Sendable {
  enum ChainState: String, Sendable { case sound, broken, absent }
  enum AssertionState: String, Sendable {
    case verified, invalid, mock, placeholder, absent
    case noKey = "no-key"
  }
  enum Coverage: String, Sendable { case final, checkpoint, none }
  enum Completeness: String, Sendable { case complete, partial, unknown }

  var chain = ChainState.absent
  var chainReason: String?
  var frames = 0
  var checkpoints = 0
  var finalMatchesMetadata: Bool?

  var assertion = AssertionState.absent
  var assertionReason: String?
  var covers = Coverage.none
  /// The device that the key belongs to.
  var key: String?
  var counter: UInt32?
  var checkpoint: Int64?
  var keysDigest: Digest?

  var partial = Completeness.unknown
  var verifiedFrames: Int64 = 0
  var verifiedSeconds = 0.0
  var recordedFrames = 0
  var recordedSeconds = 0.0

  var levels: [String] {
    ["bytes-sealed-at-ingest"] + (chain == .sound ? ["chain-structure-ok"] : []) + (assertion == .verified ? ["assertion-ok"] : [])
  }

  /// The result in words: "verified 10.0 s of 12.0 s recorded".
  package var summary: String {
    func seconds(_ value: Double) -> String { JSONValue.number((value * 10).rounded() / 10).decimalText + " s" }
    guard assertion == .verified, covers != .none else {
      return "nothing verified of \(seconds(recordedSeconds)) recorded: chain \(chain.rawValue), assertion \(assertion.rawValue)"
    }
    return "verified \(seconds(verifiedSeconds)) of \(seconds(recordedSeconds)) recorded"
  }

  package var json: JSONValue {
    var assertion: [String: JSONValue] = ["state": .string(self.assertion.rawValue), "covers": .string(covers.rawValue)]
    if let key { assertion["key"] = .string(key) }
    if let counter { assertion["counter"] = .integer(Int64(counter)) }
    if let checkpoint { assertion["checkpoint"] = .integer(checkpoint) }
    if let assertionReason { assertion["reason"] = .string(assertionReason) }
    if let keysDigest { assertion["keys_sha256"] = .string(keysDigest.description) }
    var chain: [String: JSONValue] = [
      "state": .string(self.chain.rawValue), "frames": JSONValue(frames), "checkpoints": JSONValue(checkpoints),
      "final_matches_metadata": finalMatchesMetadata.map { .bool($0) } ?? .null,
    ]
    if let chainReason { chain["reason"] = .string(chainReason) }
    return [
      "chain": .object(chain), "assertion": .object(assertion),
      "partial": [
        "state": .string(partial.rawValue), "verified_frames": .integer(verifiedFrames), "verified_seconds": .number(verifiedSeconds),
        "recorded_frames": JSONValue(recordedFrames), "recorded_seconds": .number(recordedSeconds),
      ],
      "levels": .array(levels.map { .string($0) }), "not_verified": .array(notVerified.map { .string($0) }),
    ]
  }

  private var notVerified: [String] {
    var sentences = [
      "that the movie shows what was hashed: nothing binds its bytes to the chain",
      "that the depth is what was hashed: nothing binds its bytes to the chain",
      "that each hash follows from the one before: the camera's bytes were not uploaded",
    ]
    if chain != .sound { sentences.append("that the chain is whole") }
    if assertion != .verified { sentences.append("that a known device signed the chain") }
    if covers == .checkpoint { sentences.append("what was recorded after the checkpoint that the device signed") }
    return sentences
  }
}

extension JSONValue {
  /// A number with at least one decimal.
  fileprivate var decimalText: String {
    let text = canonicalText
    return text.contains(".") || text.contains("e") ? text : text + ".0"
  }
}
