import Foundation

/// One moment on two clocks: that of the camera's frames, which counts from the phone's start, and Unix time. Nanoseconds.
/// It puts readings with Unix times, such as those of joint encoders, on the frames' clock, and back; a clock that is set meanwhile changes
/// nothing.
///
///     let start = ClockPair.now()
///     start.uptime(of: unixTime)                   // on the frames' clock
public struct ClockPair: Sendable, Equatable {
  public var uptime: Int64
  public var unix: Int64

  public init(uptime: Int64, unix: Int64) { (self.uptime, self.unix) = (uptime, unix) }

  #if canImport(Darwin)
    /// The clock of ARKit's frames, which stands still while the phone sleeps, as Apple's CLOCK_MONOTONIC does not.
    public static let frames = CLOCK_UPTIME_RAW
  #else
    public static let frames = CLOCK_MONOTONIC
  #endif

  /// Now: of some readings, the one during which the least time passed.
  ///
  /// - Parameter uptime: Reads the clock of the frames.
  public static func now(uptime: () -> Int64 = { read(frames) }) -> ClockPair {
    var best: (pair: ClockPair, width: Int64)?
    for _ in 0..<8 {
      let before = uptime()
      let unix = read(CLOCK_REALTIME)
      let width = uptime() &- before
      if width < best?.width ?? .max { best = (ClockPair(uptime: before &+ width / 2, unix: unix), width) }
    }
    return best?.pair ?? ClockPair(uptime: uptime(), unix: read(CLOCK_REALTIME))
  }

  /// Returns the Unix time of a time on the frames' clock, both in nanoseconds.
  public func unix(of time: Int64) -> Int64 { unix &+ (time &- uptime) }
  /// Returns the time on the frames' clock of a Unix time, both in nanoseconds.
  public func uptime(of time: Int64) -> Int64 { uptime &+ (time &- unix) }

  /// Returns the clock's time in nanoseconds. `clock_gettime`.
  public static func read(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}
