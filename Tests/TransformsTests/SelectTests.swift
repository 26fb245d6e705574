import Evidence
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct SelectTests {
  private func step(_ streams: JSONValue) throws -> Select { try Options.decode(Select.self, over: ["streams": streams], at: "select") }

  private var episode: Episode {
    var episode = SyntheticEpisode().episode
    episode.alignments = [.pose, .depth, .joints, "ghost"].map { Episode.Alignment(stream: $0, method: "same-clock") }
    return episode
  }

  @Test func keepsTheNamedStreams() throws {
    let selected = try step(["camera_image", "pose"]).apply(to: episode)
    #expect(Set(selected.streams.keys) == [.image, .pose])
    #expect(selected.cameras == episode.cameras)
    #expect(selected.frames == episode.frames)
    #expect(selected.dropped.isEmpty)
  }

  @Test func theImageItsDepthAndTheIMUAreIndependent() throws {
    #expect(Set(try step(["camera_depth"]).apply(to: episode).streams.keys) == [.depth])
    #expect(Set(try step(["imu", "joints"]).apply(to: episode).streams.keys) == [.imu, .joints])
  }

  @Test func aCameraWithoutItsPosesHasNone() throws {
    let selected = try step(["camera_image"]).apply(to: episode)
    #expect(selected.cameras[.phone]?.pose == nil)
    #expect(selected.cameras[.phone]?.intrinsicsTrack == episode.cameras[.phone]?.intrinsicsTrack)
  }

  @Test func alignmentsGoWithTheirStreams() throws {
    // An alignment may also tell why there is no such stream.
    #expect(try step(["camera_image", "joints"]).apply(to: episode).alignments.map(\.stream) == [.joints, "ghost"])
  }

  @Test func ignoresNamesThatTheTakeDoesNotHave() throws {
    #expect(Set(try step(["pose", "hand", "pose"]).apply(to: episode).streams.keys) == [.pose])
    let failure = #expect(throws: TakeFailure.self) { try step(["hand", "glove"]).apply(to: episode) }
    #expect(failure?.code == .streamMissing)
    #expect(
      failure?.message == "the take has none of the streams hand, glove; it has camera_depth, camera_image, imu, joints, pose")
  }

  // MARK: Streams that are computed

  private var withActions: Episode {
    var episode = episode
    episode.derived = [
      .actions: Doubled(inputs: [.pose]), .actionPart("joints"): Doubled(inputs: [.joints]),
      .actionPart("motion"): Doubled(inputs: [.pose]),
      .actionChunk: Doubled(inputs: [.actions]),
    ]
    return episode
  }

  @Test func computedStreamsStayWithTheirInputs() throws {
    let selected = try step(["camera_image", "pose"]).apply(to: withActions)
    #expect(Set(selected.derived.keys) == [.actions, .actionPart("motion"), .actionChunk])
    #expect(Set(selected.streams.keys) == [.image, .pose])
    #expect(try step(["camera_image", "joints"]).apply(to: withActions).derived.keys.map(\.rawValue) == ["action_dict/joints"])
    #expect(try step(["camera_image"]).apply(to: withActions).derived.isEmpty)
  }

  @Test(
    arguments: [
      (["camera_image", "actions"], "actions is computed from pose"), (["action_chunk"], "action_chunk is computed from actions"),
      (["pose", "action_dict"], "action_dict/joints is computed from joints"),
    ] as [(JSONValue, String)]) func aNamedOneNeedsItsInputs(streams: JSONValue, message: String) throws
  {
    let failure = #expect(throws: TakeFailure.self) { try step(streams).apply(to: withActions) }
    #expect(failure?.message.hasPrefix(message) == true, "\(failure?.message ?? "")")
  }

  @Test func aNamedOneStaysWithItsInputs() throws {
    let selected = try step(["action_dict", "joints", "pose"]).apply(to: withActions)
    #expect(selected.derived.count == 4)
    #expect(Set(selected.streams.keys) == [.joints, .pose])
  }

  // MARK: Options

  @Test(arguments: [[], nil, "pose", [1], ["pose", nil]] as [JSONValue]) func needsAListOfNames(streams: JSONValue) {
    let error = #expect(throws: PipelineFileError.self) { try step(streams) }
    #expect(error?.path == "select.streams")
  }

  @Test func needsItsOption() {
    #expect(throws: PipelineFileError.self) { try Options.decode(Select.self, over: nil, at: "select") }
  }
}

/// A stream that is computed from others.
struct Doubled: Derived {
  var inputs: [StreamName]
  var spec: StreamSpec { StreamSpec(kind: .action, type: .float32, shape: [1], unit: "m", clock: .deviceUptime) }
  func value(at row: Int, of rows: inout RowReader) throws -> [Float] { [2 * (try rows.values(of: inputs[0], at: row)[0])] }
}
