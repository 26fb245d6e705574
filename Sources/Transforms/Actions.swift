package import Model
package import Steps

/// Adds actions computed from poses, joints and other numbers: row t is the step from row t to row t + 1. In an episode that was cut from a
/// longer take, the last row's is the step to the take's next row.
///
///     - actions: {kind: relative-6d, joints: absolute, horizon: 16}
///     - actions: {kind: none, of: [arm, gripper], delta: [arm]}
///
/// Values are computed from the rows that remain after all steps. `ActionPart` has the formulas.
package struct Actions: Transform {
  package static let name = "actions"
  package static let summary = "Adds actions to learn: the pose of the next row as seen from each row, joints and other numbers"

  /// The part of an action that is made of poses: position in the unit of the poses, rotation as a 6-D matrix, quaternion or vector.
  package enum Kind: String, OptionChoice {
    case relative6D = "relative-6d"
    case absolute6D = "absolute-6d"
    case absoluteQuaternion = "absolute-quat"
    case deltaPose = "delta-pose"
    case none
  }
  /// The joint angles in an action: none, those of the next row, or their change to it.
  package enum Joints: String, OptionChoice { case none, absolute, delta }
  /// The unit of joint angles in actions.
  package enum Angle: String, OptionChoice { case degree, radian }
  /// The action of a recording's last frame: a masked one that is no motion, or none, and then the frame is no row.
  package enum Last: String, OptionChoice { case hold, drop }
  /// The order of a rotation's six numbers: the first two columns of the matrix, or its first two rows.
  package enum RotationLayout: String, OptionChoice { case columns, rows }

  @StepOption(
    "relative-6d: the next pose seen from this one, as position and two columns of the rotation; absolute-6d, absolute-quat: the next pose; delta-pose: difference of positions, and rotation vector; none: joints and the streams of the option of, without poses"
  )
  var kind = Kind.relative6D
  @StepOption("absolute: append the joint angles of the next row; delta: their change; takes without joints have actions without them")
  var joints = Joints.none
  @StepOption(
    "with the kind none: streams of numbers whose values in the next row are the action, in this order, each a part of its name; with others: the members of a take of several phones that act, in this order; absent: all with poses, but head"
  )
  package var of: [String] = []
  @StepOption("those streams of the option of whose change to the next row is the action, and not their value there") var delta: [String] =
    []
  @StepOption("unit of angles in actions, where the take has them in degrees") var angle = Angle.degree
  @StepOption("a stream of numbers to append, as they are in the next row, as the part \"gripper\"") var gripper: String? = nil
  @StepOption("above 1, action_chunk holds the actions of this many following rows, all relative to the row (rows)", 1...64) var horizon = 1
  @StepOption(
    "the last frame of a recording has no next one: hold stores it with an action that is no motion and masked; drop makes it no row"
  )
  var last = Last.hold
  @StepOption("6-D rotations hold the first two columns of the matrix (x1 y1 z1 x2 y2 z2), or its first two rows, as UMI does")
  var rotationLayout = RotationLayout.columns
  @StepOption("also store the observations of the next row (next_obs), which offline reinforcement learning reads") var nextObs = false

  package static var occursOnce: Bool { true }

  package init() {}

  /// Throws `OptionError` for options that leave no action, or that have no effect together with `kind`.
  package func validate() throws {
    if gripper?.isEmpty == true { throw OptionError("gripper", "expected the name of a stream") }
    if let twice = of.indices.first(where: { of[..<$0].contains(of[$0]) }) { throw OptionError("of", "\(of[twice]) is named twice") }
    guard kind == .none else {
      if !delta.isEmpty { throw OptionError("delta", "it needs kind: none, and names streams of the option of") }
      return
    }
    if of.isEmpty, joints == .none {
      throw OptionError("kind", "none leaves no actions; name streams, such as of: [gripper], or give joints: absolute")
    }
    if let gripper { throw OptionError("gripper", "with kind: none, write of: [\(gripper)]") }
    if joints != .none, of.contains(StreamName.joints.rawValue) {
      throw OptionError("of", "joints: \(joints.rawValue) already has the joints; leave out one of the two")
    }
    if let other = delta.first(where: { !of.contains($0) }) {
      throw OptionError("delta", "the option of has no \(other)\(Spelling.hint(for: other, among: of))")
    }
  }

  /// Whether `of` names members of takes of several phones.
  private var namesMembers: Bool { kind != .none && !of.isEmpty }
  package var namedMembers: (option: String, names: [String])? { namesMembers ? ("of", of) : nil }

  /// Adds the derived streams of actions. Throws `TakeFailure` where the take lacks the numbers, or the member, that an option names.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var acting = episode
    let members = try self.members(of: episode)
    if namesMembers, members == [nil] { acting.noteUnused(of, in: "of", of: Self.self, before: episode) }
    var (parts, named): ([ActionPart], [ActionPart]) = ([], [])
    if kind == .none { acting.noteUnused(of, in: "of", of: Self.self, before: episode) }
    func append(_ option: String, _ stream: String, as part: String, isDelta: Bool = false, inRadians: Bool = false) throws {
      let name = StreamName(stream)
      guard let spec = episode.streams[name]?.spec, [.vector, .angles].contains(spec.kind) else {
        let known = episode.streams.filter { [.vector, .angles].contains($0.value.spec.kind) }.keys.sorted().map(\.rawValue)
        throw TakeFailure(
          .streamMissing,
          "\(option): the take has no stream of numbers \"\(stream)\"; it has \(known.isEmpty ? "none" : known.joined(separator: ", "))")
      }
      let part = ActionPart(vector: name, spec, as: part, isDelta: isDelta, inRadians: inRadians)
      parts.append(part)
      named.removeAll { $0.name == part.name }
      named.append(part)
    }
    for member in members {
      func first(_ isWanted: (StreamKind) -> Bool) -> (name: StreamName, stream: SampleStream)? {
        episode.firstStream { $0.spec.member == member && isWanted($0.spec.kind) }
      }
      let pose = kind == .none ? nil : first { $0.poseFrame != nil }
      let motion = pose.map { ofPoses($0.name, $0.stream.spec, of: member) } ?? []
      parts += motion
      named += motion
      if let joints = first({ $0 == .angles }) {
        let part = ActionPart(
          vector: joints.name, joints.stream.spec, as: Self.named("joints", member), isDelta: self.joints == .delta,
          inRadians: angle == .radian)
        if self.joints != .none { parts.append(part) }
        named.append(part)
      }
      if let gripper, pose != nil {
        // A member's own, unless it is a stream's whole name.
        let own = StreamName(gripper).of(member)
        try append("gripper", episode.streams[own] == nil ? gripper : own.rawValue, as: Self.named("gripper", member))
      }
    }
    if kind == .none {
      for stream in of where episode.streams[StreamName(stream)] != nil {
        try append("of", stream, as: stream, isDelta: delta.contains(stream), inRadians: angle == .radian)
      }
    }
    guard kind == .none ? !parts.isEmpty : parts.contains(where: \.isOfPoses) else {
      acting.actionsLack = kind == .none ? ((joints == .none ? [] : ["joints"]) + of).joined(separator: " or ") : "poses"
      return acting
    }
    acting.dropsRowWithoutNext = last == .drop
    func add(_ name: StreamName, _ parts: [ActionPart], horizon: Int? = nil) {
      let frames = parts.compactMap(\.pose).compactMap { pose -> PoseFrame? in
        var frame = episode.streams[pose]?.spec.kind.poseFrame
        frame?.world = nil
        return frame
      }
      // What differs from member to member is said of their parts alone.
      let frame = frames.first.flatMap { first in frames.allSatisfy { $0 == first } ? first : nil }
      acting.derived[name] = ActionRows(frame: frame, parts: parts, horizon: horizon, clock: episode.frames.clock)
    }
    add(.actions, parts)
    for part in named { add(.actionPart(part.name), [part]) }
    if horizon > 1 { add(.actionChunk, parts, horizon: horizon) }
    acting.storesNextObservations = nextObs
    return acting
  }

  /// The members whose motion is the action; one without a name for a take of one phone. Throws `TakeFailure` where the take lacks one.
  private func members(of episode: Episode) throws -> [String?] {
    let all = Set(episode.streams.values.compactMap(\.spec.member)).sorted()
    // A take that no group took in is of one phone.
    if namesMembers, !all.isEmpty {
      if let other = of.first(where: { !all.contains($0) }) {
        throw TakeFailure(.streamMissing, "of: the take has no member \(other); it has \(all.joined(separator: ", "))")
      }
      return of
    }
    guard !all.isEmpty, kind != .none || joints != .none else { return [nil] }
    return Set(episode.streams.values.map(\.spec).filter(\.isOfActingMember).compactMap(\.member)).sorted()
  }

  private func ofPoses(_ pose: StreamName, _ spec: StreamSpec, of member: String?) -> [ActionPart] {
    let unit = spec.kind.poseFrame?.unit.rawValue ?? spec.unit, byRows = rotationLayout == .rows
    let parts: [ActionPart] =
      switch kind {
      case .none: []
      case .relative6D: [.position(.relative, unit), .rotation6D(.relative, byRows: byRows)]
      case .absolute6D: [.position(.absolute, unit), .rotation6D(.absolute, byRows: byRows)]
      case .absoluteQuaternion: [.position(.absolute, unit), .quaternion]
      case .deltaPose: [.position(.delta, unit), .rotationVector]
      }
    return parts.map { part in
      var own = part
      (own.name, own.pose) = (Self.named(part.name, member), pose)
      return own
    }
  }

  private static func named(_ part: String, _ member: String?) -> String { member.map { "\($0)_\(part)" } ?? part }
}

/// Some columns of an action: how they follow from row t and a later row s.
struct ActionPart: Sendable {
  enum Reference: String, Sendable { case relative, absolute, delta }

  enum Formula: Sendable {
    /// relative: translation of inv(T_t) T_s; absolute: p_s; delta: p_s - p_t.
    case position(Reference)
    /// Two columns, or rows, of the rotation of inv(T_t) T_s, or of T_s (Zhou et al. 2019).
    case rotation6D(Reference, byRows: Bool)
    /// The quaternion of T_s, x y z w, with the sign it has in the stored poses.
    case quaternion
    /// Rotation vector of R_s inv(R_t), in radians.
    case rotationVector
    /// A stream's numbers in row s times `scale`; delta: minus those of row t.
    case vector(StreamName, isDelta: Bool, scale: Double)
  }

  var name: String
  var columns: Int
  var unit: String
  var formula: Formula
  /// The poses that it is computed from; `nil` for one of numbers.
  var pose: StreamName?

  static func position(_ reference: Reference, _ unit: String) -> ActionPart {
    ActionPart(name: "\(reference.rawValue)_position", columns: 3, unit: unit, formula: .position(reference))
  }

  static func rotation6D(_ reference: Reference, byRows: Bool) -> ActionPart {
    ActionPart(
      name: "\(reference.rawValue)_rotation_6d", columns: 6, unit: "1", formula: .rotation6D(reference, byRows: byRows))
  }

  static let quaternion = ActionPart(name: "absolute_rotation_quat", columns: 4, unit: "1", formula: .quaternion)
  static let rotationVector = ActionPart(name: "delta_rotation_vector", columns: 3, unit: "rad", formula: .rotationVector)

  private init(name: String, columns: Int, unit: String, formula: Formula) {
    (self.name, self.columns, self.unit, self.formula) = (name, columns, unit, formula)
  }

  init(vector: StreamName, _ spec: StreamSpec, as name: String, isDelta: Bool, inRadians: Bool) {
    let converts = inRadians && spec.unit == "degree"
    self.init(
      name: name, columns: spec.elementCount, unit: converts ? "rad" : spec.unit,
      formula: .vector(vector, isDelta: isDelta, scale: converts ? .pi / 180 : 1))
  }

  var inputs: [StreamName] { if case .vector(let name, _, _) = formula { [name] } else { [pose].compactMap(\.self) } }
  var isOfPoses: Bool { if case .vector = formula { false } else { true } }
  var rotationLayout: String? { if case .rotation6D(_, let byRows) = formula { byRows ? "rows" : "columns" } else { nil } }

  /// The columns for row t and row s, `nil` where an input is missing.
  func values(_ t: Int, _ s: Int, of rows: inout RowReader) throws -> [Float]? {
    func pose(at row: Int) throws -> Pose? { try self.pose.flatMap { try rows.pose($0, at: row) } }
    switch formula {
    case .vector(let name, let isDelta, let scale):
      let later = try rows.values(of: name, at: s)
      let now = isDelta ? try rows.values(of: name, at: t) : Array(repeating: 0, count: later.count)
      let values = zip(later, now).map { Float((Double($0) - Double($1)) * scale) }
      return values.contains(where: \.isNaN) ? nil : values
    case .quaternion: return try pose(at: s).map { Array($0.floats[3...]) }
    case .position(.absolute): return try pose(at: s).map { Array($0.floats[..<3]) }
    case .rotation6D(.absolute, let byRows): return try pose(at: s).map { Self.sixNumbers($0, byRows) }
    case .position, .rotation6D, .rotationVector:
      guard let a = try pose(at: t), let b = try pose(at: s) else { return nil }
      switch formula {
      case .position(.relative): return Array(a.inverse.composed(with: b).floats[..<3])
      case .rotation6D(_, let byRows): return Self.sixNumbers(a.inverse.composed(with: b), byRows)
      case .rotationVector: return Self.floats(b.composed(with: a.inverse).rotationVector)
      default: return Self.floats(b.position - a.position)
      }
    }
  }

  private static func floats(_ v: SIMD3<Double>) -> [Float] { [Float(v.x), Float(v.y), Float(v.z)] }

  private static func sixNumbers(_ pose: Pose, _ byRows: Bool) -> [Float] {
    let axes = pose.axes
    if byRows { return [axes.x.x, axes.y.x, axes.z.x, axes.x.y, axes.y.y, axes.z.y].map { Float($0) } }
    return floats(axes.x) + floats(axes.y)
  }
}

/// Rows of actions, or of chunks of the actions of the following rows.
struct ActionRows: Derived {
  let parts: [ActionPart]
  /// Rows of a chunk; `nil` for single actions.
  let horizon: Int?
  let spec: StreamSpec

  init(frame: PoseFrame?, parts: [ActionPart], horizon: Int?, clock: Clock) {
    (self.parts, self.horizon) = (parts, horizon)
    let width = parts.reduce(0) { $0 + $1.columns }
    let units = parts.reduce(into: [String]()) { units, part in if !units.contains(part.unit) { units.append(part.unit) } }
    var spec = StreamSpec(
      kind: .action, type: .float32, shape: (horizon.map { [$0] } ?? []) + [width], unit: units.joined(separator: ", "), clock: clock)
    spec.parts = parts.map { StreamSpec.Part($0.name, columns: $0.columns) }
    if parts.contains(where: \.isOfPoses) { spec.actionFrame = frame }
    spec.rotationLayout = parts.lazy.compactMap(\.rotationLayout).first
    self.spec = spec
  }

  var inputs: [StreamName] { Set(parts.flatMap(\.inputs)).sorted() }

  func value(at row: Int, of rows: inout RowReader) throws -> [Float] {
    try (1...(horizon ?? 1)).flatMap { ahead in
      row + ahead > rows.last ? missing : try action(row, row + ahead, of: &rows)
    }
  }

  /// Returns, at the end of a recording, no motion and the row's own joints, so that programs that know no masks see no jump.
  func placeholder(at row: Int, of rows: inout RowReader) throws -> [Float]? {
    guard horizon == nil, row == rows.last, row == rows.count - 1 else { return nil }
    let values = try action(row, row, of: &rows)
    return values.contains(where: \.isNaN) ? nil : values
  }

  private var missing: [Float] { Array(repeating: .nan, count: parts.reduce(0) { $0 + $1.columns }) }

  /// The action from row t to row s; NaN if a gap or a jump of the tracking is between them, or one of its parts is missing.
  private func action(_ t: Int, _ s: Int, of rows: inout RowReader) throws -> [Float] {
    if rows.crossesBreak(from: t, to: s) { return missing }
    var action: [Float] = []
    for part in parts {
      // Differences of huge numbers may be beyond 32-bit floats.
      guard let values = try part.values(t, s, of: &rows), values.allSatisfy(\.isFinite) else { return missing }
      action += values
    }
    return action
  }
}
