import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Steps

@Suite struct DatasetSplitTests {
  private func episode(_ id: String, files: String, poses: String?, group: String? = nil) -> DatasetSplit.Episode {
    DatasetSplit.Episode(
      id: EpisodeID(take: id), reader: "scan", group: group, content: files, recording: poses)
  }

  @Test func copiesOfCopiesAreOneRecording() throws {
    let split = try PipelineFile.parse("version: 1\ntransforms: [{split: {valid: 0.4, group: take}}]\n").split
    // b has the files of a, and c the poses of b.
    let episodes = [
      episode("a", files: "1", poses: nil), episode("b", files: "1", poses: "b"), episode("c", files: "2", poses: "b"),
      episode("d", files: "3", poses: "d"), episode("e", files: "4", poses: nil),
    ]
    let result = DatasetSplit(episodes, rule: split, file: nil)
    #expect(Set(result.parts[..<3]).count == 1 && result.parts.contains(.valid))
    #expect(
      result.findings.map(\.message) == [
        "takes with the same files as another one: b of a", "takes with the same poses as another one: c of b",
      ])
    #expect(result.findings.allSatisfy { $0.code == .duplicateContent && $0.severity == .warning && $0.count == 1 })
  }

  @Test func copiesOfFilesAreNotNamedAgainForTheirPoses() {
    // Equal files have equal poses. The poses of d are those of c alone.
    let episodes = [
      episode("a", files: "1", poses: "x"), episode("b", files: "1", poses: "x"), episode("c", files: "2", poses: "y"),
      episode("d", files: "3", poses: "y"),
    ]
    #expect(
      DatasetSplit(episodes, keeping: [.train, .train, .train, .train]).findings.map(\.message) == [
        "takes with the same files as another one: b of a", "takes with the same poses as another one: d of c",
      ])
    #expect(DatasetSplit(Array(episodes[..<2]), keeping: [.train, .train]).findings.map(\.count) == [1])
  }

  @Test func copiesInSeveralPartsAreNamedWithThem() {
    let episodes = [episode("a", files: "1", poses: "a"), episode("b", files: "2", poses: "a"), episode("c", files: "3", poses: "c")]
    #expect(
      DatasetSplit(episodes, keeping: [.valid, .train, .train]).findings.map(\.message) == [
        "takes with the same poses as another one: b of a; what is learned is also what is tested: a in valid, b in train"
      ])
    #expect(DatasetSplit(episodes, keeping: [.train, .train, .valid]).findings.first?.message.contains("tested") == false)
  }

  @Test func aCameraThatHoldsStillShowsNoRecording() {
    let moving = Pose.random(12, seed: 3)
    #expect(RecordingDigest.word(for: .posed(moving))?.count == 16)
    #expect(RecordingDigest.word(for: .posed(moving)) == RecordingDigest.word(for: .posed(moving)))
    #expect(RecordingDigest.word(for: .posed(moving)) != RecordingDigest.word(for: .posed(Pose.random(12, seed: 4))))
    #expect(RecordingDigest.word(for: .posed(Array(moving.prefix(9)))) == nil)
    #expect(RecordingDigest.word(for: .posed(Array(repeating: moving[0], count: 12))) == nil)
  }
}
