import Foundation
import Synchronization

/// A bandwidth shared by all uploads: each reserves its bytes in turn and waits until their time.
final class RateLimit: Sendable {
  /// Bytes a second.
  let rate: Double
  private let nextFree = Mutex(0.0)

  init(rate: Double) { self.rate = rate }

  /// Waits until so many bytes may be sent.
  func wait(for bytes: Int) async throws {
    let now = ProcessInfo.processInfo.systemUptime
    let start = nextFree.withLock { next in
      let start = max(next, now)
      next = start + Double(bytes) / rate
      return start
    }
    if start > now { try await Task.sleep(for: .seconds(start - now)) }
  }

  /// The bytes of one request, so that a slow limit still sends evenly: two seconds' worth.
  var chunk: Int { Int(min(max(rate * 2, 16_384), 8_388_608)) }

  /// A number of bytes with k, M or G, each 1024 times the one before; `nil` for anything else or zero.
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
