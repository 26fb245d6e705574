import Evidence
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct ActionsTests {
  private func acting(_ options: JSONValue, _ episode: Episode) throws -> Episode {
    try Options.decode(Actions.self, over: options, at: "actions").apply(to: episode)
  }

  /// What is stored of every row of a derived stream; `nil` for rows that are missing, which are NaN throughout.
  private func rows(_ episode: Episode, _ name: StreamName = .actions) throws -> [[Float]?] {
    var reader = RowReader(episode)
    return try (0..<reader.count).map { row in
      let values = try reader.values(of: name, at: row)
      #expect(values.allSatisfy(\.isNaN) || !values.contains(where: \.isNaN), "row \(row) of \(name) is missing in part")
      return try values.contains(where: \.isNaN) ? episode.derived[name]?.placeholder(at: row, of: &reader) : values
    }
  }

  @Test func theLastRowOfARecordingHasNoValueAndHoldsNoMotion() throws {
    let episode = try acting([:], .posed([at(0), at(1), at(3)]))
    var reader = RowReader(episode)
    #expect(try (0..<3).map { try reader.values(of: .actions, at: $0).contains(where: \.isNaN) } == [false, false, true])
    #expect(isNear(try rows(episode)[2], still))
    #expect(try episode.derived[.actions]?.placeholder(at: 1, of: &reader) == nil)
  }

  @Test func theLastRowOfACutEpisodeLeadsToTheNextRowOfTheTake() throws {
    var whole = Episode.posed([at(0), at(1), at(3), at(6), at(10)])
    whole.frames.nominalRate = 10
    let cut = try acting([:], whole.keeping([1, 2], dropping: "trimmed", continues: true))
    var reader = RowReader(cut)
    #expect(try (0..<2).map { try reader.values(of: .actions, at: $0)[0] } == [2, 3])
    // Rows that were dropped for what they are do not follow.
    var other = RowReader(try acting([:], whole.keeping([1, 2], dropping: "blurred")))
    #expect(try other.values(of: .actions, at: 1)[0].isNaN)
  }

  @Test func aJumpOfTheTrackingIsNoAction() throws {
    var jumped = Episode.posed([at(0), at(1), at(3), at(6)])
    jumped.frames.quality = [[], [], .poseJump, []]
    let episode = try acting(["horizon": 2], jumped)
    var reader = RowReader(episode)
    #expect(try (0..<4).map { try reader.values(of: .actions, at: $0)[0].isNaN } == [false, true, false, true])
    let chunks = try (0..<4).map { try reader.values(of: .actionChunk, at: $0).map(\.isNaN) }
    #expect(chunks.map { [$0[0], $0[9]] } == [[false, true], [true, true], [false, true], [true, true]])
  }

  @Test func theLastRowCanBeDropped() throws {
    let episode = try acting(["last": "drop"], .posed([at(0), at(1), at(3)])).endingBeforeTheNextRow()
    #expect(try rows(episode).map { $0?[0] } == [1, 2] && episode.dropped.map(\.reason) == ["no-next-row"])
  }

  /// An episode of poses and joints in degrees.
  private func handled(_ poses: [Pose?], _ joints: [[Float]], kind: StreamKind = .angles) -> Episode {
    var episode = Episode.posed(poses)
    episode.streams[.joints] = SampleStream(
      spec: StreamSpec(kind: kind, type: .float32, shape: [joints[0].count], unit: "degree", clock: .deviceUptime),
      source: VectorSource(width: joints[0].count, values: joints.flatMap(\.self)), timestamps: episode.frames.timestamps,
      sourceIndex: episode.frames.sourceIndex, rows: joints.indices.rows)
    return episode
  }

  private func isNear(_ a: [Float]?, _ b: [Double], _ limit: Double = 2e-6) -> Bool {
    a?.count == b.count && zip(a ?? [], b).allSatisfy { abs(Double($0) - $1) < limit }
  }

  private func at(_ x: Double) -> Pose { Pose(position: [x, 0, 0], quaternion: [0, 0, 0, 1]) }

  /// Translation, and the first two columns, of a matrix.
  private func numbers(_ m: Matrix4) -> [Double] { [m.m[3], m.m[7], m.m[11], m.m[0], m.m[4], m.m[8], m.m[1], m.m[5], m.m[9]] }

  private let still: [Double] = [0, 0, 0, 1, 0, 0, 0, 1, 0]

  // MARK: Kinds, whose values are compared with SciPy in VectorTests

  @Test func absoluteIsTheNextPose() throws {
    let poses = Pose.random(10, seed: 2)
    let sixNumbers = try rows(acting(["kind": "absolute-6d"], .posed(poses)))
    let quaternions = try rows(acting(["kind": "absolute-quat"], .posed(poses)))
    var reader = RowReader(Episode.posed(poses))
    for row in 0..<10 {
      let next = min(row + 1, 9)
      #expect(isNear(sixNumbers[row], numbers(Matrix4(poses[next]))))
      // With the sign that the stored pose has.
      #expect(isNear(quaternions[row], try reader.values(of: .pose, at: next).map { Double($0) }))
    }
  }

  @Test func oneRowIsNoMotionAndItsOwnJoints() throws {
    let pose = Pose.random(1, seed: 4)
    let episode = handled(pose, [[10, 20]])
    #expect(isNear(try rows(acting(["joints": "absolute"], episode))[0], still + [10, 20]))
    #expect(try rows(acting(["kind": "delta-pose", "joints": "delta"], episode)) == [[0, 0, 0, 0, 0, 0, 0, 0]])
    #expect(isNear(try rows(acting(["kind": "absolute-6d"], episode))[0], numbers(Matrix4(pose[0]))))
    let chunk = try rows(acting(["horizon": 2], episode), .actionChunk)
    #expect(chunk == [nil])
  }

  @Test func namesPartsAndUnits() throws {
    var episode = handled([at(0), at(1)], [[1, 2], [3, 4]])
    episode.streams["width"] = episode.streams[.joints]
    episode.streams["width"]?.spec.kind = .vector
    episode.streams["width"]?.spec.unit = "mm"
    let spec = try #require(
      try acting(["joints": "absolute", "angle": "radian", "gripper": "width"], episode).derived[.actions]?.spec)
    #expect(spec.parts.map(\.description) == ["relative_position:3", "relative_rotation_6d:6", "joints:2", "gripper:2"])
    #expect(spec.unit == "m, 1, rad, mm" && spec.shape == [13] && spec.kind == .action)
    episode.streams[.pose]?.spec.kind = .pose(.slam(unit: .arbitrary))
    let delta = try acting(["kind": "delta-pose"], episode)
    #expect(delta.derived[.actions]?.spec.unit == "arbitrary, rad")
    #expect(
      Set(delta.derived.keys)
        == ["actions", "action_dict/delta_position", "action_dict/delta_rotation_vector", "action_dict/joints"])
  }

  // MARK: Joints and gripper

  @Test func jointsAreThoseOfTheNextRow() throws {
    let episode = handled([at(0), at(1), at(3)], [[0, 90], [45, 180], [10, -90]])
    func joints(_ options: JSONValue) throws -> [[Float]?] { try rows(acting(options, episode)).map { $0.map { Array($0[9...]) } } }
    #expect(try joints(["joints": "absolute"]) == [[45, 180], [10, -90], [10, -90]])
    #expect(try joints(["joints": "delta"]) == [[45, 90], [-35, -270], [0, 0]])
    let radians = try joints(["joints": "absolute", "angle": "radian"])
    #expect(isNear(radians[0], [.pi / 4, .pi], 1e-7) && isNear(radians[2], [.pi / 18, -.pi / 2], 1e-7))
    let change = try joints(["joints": "delta", "angle": "radian"])
    #expect(isNear(change[0], [.pi / 4, .pi / 2], 1e-7) && change[2] == [0, 0])
    #expect(try joints([:]) == [[], [], []])
    #expect(try rows(acting([:], episode), .actionPart("joints")) == [[45, 180], [10, -90], [10, -90]])
  }

  @Test func oneMissingChannelMakesTheRowMissing() throws {
    let episode = handled([at(0), at(1), at(2), at(3)], [[0, 0], [1, .nan], [2, 2], [3, 3]])
    let present = { (values: [[Float]?]) in values.map { $0 != nil } }
    let absolute = try acting(["joints": "absolute"], episode)
    #expect(present(try rows(absolute)) == [false, true, true, true])
    #expect(present(try rows(absolute, .actionPart("joints"))) == [false, true, true, true])
    #expect(present(try rows(absolute, .actionPart("relative_position"))) == [true, true, true, true])
    // A change needs both rows.
    #expect(present(try rows(acting(["joints": "delta"], episode))) == [false, false, true, true])
    #expect(present(try rows(acting([:], episode))) == [true, true, true, true])
  }

  @Test func theGripperIsAStreamByName() throws {
    var episode = handled([at(0), at(1)], [[1, 2], [3, 4]], kind: .vector)
    episode.streams["fingers"] = episode.streams[.joints]
    episode.streams[.joints] = nil
    let found = try rows(acting(["gripper": "fingers", "angle": "radian"], episode))
    #expect(found.map { $0.map { Array($0[9...]) } } == [[3, 4], [3, 4]])
    for name in ["hand", "pose"] {
      let failure = #expect(throws: TakeFailure.self) { try acting(["gripper": .string(name)], episode) }
      #expect(failure?.code == .streamMissing && failure?.message.hasSuffix("it has fingers") == true)
    }
  }

  // MARK: Without poses

  /// An arm without poses: two angles in degrees, the width of its gripper, and a frame that was dropped after the third row.
  private func arm() -> Episode {
    var episode = handled((0..<6).map { _ in at(0) }, [[0, 90], [45, .nan], [10, -90], [20, 0], [40, 5], [70, 7]])
    episode.streams["width"] = episode.streams[.joints]
    episode.streams["width"]?.spec = StreamSpec(kind: .vector, type: .float32, shape: [1], unit: "mm", clock: .deviceUptime)
    episode.streams["width"]?.source = VectorSource(width: 1, values: [1, 2, 4, 8, 16, 32])
    episode.streams[.pose] = nil
    for row in 3..<6 { episode.frames.timestamps[row] = episode.frames.timestamps[row].advanced(by: 1_000_000_000) }
    episode.frames.nominalRate = 10
    return episode
  }

  @Test func numbersActWithoutPoses() throws {
    let episode = try acting(["kind": "none", "of": ["width", "joints"], "delta": ["joints"], "horizon": 2], arm())
    let spec = try #require(episode.derived[.actions]?.spec)
    #expect(spec.parts.map(\.description) == ["width:1", "joints:2"] && spec.unit == "mm, degree" && spec.actionFrame == nil)
    // A change needs both rows, no row leads across the gap, and the last one holds.
    #expect(try rows(episode) == [nil, nil, nil, [16, 20, 5], [32, 30, 2], [32, 0, 0]])
    #expect(try rows(episode, .actionPart("width")) == [[2], [4], nil, [16], [32], [32]])
    #expect(try rows(episode, .actionPart("joints")) == [nil, nil, nil, [20, 5], [30, 2], [0, 0]])
    var reader = RowReader(episode)
    let chunks: [[Float?]] = try (0..<6).map { row in try reader.values(of: .actionChunk, at: row).map { $0.isNaN ? nil : $0 } }
    #expect(chunks[0] == [nil, nil, nil, 4, 10, -180])
    #expect(chunks[3] == [16, 20, 5, 32, 50, 7])
    #expect(chunks[5].allSatisfy { $0 == nil })
  }

  @Test func jointsComeBeforeOtherNumbers() throws {
    let episode = try acting(["kind": "none", "of": ["width"], "joints": "absolute", "angle": "radian", "last": "drop"], arm())
    #expect(isNear(try rows(episode)[3], [40 * .pi / 180, 5 * .pi / 180, 16]))
    #expect(episode.dropsRowWithoutNext && episode.derived[.actions]?.spec.unit == "rad, mm")
    #expect(try acting(["kind": "none", "joints": "delta"], arm()).derived[.actions]?.spec.parts.map(\.name) == ["joints"])
    // Joints are there even if they are no part of the actions.
    #expect(
      try acting(["kind": "none", "of": ["width"]], arm()).derived.keys.sorted() == ["action_dict/joints", "action_dict/width", "actions"])
  }

  @Test func posesPlayNoPart() throws {
    var posed = arm()
    posed.streams[.pose] = Episode.posed([nil, nil, nil, nil, nil, nil]).streams[.pose]
    #expect(try rows(acting(["kind": "none", "of": ["width"]], posed)) == [[2], [4], nil, [16], [32], [32]])
  }

  @Test func aTakeWithNoneOfTheStreamsHasNoActions() throws {
    let without = try acting(["kind": "none", "of": ["wdith", "force"], "joints": "absolute"], .posed([at(0), at(1)]))
    #expect(without.derived.isEmpty && without.actionsLack == "joints or wdith or force")
    #expect(without.unusedOptions == ["actions.of.force", "actions.of.wdith"])
    let part = try acting(["kind": "none", "of": ["width", "force"]], arm())
    #expect(part.derived[.actions]?.spec.parts.map(\.name) == ["width"] && part.actionsLack == nil)
    var blind = arm()
    blind.streams[.pose] = Episode.posed([nil, nil, nil, nil, nil, nil]).streams[.pose]
    let failure = #expect(throws: TakeFailure.self) { try acting(["kind": "none", "of": ["pose"]], blind) }
    #expect(failure?.message == "of: the take has no stream of numbers \"pose\"; it has joints, width")
  }

  @Test(
    arguments: [
      (["kind": "none"], "actions.kind: none leaves no actions; name streams, such as of: [gripper], or give joints: absolute"),
      (["kind": "none", "of": ["q"], "gripper": "w"], "actions.gripper: with kind: none, write of: [w]"),
      (["kind": "none", "of": ["q", "q"]], "actions.of: q is named twice"),
      (
        ["kind": "none", "of": ["joints"], "joints": "delta"], "actions.of: joints: delta already has the joints; leave out one of the two"
      ),
      (["kind": "none", "of": ["arm"], "delta": ["amr"]], "actions.delta: the option of has no amr; did you mean arm?"),
      (["delta": ["q"]], "actions.delta: it needs kind: none, and names streams of the option of"),
    ] as [(JSONValue, String)])
  func optionsThatExcludeEachOtherAreRefused(options: JSONValue, message: String) throws {
    let error = #expect(throws: PipelineFileError.self) { try acting(options, arm()) }
    #expect(error?.description == message)
  }

  // MARK: Missing rows and gaps

  @Test func withoutPosesThereAreNoActions() throws {
    var episode = handled([at(0), at(1)], [[1], [2]])
    episode.streams[.pose] = nil
    let without = try acting(["joints": "absolute"], episode)
    #expect(without.derived.isEmpty && without.actionsLack == "poses")
  }

  @Test func aMissingPoseMakesTwoStepsMissing() throws {
    let present = { (values: [[Float]?]) in values.map { $0 != nil } }
    let poses = [nil, at(0), at(1), nil, at(3), at(4)]
    #expect(present(try rows(acting([:], .posed(poses)))) == [false, true, false, false, true, true])
    // The next pose alone is needed here.
    #expect(present(try rows(acting(["kind": "absolute-6d"], .posed(poses)))) == [true, true, false, true, true, true])
    for kind in ["relative-6d", "absolute-6d", "absolute-quat", "delta-pose"] {
      #expect(try rows(acting(["kind": .string(kind), "horizon": 2], .posed([nil, nil, nil]))) == [nil, nil, nil])
    }
  }

  @Test func aStepThatNumbersCannotHoldIsMissing() throws {
    let far = [at(3e38), at(-3e38), at(-3e38)]
    #expect(try rows(acting(["kind": "delta-pose"], .posed(far))).map { $0 != nil } == [false, true, true])
    #expect(try rows(acting(["kind": "absolute-quat"], .posed(far))).map { $0 != nil } == [true, true, true])
  }

  @Test func noStepLeadsAcrossAGap() throws {
    let whole = Episode.posed((0..<7).map { at(Double($0 * $0)) })
    var episode = whole.keeping([0, 1, 2, 5, 6], dropping: "test")
    episode.frames.nominalRate = 10
    #expect(episode.frames.gaps.map(\.row) == [2])
    #expect(try rows(acting([:], episode)).map { $0?[0] } == [1, 3, nil, 11, 0])
    #expect(try rows(acting(["kind": "absolute-6d"], episode)).map { $0?[0] } == [1, 4, nil, 36, 36])
    // Two rows ahead, of which the gap is between.
    var reader = RowReader(try acting(["horizon": 3], episode))
    let chunks = try (0..<5).map { row in
      let values = try reader.values(of: .actionChunk, at: row)
      return [0, 9, 18].map { values[$0].isNaN ? nil : values[$0] }
    }
    #expect(chunks == [[1, 4, nil], [3, nil, nil], [nil, nil, nil], [11, nil, nil], [nil, nil, nil]])
  }

  @Test func stepsAreBetweenTheRowsThatAreLeft() throws {
    var episode = try acting([:], .posed((0..<7).map { at(Double($0 * $0)) })).keeping([0, 2, 4, 6], dropping: "test")
    episode.frames.nominalRate = 5
    #expect(try rows(episode).map { $0?[0] } == [4, 12, 20, 0])
  }

  // MARK: Chunks

  @Test func aChunkIsSeenFromItsOwnRow() throws {
    let poses = Pose.random(6, seed: 5)
    let episode = try acting(["horizon": 4], .posed(poses))
    #expect(episode.derived[.actionChunk]?.spec.shape == [4, 9])
    var reader = RowReader(episode)
    for row in 0..<6 {
      let values = try reader.values(of: .actionChunk, at: row)
      for ahead in 0..<4 {
        let action = Array(values[(9 * ahead)..<(9 * ahead + 9)])
        if row + 1 + ahead > 5 {
          #expect(action.allSatisfy { $0.isNaN })
        } else {
          #expect(isNear(action, numbers(Matrix4(poses[row]).inverse * Matrix4(poses[row + 1 + ahead]))))
        }
      }
    }
  }

  @Test func aHorizonOfOneMakesNoChunk() throws {
    #expect(try acting(["horizon": 1], .posed([at(0)])).derived[.actionChunk] == nil)
    #expect(try acting(["horizon": 2, "next-obs": true], .posed([at(0)])).storesNextObservations)
    #expect(try !acting([:], .posed([at(0)])).storesNextObservations)
  }

  @Test func aHorizonLongerThanTheTakeIsMissingAtItsEnd() throws {
    var reader = RowReader(try acting(["horizon": 64], .posed([at(0), at(5)])))
    let values = try reader.values(of: .actionChunk, at: 0)
    #expect(values.count == 64 * 9 && values[0] == 5 && values[9...].allSatisfy(\.isNaN))
  }

  @Test func theFirstStreamOfPosesByNameActs() throws {
    var episode = Episode.posed([at(0), at(1)])
    episode.streams["other_pose"] = Episode.posed([at(0), at(7)]).streams[.pose]
    #expect(try rows(acting([:], episode))[0]?[0] == 7)
  }
}
