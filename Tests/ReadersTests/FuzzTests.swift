import Evidence
import Model
import Simulate
import Testing
import TestSupport

@testable import Readers

/// Files that have been damaged at random end in findings and in errors that are meant for them. The same seeds every time; `Fuzz/` goes on
/// for longer.
@Suite struct FuzzTests {
  /// 8 parts with so many each: 10,000 in all.
  private static let cases = 1250

  @Test(arguments: FuzzedSession.Part.allCases) func damagedFilesEndInFindingsOrClearErrors(part: FuzzedSession.Part) throws {
    let session = try FuzzedSession()
    let sound = try #require(session.sound[part])
    #expect(try session.open(part, sound) == nil)
    var mutator = Mutator(seed: UInt64(sound.count))
    var failures = 0
    for number in 0..<Self.cases {
      let bytes = mutator.damaged(sound)
      do {
        if try session.open(part, bytes) != nil { failures += 1 }
      } catch {
        Issue.record("case \(number) of \(part.rawValue): \(error)")
      }
    }
    // Most damage to these is noticed; a movie and a calibration may be done without.
    if ![.movie, .calibration].contains(part) { #expect(failures > Self.cases / 10) }
  }
}
