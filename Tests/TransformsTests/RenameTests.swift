import Evidence
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct RenameTests {
  private func step(_ streams: JSONValue) throws -> Rename { try Options.decode(Rename.self, over: ["streams": streams], at: "rename") }

  private var episode: Episode {
    var episode = SyntheticEpisode().episode
    episode.alignments = [.depth, .joints].map { Episode.Alignment(stream: $0, method: "same-clock", offset: 7) }
    return episode
  }

  @Test func renamesStreamsAndWhatRefersToThem() throws {
    let renamed = try step(["pose": "wrist_pose", "joints": "hand2", "camera_depth": "d"]).apply(to: episode)
    #expect(Set(renamed.streams.keys) == ["wrist_pose", "hand2", "d", .image, .imu])
    #expect(renamed.streams["wrist_pose"]?.spec == episode.streams[.pose]?.spec)
    #expect(renamed.streams["hand2"]?.timestamps == episode.streams[.joints]?.timestamps)
    #expect(renamed.streams["wrist_pose"]?.rows == episode.streams[.pose]?.rows)
    #expect(renamed.cameras[.phone]?.pose == "wrist_pose")
    #expect(renamed.cameras[.phone]?.size == episode.cameras[.phone]?.size)
    #expect(renamed.alignments == ["d", "hand2"].map { Episode.Alignment(stream: $0, method: "same-clock", offset: 7) })
    #expect(renamed.frames == episode.frames)
  }

  @Test func swapsTwoNames() throws {
    let swapped = try step(["pose": "joints", "joints": "pose"]).apply(to: episode)
    #expect(swapped.streams.count == 5)
    #expect(swapped.streams[.joints]?.spec == episode.streams[.pose]?.spec)
    #expect(swapped.streams[.pose]?.spec == episode.streams[.joints]?.spec)
    #expect(swapped.cameras[.phone]?.pose == .joints)
    let chained = try step(["pose": "joints", "joints": "hand"]).apply(to: episode)
    #expect(chained.streams["hand"]?.spec.kind == .angles)
    #expect(chained.streams[.joints]?.spec.kind == .pose(.arkit))
  }

  @Test func ignoresNamesThatTheTakeDoesNotHave() throws {
    let renamed = try step(["glove": "hand", "pose": "pose"]).apply(to: episode)
    #expect(Set(renamed.streams.keys) == Set(episode.streams.keys))
    // Nothing becomes pose, so that no name is taken.
    #expect(try step(["glove": "pose"]).apply(to: episode).streams.count == 5)
  }

  @Test(arguments: [["joints": "pose"], ["pose": "imu"], ["imu": "camera_image", "joints": "joints"]] as [JSONValue])
  func doesNotReplaceAnotherStream(streams: JSONValue) {
    let failure = #expect(throws: TakeFailure.self) { try step(streams).apply(to: episode) }
    #expect(failure?.code == .nameTaken)
    #expect(failure?.message.contains("the take has another stream of that name") == true)
  }

  @Test func comesBeforeStreamsThatAreComputed() throws {
    var derived = episode
    derived.derived["motion"] = Doubled(inputs: [.pose])
    let input = #expect(throws: TakeFailure.self) { try step(["pose": "wrist"]).apply(to: derived) }
    #expect(input?.message == "motion is computed from pose; rename has to come before actions")
    let itself = #expect(throws: TakeFailure.self) { try step(["motion": "moves"]).apply(to: derived) }
    #expect(itself?.message == "motion is computed from other streams; rename has to come before actions")
    let taken = #expect(throws: TakeFailure.self) { try step(["joints": "motion"]).apply(to: derived) }
    #expect(taken?.code == .nameTaken)
    #expect(try step(["joints": "hand"]).apply(to: derived).derived.keys.map(\.rawValue) == ["motion"])
  }

  // MARK: Options

  @Test(arguments: ["", "Hand", "2hand", "_hand", "hand-left", "hand left", "hand/left", "händ", "hand\n", "../hand"])
  func refusesANameThatIsNone(name: String) {
    let error = #expect(throws: PipelineFileError.self) { try step(["joints": .string(name)]) }
    #expect(error?.path == "rename.streams")
    #expect(error?.message.contains("lowercase letters, digits and underscores") == true)
  }

  @Test(arguments: ["actions", "action_dict", "segment", "intrinsics", "hand_valid", "hand_raw", "camera_image_intrinsics"])
  func refusesANameOfTheLayout(name: String) {
    let error = #expect(throws: PipelineFileError.self) { try step(["joints": .string(name)]) }
    #expect(error?.message.contains("layout of datasets") == true)
  }

  @Test func refusesOneNameForTwoStreams() {
    let error = #expect(throws: PipelineFileError.self) { try step(["pose": "a", "joints": "a"]) }
    #expect(error?.message == "joints and pose cannot both become \"a\"")
  }

  @Test(arguments: [[:], nil, ["pose": 1], ["pose": nil], [["pose", "a"]], "pose"] as [JSONValue]) func needsNames(streams: JSONValue) {
    let error = #expect(throws: PipelineFileError.self) { try step(streams) }
    #expect(error?.path == "rename.streams")
  }

  @Test func recordsTheNames() throws {
    #expect(Options.values(of: try step(["pose": "a1", "joints": "b_2"])) == ["streams": ["pose": "a1", "joints": "b_2"]])
    #expect(throws: PipelineFileError.self) { try Options.decode(Rename.self, over: nil, at: "rename") }
  }
}
