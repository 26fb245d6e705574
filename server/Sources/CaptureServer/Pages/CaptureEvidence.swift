import Foundation

/// What a conversion found out about a capture, in the words of the dataset's manifest, as pages show it.
struct CaptureEvidence {
  private let found: JSONValue

  /// `nil` for what is no JSON.
  init?(_ text: String) {
    guard let found = try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8)) else { return nil }
    self.found = found
  }

  /// Levels in order, and what each proves.
  private static let meanings = [
    ("bytes-sealed-at-ingest", "The files are those that arrived: the dataset names their SHA-256."),
    ("chain-structure-ok", "The hash chain is complete, and its parts agree with each other and with the metadata."),
    ("assertion-ok", "A registered phone's key signed the last hash of the chain."),
  ]
  /// What the last level proves where the phone was interrupted, and where the signature is genuine but not about this chain.
  private static let signatures = [
    "checkpoint": "A registered phone's key signed the chain up to a checkpoint.",
    "none": "A registered phone's key made the signature, but it covers no hash of this chain.",
  ]

  struct Level {
    var name: String
    var meaning: String
    var isReached: Bool
  }

  /// Empty for captures that cannot prove anything, such as movies.
  var levels: [Level] {
    guard let reached = found["levels"]?.list.compactMap(\.text) else { return [] }
    let signature = Self.signatures[found["assertion"]?["covers"]?.text ?? ""]
    return Self.meanings.map { name, meaning in
      let isReached = reached.contains(name)
      return Level(name: name, meaning: isReached && name == "assertion-ok" ? signature ?? meaning : meaning, isReached: isReached)
    }
  }

  /// Sentences that begin with "that" or "what".
  var unverified: [String] { found["not_verified"]?.list.compactMap(\.text) ?? [] }

  struct Badge {
    var text: String
    var isWhole: Bool
  }

  /// Such as "Verified: 10.0 s of 12.0 s recorded"; it is about a signature, never about what the images show.
  var badge: Badge? {
    guard let partial = found["partial"], let assertion = found["assertion"] else { return nil }
    let (verified, recorded) = (partial["verified_seconds"]?.double ?? 0, partial["recorded_seconds"]?.double ?? 0)
    guard assertion["state"]?.text == "verified", assertion["covers"]?.text != "none", verified > 0 else {
      return Badge(text: "Not verified", isWhole: false)
    }
    func text(_ seconds: Double) -> String { "\((seconds * 10).rounded() / 10) s" }
    return Badge(text: "Verified: \(text(verified)) of \(text(recorded)) recorded", isWhole: partial["state"]?.text == "complete")
  }

  typealias Fact = (name: String, value: String)

  /// Of the chain and its signature.
  var facts: [Fact] {
    var facts: [Fact] = []
    func add(_ name: String, _ parts: [String?]) {
      let known = parts.compactMap(\.self)
      if !known.isEmpty { facts.append((name, known.joined(separator: ", "))) }
    }
    let (chain, assertion, partial) = (found["chain"], found["assertion"], found["partial"])
    add("hash chain", [chain?["state"]?.text, chain?["frames"]?.shown.map { "\($0) hashes" }, chain?["reason"]?.text])
    let covers: [String: String] = ["final": "over the whole chain", "checkpoint": "up to a checkpoint", "none": "over no hash of it"]
    add("chain's signature", [assertion?["state"]?.text, covers[assertion?["covers"]?.text ?? ""], assertion?["reason"]?.text])
    if let verified = partial?["verified_frames"]?.shown, let recorded = partial?["recorded_frames"]?.shown {
      add("signed hashes", ["\(verified) of \(recorded)"])
    }
    add("signing device", [assertion?["key"]?.text])
    return facts
  }

  private static let depthNames = [
    "alignment": "images with depth", "is_likely_real_scene": "likely a real scene", "depth_consistency": "depth consistency",
    "motion_coherence": "motion coherence", "scene_stability": "scene stability", "suspicious_keyframes": "suspicious depth maps",
    "keyframes": "depth maps", "samples": "depth maps measured", "width": "width of a depth map", "height": "height of a depth map",
  ]

  var depthFacts: [Fact] {
    (found["depth"]?.members ?? [:]).sorted { $0.key < $1.key }.compactMap { name, value in
      value.shown.map { (Self.depthNames[name] ?? name.replacing("_", with: " "), $0) }
    }
  }

  struct Finding {
    var severity: String
    var code: String
    var message: String
  }

  var findings: [Finding] {
    (found["findings"]?.list ?? []).map {
      Finding(severity: $0["severity"]?.text ?? "", code: $0["code"]?.text ?? "", message: $0["message"]?.text ?? "")
    }
  }

  /// What became of each take of a capture with several, as sentences.
  var takes: [Fact] {
    let takes = found["takes"]?.list ?? []
    guard takes.count > 1 else { return [] }
    return takes.map { take in
      let rows = take["outcome"]?.text == "written" ? take["rows"]?.shown.map { "\($0) rows" } : nil
      return (take["id"]?.text ?? "", [take["outcome"]?.text, rows, take["reason"]?.text].compactMap(\.self).joined(separator: ", "))
    }
  }
}

extension JSONValue {
  fileprivate var double: Double? {
    switch self {
    case .whole(let whole): Double(whole)
    case .number(let number): number
    default: nil
    }
  }

  /// As people read it; `nil` for what has no short form.
  fileprivate var shown: String? {
    switch self {
    case .truth(let truth): truth ? "yes" : "no"
    case .whole(let whole): "\(whole)"
    case .number(let number): "\((number * 1000).rounded() / 1000)"
    case .text(let text): text
    case .list(let list): list.isEmpty ? "none" : list.compactMap(\.shown).joined(separator: ", ")
    case .null, .object: nil
    }
  }
}
