import Evidence
import Foundation

/// The result of a capture's conversion, in the words of the dataset's manifest, as pages show it.
struct CaptureEvidence {
  private let found: JSONValue
  /// The labels that the capture has of its own: from its format, or from a file in it.
  let labels: CaptureLabels

  /// `nil` for what is no JSON.
  init?(_ text: String) {
    guard let found = try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8)) else { return nil }
    self.found = found.shortened
    labels = CaptureLabels(recorded: found["labels"].map { [$0] } ?? [])
  }

  /// Seconds from the first frame of the take to the first row.
  var firstRow: Double { (found["first_row_ns"]?.double ?? 0) / 1e9 }

  /// Levels in order, in words, and what each proves.
  private static let meanings = [
    ("bytes-sealed-at-ingest", "Sealed at arrival", "The files are those that arrived: the dataset names their SHA-256."),
    ("chain-structure-ok", "Hash chain complete", "The hash chain is complete, and its parts agree with each other and with the metadata."),
    ("assertion-ok", "Signed by a registered phone", "A registered phone's key signed the last hash of the chain."),
  ]
  /// The meaning of the last level where the phone was interrupted, and where the signature is genuine but not about this chain.
  private static let signatures = [
    "checkpoint": "A registered phone's key signed the chain up to a checkpoint.",
    "none": "A registered phone's key made the signature, but it covers no hash of this chain.",
  ]

  struct Level {
    /// The take's id in the manifest.
    var id: String
    var name: String
    var meaning: String
    var isReached: Bool
  }

  /// Empty for captures that cannot prove anything, such as movies.
  var levels: [Level] {
    guard let reached = found["levels"]?.array?.compactMap(\.string) else { return [] }
    let signature = Self.signatures[found["assertion"]?["covers"]?.string ?? ""]
    return Self.meanings.map { id, name, meaning in
      guard id == "assertion-ok" else { return Level(id: id, name: name, meaning: meaning, isReached: reached.contains(id)) }
      // A genuine signature beside a broken chain, or over another one, proves nothing of these files.
      let isAbout = found["chain"]?["state"]?.string == "sound" && found["assertion"]?["covers"]?.string != "none"
      let isMade = reached.contains(id)
      return Level(id: id, name: name, meaning: isMade ? signature ?? meaning : meaning, isReached: isMade && isAbout)
    }
  }

  /// Sentences that begin with "that" or "what".
  var unverified: [String] { found["not_verified"]?.array?.compactMap(\.string) ?? [] }

  var badge: VerificationBadge? { VerificationBadge(found) }

  /// The badge's words. Where the server lacks a setting, that is the reason, and not a key.
  var badgeText: String? {
    found["assertion"]?["reason"]?.string == ConversionReport.noApps ? "Not verified: \(ConversionReport.noApps)" : badge?.text
  }

  typealias Fact = (name: String, value: String)

  static let signingDevice = "signing device"

  /// Facts about the chain and its signature.
  var facts: [Fact] {
    var facts: [Fact] = []
    func add(_ name: String, _ parts: [String?]) {
      let known = parts.compactMap(\.self)
      if !known.isEmpty { facts.append((name, known.joined(separator: ", "))) }
    }
    let (chain, assertion, partial) = (found["chain"], found["assertion"], found["partial"])
    add(
      "hash chain",
      [chain?["state"]?.string, chain?["frames"]?.integer.flatMap { $0 > 0 ? "\($0) hashes" : nil }, chain?["reason"]?.string])
    add("chain's signature", Self.signature(assertion))
    if let verified = partial?["verified_frames"]?.shown, let recorded = partial?["recorded_frames"]?.shown {
      add("signed hashes", ["\(verified) of \(recorded)"])
    }
    add(Self.signingDevice, [assertion?["key"]?.string])
    return facts
  }

  /// Parts of a sentence about the chain's signature. Only one that is verified covers anything, and a reason says why one is not checked.
  private static func signature(_ assertion: JSONValue?) -> [String?] {
    let (state, reason) = (assertion?["state"]?.string, assertion?["reason"]?.string)
    let covers = ["final": "over the whole chain", "checkpoint": "up to a checkpoint", "none": "over no hash of it"]
    switch state {
    case "verified": return [state, covers[assertion?["covers"]?.string ?? ""], reason]
    case "no-key": return [reason ?? "not checked: there is no key for its device"]
    case "absent": return ["there is none", reason]
    default: return [state, reason]
    }
  }

  /// Figures of the depth maps in the order in which they are read: how many, what size, and what they say of the scene.
  private static let depthNames = [
    ("keyframes", "depth maps"), ("samples", "depth maps measured"), ("alignment", "images with depth"), ("width", "width of a depth map"),
    ("height", "height of a depth map"), ("is_likely_real_scene", "likely a real scene"), ("depth_consistency", "depth consistency"),
    ("motion_coherence", "motion coherence"), ("scene_stability", "scene stability"), ("suspicious_keyframes", "suspicious depth maps"),
  ]

  var depthFacts: [Fact] {
    let depth = found["depth"]?.object ?? [:]
    let others = depth.keys.filter { key in !Self.depthNames.contains { $0.0 == key } }.sorted().map { ($0, $0.replacing("_", with: " ")) }
    return (Self.depthNames + others).compactMap { key, name in depth[key]?.shown.map { (name, $0) } }
  }

  struct Finding {
    var severity: String
    var code: String
    var message: String
  }

  var findings: [Finding] {
    (found["findings"]?.array ?? []).map {
      Finding(severity: $0["severity"]?.string ?? "", code: $0["code"]?.string ?? "", message: $0["message"]?.string ?? "")
    }
  }

  /// The outcome of each take of a capture with several, as sentences.
  var takes: [Fact] {
    let takes = found["takes"]?.array ?? []
    guard takes.count > 1 else { return [] }
    return takes.map { take in
      let rows = take["outcome"]?.string == "written" ? take["rows"]?.shown.map { "\($0) rows" } : nil
      return (take["id"]?.string ?? "", [take["outcome"]?.string, rows, take["reason"]?.string].compactMap(\.self).joined(separator: ", "))
    }
  }
}

extension JSONValue {
  /// The value with all texts cut to a length that somebody may read: they are a client's and have any length.
  fileprivate var shortened: JSONValue {
    switch self {
    case .string(let text): .string(Figure.short(text))
    case .array(let list): .array(list.map(\.shortened))
    case .object(let members):
      .object(Dictionary(members.map { (Figure.short($0, 100), $1.shortened) }, uniquingKeysWith: { first, _ in first }))
    default: self
    }
  }

  /// The value as people read it; `nil` for one without a short form.
  fileprivate var shown: String? {
    switch self {
    case .bool(let truth): truth ? "yes" : "no"
    case .integer(let whole): "\(whole)"
    case .number(let number): "\((number * 1000).rounded() / 1000)"
    case .string(let text): text
    case .array(let list): list.isEmpty ? "none" : list.compactMap(\.shown).joined(separator: ", ")
    case .null, .object: nil
    }
  }
}
