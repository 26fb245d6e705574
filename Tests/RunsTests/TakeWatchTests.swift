import Foundation
import Model
import Testing
import TestSupport

@testable import Runs
@testable import Steps

/// Takes are files whose name ends in `.take`.
private struct OneFile: Reader {
  static let name = "one-file"
  static let summary = "Takes of one file, for tests"

  func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.name.hasSuffix(".take") else { return nil }
    return Candidate(.certain, stem: place.stem) { [path = place.path] in TakeInputs(file: path, role: .movie) }
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
}
