import Crypto
import Foundation
import GRDB

/// The decision, in the transaction that would insert a capture, whether a request is new, one that was answered before, or refused.
struct VideoAcceptance: Sendable {
  let device: String
  /// Milliseconds since 1970, when the request came.
  let now: Int64
  let limit: Int
  /// `Capture.isStranger`.
  let isStranger: Bool
  let idempotencyKey: String?
  let contentDigest: String
  /// Digest of the request, word for word.
  let requestDigest: String
  let proof: Proof?
  let capture: String

  /// A signature, which counts once.
  struct Proof: Sendable {
    /// `RequestSignature.number`.
    var number: Int64
    /// Digest of the contents that it was sent with when it counted.
    var digest: String
  }

  /// An hour in milliseconds.
  private static let hour: Int64 = 3_600_000
  /// Bytes of a body that are in no part: a few hundred, in the form that the apps send.
  static let frame: Int64 = 8192

  /// The capture that answered this request before, or `nil` for a new one. Throws `Failure`: 401 for a number that signed something else,
  /// 409 for an idempotency key of other parts, 429 above the limit.
  func earlier(_ database: Database) throws -> Capture? {
    if let proof, let seen = try SeenAssertion.fetchOne(database, key: ["device": device, "counter": proof.number]) {
      guard seen.requestDigest == proof.digest, let first = try Capture.fetchOne(database, key: seen.capture) else {
        throw Failure(
          .unauthorized, "REPLAY_DETECTED", "The request's signature was used before", reason: "\(device) used \(proof.number) twice")
      }
      return first
    }
    let earlier = try known(database) ?? Capture.filter(Column("contentDigest") == contentDigest).fetchOne(database)
    if earlier == nil { try Self.checkRate(of: device, isStranger: isStranger, limit: limit, now: now, database) }
    if let proof {
      try SeenAssertion(device: device, counter: proof.number, requestDigest: proof.digest, capture: earlier?.id ?? capture).insert(
        database)
    }
    return earlier
  }

  /// The capture of the idempotency key. Throws `Failure` 409 if it has other parts.
  private func known(_ database: Database) throws -> Capture? {
    guard let idempotencyKey, let known = try Self.capture(of: device, idempotencyKey: idempotencyKey, database) else { return nil }
    guard known.contentDigest == contentDigest else {
      throw Failure(.conflict, "IDEMPOTENCY_KEY_REUSED", "The Idempotency-Key belongs to a capture with other contents")
    }
    return known
  }

  private static func capture(of device: String, idempotencyKey: String, _ database: Database) throws -> Capture? {
    try Capture.filter(Column("device") == device && Column("idempotencyKey") == idempotencyKey).fetchOne(database)
  }

  /// Throws `Failure` 429 if a device has sent as many videos in the last hour as it may. What strangers sent in its name does not count
  /// against those who can prove something: a device's id is no secret.
  static func checkRate(of device: String, isStranger: Bool, limit: Int, now: Int64, _ database: Database) throws {
    let last = try Int64.fetchOne(
      database,
      sql:
        """
        SELECT receivedAt FROM capture WHERE device = ? AND type = 'video' AND receivedAt > ? AND isStranger <= ?
        ORDER BY receivedAt DESC LIMIT 1 OFFSET ?
        """, arguments: [device, now - hour, isStranger, limit - 1])
    guard let last else { return }
    let seconds = min(max((last + hour - now + 999) / 1000, 1), 3600)
    throw Failure(
      .tooManyRequests, "RATE_LIMITED", "At most \(limit) videos of a device are accepted in an hour. Try again in \(seconds) s.",
      headers: [.retryAfter: "\(seconds)"])
  }

  /// Whether a request whose body has not come yet may be one that was answered before: it then counts against no limit and no quota.
  static func mayBeRepeated(
    _ device: String, signature number: Int64?, idempotencyKey: String?, length: Int64?, _ database: Database
  ) throws -> Bool {
    if let number, try SeenAssertion.exists(database, key: ["device": device, "counter": number]) { return true }
    if let idempotencyKey, try capture(of: device, idempotencyKey: idempotencyKey, database) != nil { return true }
    guard let length else { return true }
    return try Bool.fetchOne(
      database, sql: "SELECT EXISTS (SELECT 1 FROM capture WHERE device = ? AND type = 'video' AND bytes BETWEEN ? AND ?)",
      arguments: [device, length - frame, length]) ?? false
  }
}
