/// What becomes of a bundle on its way to the server. A value that an app keeps with the bundle; it touches nothing.
///
/// Times are seconds on one clock that only goes forward.
public struct UploadState: Codable, Sendable, Equatable {
  public enum Phase: Codable, Sendable, Equatable {
    case pending
    case uploading
    /// Tried again then, or at once when there is a network.
    case waiting(until: Double)
    /// The server does not know the device any more.
    case needsRegistration
    case uploaded
    /// No other attempt can succeed unless a person changes something.
    case failed(String)
  }

  public enum Event: Sendable, Equatable {
    /// Time has passed, or the app has begun.
    case tick
    case networkIsBack
    /// The server's answer, with the seconds of its Retry-After.
    case answer(status: Int, retryAfter: Double?)
    /// The connection ended without an answer.
    case noAnswer
    case registered
    /// A person asks for another attempt.
    case retry
  }

  public enum Effect: Sendable, Equatable { case upload, register }

  /// Seconds before the next attempt at most.
  static let longestPause = 60.0

  public private(set) var phase = Phase.pending
  /// Attempts in a row that have failed.
  public private(set) var failures = 0

  public init() {}

  public mutating func handle(_ event: Event, at time: Double) -> [Effect] {
    switch (phase, event) {
    case (.pending, .tick), (.pending, .retry): return begin()
    case (.waiting(let until), .tick): return time >= until ? begin() : []
    case (.waiting, .networkIsBack), (.waiting, .retry), (.failed, .retry): return begin()
    case (.needsRegistration, .registered): return begin()
    case (.needsRegistration, .retry): return [.register]
    case (.uploading, .noAnswer): wait(from: time, atLeast: 0)
    case (.uploading, .answer(let status, let retryAfter)): return take(status, retryAfter, at: time)
    default: break
    }
    return []
  }

  private mutating func begin() -> [Effect] {
    phase = .uploading
    return [.upload]
  }

  private mutating func wait(from time: Double, atLeast least: Double) {
    let pause = failures < 6 ? Double(1 << failures) : Self.longestPause
    failures += 1
    phase = .waiting(until: time + max(pause, least))
  }

  private mutating func take(_ status: Int, _ retryAfter: Double?, at time: Double) -> [Effect] {
    switch status {
    case 200..<300: (phase, failures) = (.uploaded, 0)
    case 401:
      phase = .needsRegistration
      return [.register]
    case 413: phase = .failed("The recording is larger than the server takes")
    case 408, 425, 429, 500...: wait(from: time, atLeast: min(max(retryAfter ?? 0, 0), 86_400))
    default: phase = .failed("The server refused the recording (\(status))")
    }
    return []
  }
}
