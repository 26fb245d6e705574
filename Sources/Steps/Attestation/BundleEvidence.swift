package import Evidence
package import Model

/// Evidence in an uploaded bundle that it is genuine, as its reader found it.
package struct BundleEvidence: Sendable {
  /// The hash chain's bytes and name; `nil` where there is none.
  package var chain: (bytes: [UInt8], file: String)?
  /// Final hash, according to the metadata.
  package var finalHash: String?
  package var assertion: String?
  package var frameCount: Int64?
  package var isPartial: Bool?
  package var metadataFile: String?
  /// The device's id, lower-case, where the metadata name it.
  package var device: String?
  /// Lower-case names of the folders that contain the bundle, one of which may be the device's id.
  package var folders: [String] = []
  /// Whether the limits of the app's own server apply.
  package var isStrict: Bool
  /// Presentation time of each video frame, in seconds since the first, and the video's length.
  package var frameSeconds: [Double]
  package var recordedSeconds: Double

  package init(
    chain: (bytes: [UInt8], file: String)? = nil, finalHash: String? = nil, assertion: String? = nil, frameCount: Int64? = nil,
    isPartial: Bool? = nil, metadataFile: String? = nil, device: String? = nil, folders: [String] = [], isStrict: Bool,
    frameSeconds: [Double], recordedSeconds: Double
  ) {
    (
      self.chain, self.finalHash, self.assertion, self.frameCount, self.isPartial, self.metadataFile, self.device, self.folders,
      self.isStrict, self.frameSeconds, self.recordedSeconds
    ) = (chain, finalHash, assertion, frameCount, isPartial, metadataFile, device, folders, isStrict, frameSeconds, recordedSeconds)
  }
  package var recordedFrames: Int { frameSeconds.count }
}

extension Episode {
  /// Evidence in an uploaded bundle that it is genuine.
  package var evidence: BundleEvidence? {
    get { extensions[BundleEvidence.self] }
    set { extensions[BundleEvidence.self] = newValue }
  }

  /// The same of each member of a joined take that has some.
  package var memberEvidence: [String: BundleEvidence] {
    get { extensions[MemberEvidence.self]?.all ?? [:] }
    set { extensions[MemberEvidence.self] = newValue.isEmpty ? nil : MemberEvidence(all: newValue) }
  }

  private struct MemberEvidence: Sendable { var all: [String: BundleEvidence] }

  /// Result of checking the evidence; set by `verify-hash-chain`.
  package var verification: BundleVerification? {
    get { extensions[BundleVerification.self] }
    set { extensions[BundleVerification.self] = newValue }
  }
}

/// Proven properties of a bundle, level by level; never that the video shows what was hashed, which cannot be verified.
package struct BundleVerification: Sendable {
  /// The state of the hash chain; `sound` is about its structure, as the hashed camera bytes are not uploaded.
  package enum ChainState: String, Sendable { case sound, broken, absent }
  /// The state of the device's signature; `mock` and `placeholder` are those of debug builds, and `noKey` has no known key to check it.
  package enum AssertionState: String, Sendable {
    case verified, invalid, mock, placeholder, absent
    case noKey = "no-key"
  }
  /// The hash that the signature covers: the chain's end, or that of a checkpoint.
  package enum Coverage: String, Sendable { case final, checkpoint, none }
  /// The verified share of the recording.
  package enum Completeness: String, Sendable { case complete, partial, unknown }

  package var chain = ChainState.absent
  package var chainReason: String?
  package var frames = 0
  package var checkpoints = 0
  package var finalMatchesMetadata: Bool?

  package var assertion = AssertionState.absent
  package var assertionReason: String?
  package var covers = Coverage.none
  /// The device that the key belongs to.
  package var key: String?
  package var counter: UInt32?
  package var checkpoint: Int64?
  package var keysDigest: Digest?

  package var partial = Completeness.unknown
  package var verifiedFrames: Int64 = 0
  package var verifiedSeconds = 0.0
  package var recordedFrames = 0
  package var recordedSeconds = 0.0

  package init() {}

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
