import Evidence
import Foundation
import Model

/// The result of verifying a bundle: the badge, and the facts behind it.
struct VerificationDetails {
  let badge: VerificationBadge
  /// Levels that the bundle reached.
  private(set) var levels: [String]
  /// Statements that nobody can verify from these files, as sentences that start with "that" or "what".
  private(set) var notVerified: [String]
  /// Names and values.
  private(set) var facts: [(name: String, value: String)]

  /// `verification`: That of a take's record; `nil` for takes without any.
  init?(_ verification: JSONValue?) {
    guard let verification, let badge = VerificationBadge(verification) else { return nil }
    self.badge = badge
    let chain = verification["chain"], assertion = verification["assertion"], partial = verification["partial"]
    let (verified, recorded) = (partial?["verified_seconds"]?.double ?? 0, partial?["recorded_seconds"]?.double ?? 0)
    func list(_ key: String) -> [String] { verification[key]?.array?.compactMap(\.string) ?? [] }
    (levels, notVerified, facts) = (list("levels"), list("not_verified"), [])
    func add(_ name: String, _ value: String?) { if let value, !value.isEmpty { facts.append((name, value)) } }
    func exact(_ seconds: Double) -> String { String(format: "%.3f s", seconds) }
    func number(_ value: JSONValue?) -> String? { value?.integer.map { Int(clamping: $0).grouped } }
    if badge.state != .none {
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

  var json: JSONValue {
    [
      "state": .string(badge.state.rawValue), "text": .string(badge.text), "levels": .array(levels.map { .string($0) }),
      "not_verified": .array(notVerified.map { .string($0) }), "facts": .array(facts.map { [.string($0.name), .string($0.value)] }),
    ]
  }
}
