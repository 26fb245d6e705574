import Media
import Model
import Testing
import TestSupport

@testable import Readers
@testable import Steps

@Suite struct SlowMotionVideoTests {
  /// Clocks that were never set begin in 1904, 1970 or 1980.
  @Test(arguments: [("1980-01-06T00:00:00Z", nil), ("2026-02-18T20:20:00Z", "2026-02-18")] as [(String, String?)])
  func aVideoOfAClockThatWasNotSetHasNoDate(created: String, day: String?) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/clip.mp4"
    let size = ImageSize(width: 64, height: 48)
    var options = MovieEncoder.Options(size: size)
    options.created = created
    let encoder = try MovieEncoder(path, options)
    let gray = [UInt8](repeating: 90, count: 3 * size.width * size.height)
    for tick in stride(from: Int64(0), to: 100, by: 20) { try encoder.add(gray, at: tick) }
    try encoder.finish()
    let place = TakeLocation(path: path, isDirectory: false)
    let reader = SlowMotionVideo()
    let episode = try reader.open(Take(id: "clip", location: place, inputs: reader.inputs(of: place)))
    #expect(episode.dates.map(\.day) == [day].compactMap(\.self))
  }
}
