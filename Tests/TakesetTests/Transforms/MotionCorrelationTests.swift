import Foundation
import Testing

@testable import Takeset

@Suite struct MotionCorrelationTests {
  private func rate(_ time: Double) -> Double { abs(0.5 + 0.8 * sin(1.7 * time) + 0.4 * sin(4.3 * time + 1) + 0.2 * sin(9.1 * time)) }

  /// Poses at 60 Hz give the mean rate between two of them; the gyroscope at 100 Hz the rate at a moment, on a clock that is `offset`
  /// seconds behind, late by up to `jitter`.
  private func series(
    seconds: Double, offset: Double, jitter: Double = 0, noise: Double = 0
  ) -> (poses: MotionCorrelation.Series, gyro: MotionCorrelation.Series) {
    var state: UInt64 = 88_172_645_463_325_252
    func random() -> Double {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      return Double(state >> 11) * 0x1p-53
    }
    let frames = stride(from: 0, to: seconds, by: 1 / 60.0).map { $0 + 1 / 120 }
    let poses = MotionCorrelation.Series(
      times: frames, values: frames.map { time in (0..<8).reduce(0) { $0 + rate(time + (Double($1) - 3.5) / 480) } / 8 })
    let readings = stride(from: 0, to: seconds, by: 0.01)
    let gyro = MotionCorrelation.Series(
      times: readings.map { $0 - offset + jitter * random() }, values: readings.map { rate($0) + noise * (random() - 0.5) })
    return (poses, gyro)
  }

  @Test(arguments: [-1.234, -0.0171, 0, 0.4, 2.2]) func findsTheOffset(offset: Double) throws {
    let (poses, gyro) = series(seconds: 20, offset: offset)
    let found = try #require(MotionCorrelation(poses: poses, gyro: gyro, guess: 0))
    #expect(abs(Double(found.offset) / 1e9 - offset) < 0.002)
    #expect(found.correlation > 0.99 && found.residual < 5_000_000)
  }

  /// Readings that come up to 20 ms late shift the result by their mean lateness, no more.
  @Test func takesJitterForWhatItIs() throws {
    let (poses, gyro) = series(seconds: 30, offset: 0.3, jitter: 0.020, noise: 0.1)
    let found = try #require(MotionCorrelation(poses: poses, gyro: gyro, guess: 0))
    #expect(abs(Double(found.offset) / 1e9 - 0.3 + 0.010) < 0.005)
  }

  @Test func refusesWhatShowsNothing() {
    let (poses, gyro) = series(seconds: 20, offset: 0)
    func still(_ series: MotionCorrelation.Series) -> MotionCorrelation.Series {
      .init(times: series.times, values: series.values.map { _ in 0.1 })
    }
    #expect(MotionCorrelation(poses: still(poses), gyro: gyro, guess: 0) == nil)
    #expect(MotionCorrelation(poses: poses, gyro: .init(times: gyro.times, values: gyro.values.reversed()), guess: 0) == nil)
    #expect(MotionCorrelation(poses: poses, gyro: gyro, guess: 8) == nil)
    #expect(MotionCorrelation(poses: .init(times: [], values: []), gyro: gyro, guess: 0) == nil)
    // Motion that repeats every half second tells the offset only up to half seconds.
    let beat = stride(from: 0, to: 20, by: 1 / 60.0).map { $0 }
    let regular = MotionCorrelation.Series(times: beat, values: beat.map { 1 + sin(4 * .pi * $0) })
    #expect(MotionCorrelation(poses: regular, gyro: regular, guess: 0) == nil)
  }
}
