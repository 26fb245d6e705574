/// The share of a recording that a signature covers, in words: "Verified: 10.0 s of 12.0 s recorded".
///
/// It is about a signature over a chain of hashes. No file of a bundle is bound to the chain, so it never says that frames or a video are
/// verified.
public struct VerificationBadge: Equatable, Sendable {
  /// The verified share: all of the recording, its beginning, or nothing.
  public enum State: String, Sendable, Codable, CaseIterable { case complete, partial, none }

  public let state: State
  public let text: String

  /// - Parameter verification: That of a take's record; `nil` for takes without any.
  public init?(_ verification: JSONValue?) {
    guard let verification, let partial = verification["partial"], let assertion = verification["assertion"] else { return nil }
    let (verified, recorded) = (partial["verified_seconds"]?.double ?? 0, partial["recorded_seconds"]?.double ?? 0)
    guard assertion["state"]?.string == "verified", assertion["covers"]?.string != "none", verified > 0 else {
      state = .none
      text = "Not verified: \(Self.reason(chain: verification["chain"], assertion))"
      return
    }
    state = partial["state"]?.string == "complete" ? .complete : .partial
    let whole = Self.tenths(recorded)
    // What is verified in part never reads as if it were the whole.
    let part = state == .partial ? max(min(Self.tenths(verified), whole - 1), 0) : Self.tenths(verified)
    text = "Verified: \(Self.seconds(part)) of \(Self.seconds(whole)) recorded"
  }

  private static func tenths(_ seconds: Double) -> Int { seconds.isFinite ? Int((min(max(seconds, 0), 1e9) * 10).rounded()) : 0 }

  private static func seconds(_ tenths: Int) -> String { "\(tenths / 10).\(tenths % 10) s" }

  private static func reason(chain: JSONValue?, _ assertion: JSONValue) -> String {
    if chain?["state"]?.string == "broken" { return "hash chain broken" }
    switch assertion["state"]?.string {
    case "no-key": return "no key for its device"
    case "absent": return "not signed"
    case "mock", "placeholder": return "signed by a debug build"
    case "invalid": return "signature invalid"
    case "verified": return "nothing is covered by the signature"
    case let other: return other ?? "unknown"
    }
  }
}
