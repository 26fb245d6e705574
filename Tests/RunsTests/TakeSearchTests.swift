import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps
@testable import Transforms

/// Takes are files whose name ends in a word; which word, the options say.
private struct Marked: Reader {
  static let name = "marked"
  static let summary = "Files with an ending, for tests"
  static let needsAlign = false
  @StepOption("the extension") var ending = "take"
  @StepOption("whether names are of no use") var isGeneric = false

  func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.name.hasSuffix("." + ending) else { return nil }
    return Candidate(.certain, stem: place.stem, hasGenericName: isGeneric) { [path = place.path] in TakeInputs(file: path, role: .metadata)
    }
  }

  func open(_ take: Take) throws -> Episode { throw TakeFailure(.internal, "is never opened") }
}

@Suite struct TakeSearchTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func search(_ inputs: String..., reader: Marked = Marked(), registry: TakeIDRegistry = TakeIDRegistry([:])) -> TakeSearch {
    TakeSearch(inputs: inputs.map { directory.path + "/" + $0 }, readers: [reader], registry: registry)
  }

  private func write(_ names: String...) throws { for name in names { try directory.write(name, Array(name.utf8)) } }

  @Test func findsTakesInFoldersAndSortsThemById() throws {
    try write("in/b.take", "in/deep/er/a.take", "in/notes.txt", "in/.hidden/c.take", "in/.d.take")
    let found = search("in")
    #expect(found.found.map(\.id) == ["a", "b"])
    #expect(found.unmatched.isEmpty)
  }

  @Test func overlappingInputsCountOnce() throws {
    try write("in/a.take")
    #expect(search("in", "in/a.take", "in/../in").found.map(\.id) == ["a"])
  }

  @Test func takesOfOneNameAreNumberedAndSaySo() throws {
    try write("x/a.take", "y/a.take", "z/a.take", "z/a-2.take")
    let found = search("x", "y", "z").found
    #expect(Set(found.map(\.id)) == ["a", "a-2", "a-3", "a-2-2"] || Set(found.map(\.id)) == ["a", "a-2", "a-3", "a-4"])
    #expect(found.first { $0.id == "a" }?.findings.isEmpty == true)
    for take in found where take.id != "a" && !take.location.path.hasSuffix("a-2.take") {
      #expect(take.findings.map(\.code) == [.duplicateID], "\(take.id)")
    }
  }

  @Test func genericNamesGiveWayToTheContent() throws {
    try write("x/video.take", "y/video.take")
    var generic = Marked()
    generic.isGeneric = true
    let found = search("x", "y", reader: generic).found
    #expect(found.count == 2 && found.allSatisfy { $0.id.count == 12 && $0.id.allSatisfy(\.isHexDigit) })
    #expect(Set(search("y", reader: generic).found.map(\.id)).isSubset(of: found.map(\.id)), "the id does not depend on the other takes")
  }

  @Test func noTakeHasTheNameOfAnEpisodeOfAnother() throws {
    try write("in/a.0.take", "in/a.take", "in/b.1.take", "in/c.x.take", "in/c.take")
    func ids(splitting: Bool) -> [String] {
      TakeSearch(inputs: [directory.path + "/in"], readers: [Marked()], splitsTakes: splitting).found.map {
        "\($0.location.name) \($0.id)"
      }.sorted()
    }
    // The take a has an episode a.0, whichever of them is found first; there is no take b.
    #expect(ids(splitting: true) == ["a.0.take a.0-2", "a.take a", "b.1.take b.1", "c.take c", "c.x.take c.x"])
    #expect(ids(splitting: false) == ["a.0.take a.0", "a.take a", "b.1.take b.1", "c.take c", "c.x.take c.x"])
  }

  @Test func linksAndOtherThingsAreNoticedAndNotFollowed() throws {
    try write("in/a.take", "out/b.take")
    try FileManager.default.createSymbolicLink(
      atPath: directory.path + "/in/link.take", withDestinationPath: directory.path + "/out/b.take")
    mkfifo(directory.path + "/in/pipe.take", 0o600)
    let found = search("in")
    #expect(found.found.map(\.id) == ["a"])
    #expect(
      found.notices.count == 2 && found.notices.contains { $0.contains("link.take") } && found.notices.contains { $0.contains("pipe.take") }
    )
    // Named itself, a link is followed.
    #expect(search("in/link.take").found.map(\.id) == ["b"])
  }

  @Test func inputsThatGiveNoTakeSayWhy() throws {
    try write("in/a.take", "text.txt", "empty/.keep")
    let found = search("in", "text.txt", "empty", "nowhere")
    #expect(
      Dictionary(uniqueKeysWithValues: found.unmatched.map { ($0.id, $0.failure.code) }) == [
        "text.txt": .notATake, "empty": .noTakeFound, "nowhere": .inputMissing,
      ])
    try found.refuse(Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: MemoryWriter()))
  }

  @Test func nothingToConvertIsAMistakeAndNothingThereIsNoInput() throws {
    try write("empty/.keep", "text.txt")
    let pipeline = Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: MemoryWriter())
    #expect(throws: UsageError.self) { try search("empty").refuse(pipeline) }
    #expect(throws: UsageError.self) { try search("empty", "nowhere").refuse(pipeline) }
    #expect(throws: NoInputs.self) { try search("nowhere").refuse(pipeline) }
    #expect(throws: NoInputs.self) { try search("text.txt").refuse(pipeline) }
  }

  @Test func aDatasetIsNamedAsSuch() throws {
    try write("out/manifest.json", "out/journal.jsonl")
    let error = #expect(throws: UsageError.self) {
      try search("out").refuse(Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: MemoryWriter()))
    }
    #expect(error?.message.contains("this is a dataset") == true && error?.message.contains("takeset verify") == true)
  }

  @Test func aPipelineWithoutAlignIsRefusedForTakesThatNeedIt() throws {
    try write("in/a.take", "movies/b.mov")
    try search("in").refuse(Pipeline(readers: .auto, join: nil, transforms: [], writer: MemoryWriter()))
    let session = try TemporaryDirectory()
    try session.write("s/poses.json", Array("[]".utf8))
    let sessions = TakeSearch(inputs: [session.path], readers: [StackSession()])
    let error = #expect(throws: UsageError.self) {
      try sessions.refuse(Pipeline(readers: .auto, join: nil, transforms: [], writer: MemoryWriter()))
    }
    #expect(error?.message.contains("align") == true)
    try sessions.refuse(Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: MemoryWriter()))
  }

  @Test func badNamesAreRefused() throws {
    let long = String(repeating: "x", count: 201)
    try write("in/a\u{7}b.take", "in/\(long).take", "in/\(String(repeating: "y", count: 200)).take")
    let found = search("in")
    #expect(found.found.map(\.id.count) == [200])
    #expect(found.unmatched.map(\.failure.code) == [.badName, .badName])
  }

  // MARK: Ids over several runs

  private func entry(_ id: String, at name: String) -> Journal.Entry {
    let folder = URL(fileURLWithPath: directory.path).resolvingSymlinksInPath().path
    return Journal.Entry(
      .init(
        id: EpisodeID(take: id), location: folder + "/" + name, pipeline: String(repeating: "b", count: 64), toolVersion: "1",
        outcome: .written, reader: "marked",
        inputDigest: "other"))
  }

  @Test func aTakeKeepsItsIdAndNobodyElseGetsIt() throws {
    try write("in/a.take", "new/a.take")
    let registry = TakeIDRegistry(["a-2": entry("a-2", at: "in/a.take"), "a": entry("a", at: "new/../gone.take")])
    let found = search("in", "new", registry: registry).found
    #expect(
      Dictionary(
        uniqueKeysWithValues: found.map { (URL(fileURLWithPath: $0.location.path).deletingLastPathComponent().lastPathComponent, $0.id) })
        == [
          "in": "a-2", "new": "a-3",
        ])
  }

  @Test func aMovedTakeKeepsItsIdWhenItsFilesAreTheSame() throws {
    try write("here/a.take")
    let inputs = TakeInputs(file: directory.path + "/here/a.take", role: .metadata)
    try inputs.finishDigests()
    var known = entry("a", at: "there/a.take")
    known.inputDigest = inputs.digest.description
    #expect(search("here", registry: TakeIDRegistry(["a": known])).found.map(\.id) == ["a"])
    known.inputDigest = "other files"
    #expect(search("here", registry: TakeIDRegistry(["a": known])).found.map(\.id) == ["a-2"])
  }

  @Test func aCopyOfATakeThatIsStillThereIsAnotherTake() throws {
    for place in ["there/a.take", "here/a.take"] { try directory.write(place, Array("the same".utf8)) }
    let inputs = TakeInputs(file: directory.path + "/there/a.take", role: .metadata)
    try inputs.finishDigests()
    var known = entry("a", at: "there/a.take")
    known.inputDigest = inputs.digest.description
    let registry = TakeIDRegistry(["a": known])
    #expect(search("here", registry: registry).found.map(\.id) == ["a-2"], "also where a run is not given the original")
    try FileManager.default.removeItem(atPath: directory.path + "/there/a.take")
    #expect(search("here", registry: registry).found.map(\.id) == ["a"])
  }
}
