import Model
import Testing

@testable import Readers

@Suite struct SensorTimesTests {
  private func examined(_ times: [Int64]) -> (kept: [Int64], said: [String: Int?]) {
    let notes = FindingCollector()
    let order = SensorTimes(times.map { Timestamp(nanoseconds: $0) }, file: "imu.csv", notes: notes).order
    #expect(notes.findings.allSatisfy { $0.code == .timeNotAscending && $0.file == "imu.csv" })
    let said = notes.findings.map { finding in
      (String(finding.message.split(separator: " ").prefix(3).joined(separator: " ")), finding.count)
    }
    return (order.map { times[$0] }, Dictionary(uniqueKeysWithValues: said))
  }

  @Test func timesThatAscendAreKeptAsTheyAre() {
    let found = examined([1, 2, 5, 9])
    #expect(found.kept == [1, 2, 5, 9] && found.said.isEmpty)
    #expect(examined([]).kept.isEmpty && examined([7]).kept == [7])
  }

  @Test func ofSeveralSamplesOfOneTimeTheFirstIsKept() {
    let notes = FindingCollector()
    let order = SensorTimes([3, 3, 4, 4, 4, 6].map { Timestamp(nanoseconds: $0) }, file: "imu.csv", notes: notes).order
    #expect(order == [0, 2, 5] && notes.findings.map(\.count) == [3])
  }

  @Test(
    arguments: [
      [1, 2, 4, 3, 5, 6, 8, 7, 9], [5, 6, 7, 8, 9, 1, 2, 3, 4], [9, 8, 7, 6, 5, 4, 3, 2, 1], [3, 9, 1, 7, 5, 2, 8, 4, 6],
    ] as [[Int64]])
  func linesThatWereMovedAreSorted(_ times: [Int64]) {
    let found = examined(times)
    #expect(found.kept == Array(1...9))
    #expect(found.said == ["readings are earlier": zip(times, times.dropFirst()).count { $0 > $1 }])
  }

  @Test func aStretchThatStandsTwiceIsThereOnce() {
    let found = examined(Array(0..<20) + Array(10..<20) + Array(20..<40))
    #expect(found.kept == Array(0..<40) && found.said.values.contains(10))
  }

  @Test func momentsOfAClockThatWasSetBackDoNotAlternate() {
    // Back by 1 s at 2 s, with readings between those of before.
    let before = (0..<200).map { Int64($0) * 10 }, after = (0..<300).map { 1003 + Int64($0) * 10 }
    let found = examined(before + after)
    #expect(found.said == ["readings do not": 99])
    #expect(found.kept.count == 401 && zip(found.kept, found.kept.dropFirst()).allSatisfy { $0 < $1 })
    // One pass goes over into the other once.
    let isFirst = found.kept.map { $0 % 10 == 0 }
    #expect(zip(isFirst, isFirst.dropFirst()).count { $0 != $1 } == 1)
  }
}
