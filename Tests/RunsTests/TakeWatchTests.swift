import Foundation
import Model
import Testing
import TestSupport

@testable import Runs
@testable import Steps

/// Takes are files whose name ends in `.take`; and `NAME.json` next to `NAME.take`, which then belongs to it.
private struct OneFile: Reader {
  static let name = "one-file"
  static let summary = "Takes of one file, for tests"

  func recognize(_ place: TakePlace) throws -> Candidate? {
    let movie = place.path.dropLast(".json".count) + ".take"
    let isList = try place.name.hasSuffix(".json") && Directory.kind(at: String(movie)) == .file
    guard isList || place.name.hasSuffix(".take") else { return nil }
    return Candidate(.certain, stem: place.stem, companions: isList ? [String(movie)] : []) { [path = place.path] in
      TakeInputs(file: path, role: .movie)
    }
  }

  func open(_ take: Take) throws -> Episode { throw TakeFailure(.internal, "is never opened") }
}

@Suite struct TakeWatchTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  /// Looks at the inputs at a time in seconds, and gives the names of the takes that are ready.
  private func watch() -> (Double) -> [String] {
    var watch = TakeWatch(inputs: [directory.path + "/in"], readers: [OneFile()], settle: 10)
    return { watch.look(now: $0, limit: 10, isComplete: true).ready.map { URL(fileURLWithPath: $0).lastPathComponent } }
  }

  @Test func aFileInTheInputIsReadyWhenItRests() throws {
    try directory.write("in/a.take", [1])
    let ready = watch()
    #expect(ready(0) == [] && ready(9) == [])
    try directory.write("in/a.take", [1, 2])
    #expect(ready(10) == [] && ready(19) == [])
    #expect(ready(20) == ["a.take"])
    #expect(ready(40) == [], "it is given out once")
  }

  /// A movie is copied before the other files of its folder.
  @Test func aFileInAFolderWaitsUntilTheWholeFolderRests() throws {
    try directory.write("in/copy/a.take", [1])
    let ready = watch()
    #expect(ready(0) == [])
    for now in stride(from: 5, through: 30, by: 5) {
      try directory.write("in/copy/\(now).bin", [1])
      #expect(ready(Double(now)) == [], "\(now) s: another file has arrived")
    }
    #expect(ready(39) == [] && ready(40) == ["a.take"])
  }

  @Test func aFileThatBelongsToAnotherTakeIsNoTakeWhicheverArrivesFirst() throws {
    try directory.write("in/a.take", [1])
    try directory.write("in/b.json", [1])
    let ready = watch()
    #expect(ready(0) == [] && ready(10) == ["a.take"], "nothing says yet that a movie belongs to a list")
    try directory.write("in/a.json", [1])
    try directory.write("in/b.take", [1])
    #expect(ready(11) == [] && ready(21) == ["a.json", "b.json"])
    try directory.write("in/a.take", [1, 2])
    #expect(ready(22) == [] && ready(31) == [], "the take waits until its movie rests")
    #expect(ready(32) == ["a.json"])
    try FileManager.default.removeItem(atPath: directory.path + "/in/b.json")
    #expect(ready(33) == [] && ready(34) == [] && ready(44) == ["b.take"])
  }
}
