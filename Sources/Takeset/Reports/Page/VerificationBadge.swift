import Evidence
import Foundation

/// What was verified of a bundle, in the words of the capture app: "Verified: 9s of 12s recorded".
///
/// It is about a signature over a chain of hashes. No file of a bundle is bound to the chain, so it never says that frames or a video are
/// verified.
struct VerificationBadge: Equatable {
  enum State: String { case complete, partial, none }

  var state: State
  var text: String
  /// Levels that the bundle reached.
  var levels: [String]
  /// What nobody can verify from these files, as sentences that start with "that" or "what".
  var notVerified: [String]
  /// Names and values.
  var facts: [(name: String, value: String)]

  static func == (a: VerificationBadge, b: VerificationBadge) -> Bool {
    (a.state, a.text, a.levels, a.notVerified) == (b.state, b.text, b.levels, b.notVerified) && a.facts.elementsEqual(b.facts) { $0 == $1 }
  }

  /// `verification`: That of a take's record; `nil` for takes without any.
  init?(_ verification: JSONValue?) {
    guard let verification, verification.object != nil else { return nil }
    let chain = verification["chain"], assertion = verification["assertion"], partial = verification["partial"]
    let (verified, recorded) = (partial?["verified_seconds"]?.double ?? 0, partial?["recorded_seconds"]?.double ?? 0)
    if assertion?["state"]?.string == "verified", assertion?["covers"]?.string != "none", verified > 0 {
      state = partial?["state"]?.string == "complete" ? .complete : .partial
      text = "Verified: \(Self.seconds(verified)) of \(Self.seconds(recorded)) recorded"
    } else {
      state = .none
      text = "Not verified: \(Self.reason(chain, assertion))"
    }
    func list(_ key: String) -> [String] { verification[key]?.array?.compactMap(\.string) ?? [] }
    (levels, notVerified, facts) = (list("levels"), list("not_verified"), [])
    func add(_ name: String, _ value: String?) { if let value, !value.isEmpty { facts.append((name, value)) } }
    func exact(_ seconds: Double) -> String { String(format: "%.3f s", seconds) }
    func number(_ value: JSONValue?) -> String? { value?.integer.map { Figures.grouped(Int(clamping: $0)) } }
    if state != .none {
      add(
        "signed",
        "\(exact(verified)) of \(exact(recorded)), \(number(partial?["verified_frames"]) ?? "0") of \(number(partial?["recorded_frames"]) ?? "0") hashes"
      )
      add(
        "signature covers",
        assertion?["covers"]?.string == "checkpoint"
          ? "checkpoint \(number(assertion?["checkpoint"]) ?? "?") of the chain" : "the whole chain")
    } else {
      add("recorded", exact(recorded))
    }
    add("hash chain", [chain?["state"]?.string, chain?["reason"]?.string].compactMap(\.self).joined(separator: ": "))
    add("signature", [assertion?["state"]?.string, assertion?["reason"]?.string].compactMap(\.self).joined(separator: ": "))
    add("device", assertion?["key"]?.string)
    add("counter", number(assertion?["counter"]))
    add("keys file", assertion?["keys_sha256"]?.string.map { "sha256 \($0)" })
  }

  /// Whole seconds, without the fraction: the app shows 9.97 s as "9s".
  private static func seconds(_ value: Double) -> String { value.isFinite ? "\(Int(min(max(value, 0), 1e9)))s" : "?" }

  private static func reason(_ chain: JSONValue?, _ assertion: JSONValue?) -> String {
    if chain?["state"]?.string == "broken" { return "hash chain broken" }
    switch assertion?["state"]?.string {
    case "no-key": return "no key for its device"
    case "absent": return "not signed"
    case "mock", "placeholder": return "signed by a debug build"
    case "invalid": return "signature invalid"
    case "verified": return "nothing is covered by the signature"
    case let other: return other ?? "unknown"
    }
  }

  var json: JSONValue {
    [
      "state": .string(state.rawValue), "text": .string(text), "levels": .array(levels.map { .string($0) }),
      "not_verified": .array(notVerified.map { .string($0) }), "facts": .array(facts.map { [.string($0.name), .string($0.value)] }),
    ]
  }
}
