import Foundation
import Synchronization

/// A bandwidth shared by all uploads: each reserves time for its bytes in turn, and has paid when that time is over.
final class RateLimit: Sendable {
  /// Bytes a second.
  let rate: Double
  private let nextFree = Mutex<Double?>(nil)

  init(rate: Double) { self.rate = rate }

  /// Waits until so many bytes may be sent. Returns when their time is over, in seconds of the system's uptime.
  func wait(for bytes: Int) async throws -> Double {
    let now = ProcessInfo.processInfo.systemUptime
    let (start, end) = nextFree.withLock { next in
      // What a slow answer cost is made up for, up to a second.
      let start = max(next ?? now, now - 1)
      let end = start + Double(bytes) / rate
      next = end
      return (start, end)
    }
    try await Self.sleep(until: start)
    return end
  }

  static func sleep(until time: Double) async throws {
    let now = ProcessInfo.processInfo.systemUptime
    if time > now { try await Task.sleep(for: .seconds(time - now)) }
  }

  /// The bytes of one request, so that a slow limit still sends evenly: half a second's worth.
  var chunk: Int { Int(min(max(rate / 2, 16_384), 8_388_608)) }

  /// A number of bytes with k, M or G, each 1024 times the one before; `nil` for anything else or less than one.
  static func bytes(_ text: String) -> Double? {
    var digits = Substring(text)
    var factor = 1.0
    if let last = text.last, let power = ["k": 1, "m": 2, "g": 3][last.lowercased()] {
      factor = pow(1024, Double(power))
      digits = text.dropLast()
    }
    guard let number = Double(digits), number.isFinite, number * factor >= 1 else { return nil }
    return number * factor
  }
}
