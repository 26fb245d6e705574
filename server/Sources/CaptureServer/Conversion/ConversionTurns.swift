import GRDB

/// The order in which captures are converted. Projects take turns, and in a project its devices, so that one that sends many holds up no
/// other; captures of strangers wait until nothing else does.
struct ConversionTurns: Sendable {
  /// One of whom something waits.
  private struct Sender: Decodable, FetchableRecord {
    var isStranger: Bool
    var project: String
    /// Empty for captures of no device.
    var device: String
    /// Time at which the oldest that waits was received.
    var oldest: Int64

    var names: [[String]] { [[project], [project, device]] }
  }

  private var count: Int64 = 0
  /// The turns in which projects and devices were last served; only of those that still wait.
  private var last: [[String]: Int64] = [:]

  /// Returns the next capture of the queue, a sender's oldest first; `nil` if none is due.
  ///
  /// - Parameter withStrangers: Whether those of strangers have a turn.
  mutating func next(at now: Int64, withStrangers: Bool, _ database: Database) throws -> Capture? {
    let waiting = """
      FROM conversion JOIN capture ON capture.id = conversion.capture
      WHERE state = 'waiting' AND notBefore <= ?\(withStrangers ? "" : " AND NOT isStranger")
      """
    let senders = try Sender.fetchAll(
      database,
      sql: "SELECT isStranger, project, COALESCE(device, '') AS device, MIN(receivedAt) AS oldest \(waiting) GROUP BY 1, 2, 3",
      arguments: [now])
    func rank(_ sender: Sender) -> [Int64] {
      [sender.isStranger ? 1 : 0] + sender.names.map { last[$0] ?? 0 } + [sender.oldest]
    }
    guard let sender = senders.min(by: { rank($0).lexicographicallyPrecedes(rank($1)) }) else { return nil }
    let names = Set(senders.flatMap(\.names))
    last = last.filter { names.contains($0.key) }
    count += 1
    for name in sender.names { last[name] = count }
    return try Capture.fetchOne(
      database,
      sql: """
        SELECT capture.* \(waiting) AND isStranger = ? AND project = ? AND COALESCE(device, '') = ?
        ORDER BY receivedAt, capture.id LIMIT 1
        """, arguments: [now, sender.isStranger, sender.project, sender.device])
  }
}
