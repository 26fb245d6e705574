import Datasets
import Evidence
import Model
import Steps
import Transforms

/// Takes of several phones at the same time as one: the frames are those of the reference, and the streams of each member have its name before
/// theirs. Each member is read by the reader of its format, and related to the reference by Unix time.
///
/// A search makes it with the takes of a group, so it is no reader that a pipeline can name. Its options are what one take is joined from, and the
/// record has them.
struct JoinedTake: Reader {
  static let name = TakeRecord.joiningReader
  static let summary = "Takes of several phones at the same time, as one"

  @StepOption("by the names of members: the place of the take below the folder of the group, its id, and its reader with all options")
  var members: [String: JSONValue] = [:]
  @StepOption("what the takes have in common") var group = ""
  @StepOption("the member whose frames are the rows") var reference = ""
  @StepOption("added to the times of a member (seconds)") var offset: [String: Double] = [:]
  @StepOption("members of which the group has no take") var lacking: [String] = []
  @StepOption("whether it is written without them") var keeps = false
  @StepOption("whether the poses of all members are in one world") var sharesWorld = false
  @StepOption("the reason why it cannot be told what belongs together") var ambiguity: String? = nil

  init() {}

  /// A take that is joined.
  struct Member {
    var name: String
    var place: String
    var id: String
    var reader: any Reader

    var json: JSONValue {
      var options = reader.optionValues().object ?? [:]
      options["name"] = .string(type(of: reader).name)
      return ["place": .string(place), "id": .string(id), "reader": .object(options)]
    }

    /// Throws `PipelineFileError` for what no search has made.
    init(_ name: String, _ json: JSONValue) throws {
      guard let place = json["place"]?.string, DatasetFiles.isInside(place), let id = json["id"]?.string,
        var options = json["reader"]?.object, let format = options.removeValue(forKey: "name")?.string
      else { throw PipelineFileError("reader.members.\(name)", "expected a place, an id and a reader") }
      self.init(name: name, place: place, id: id, reader: try PipelineFile.reader(format, options: .object(options)))
    }

    init(name: String, place: String, id: String, reader: any Reader) {
      (self.name, self.place, self.id, self.reader) = (name, place, id, reader)
    }
  }

  /// What was joined, as the journal keeps it.
  var joinedGroup: JoinedGroup { JoinedGroup(["group": .string(group), "members": .object(members)]) }

  private func all() throws -> [Member] { try members.sorted { $0.key < $1.key }.map { try Member($0.key, $0.value) } }

  func recognize(_ place: TakePlace) throws -> Candidate? {
    Candidate(.certain, stem: place.name) { [root = place.location] in
      let found = try all().map { member in
        let path = JoinedGroup.path(of: member.place, in: root.path)
        guard let kind = try Directory.kind(at: path, followingLinks: true) else {
          throw TakeFailure(.inputMissing, "the take of \(member.name) is no longer there", file: member.place)
        }
        let location = TakeLocation(path: path, isDirectory: kind == .directory)
        do {
          return TakeInputs.Member(name: member.name, location: location, inputs: try member.reader.inputs(of: location))
        } catch let failure as TakeFailure {
          throw failure.ofMember(member.name)
        }
      }
      return TakeInputs(root: root.path, members: found)
    }
  }

  func open(_ take: Take) throws -> Episode {
    if let ambiguity { throw TakeFailure(.joinAmbiguous, ambiguity) }
    let opened = try all().compactMap { member in
      try take.inputs.members.first { $0.name == member.name }.map { try OpenedMember(member, $0) }
    }
    guard let reference = opened.first(where: { $0.name == self.reference }), keeps || lacking.isEmpty else {
      throw Rejection(.joinIncomplete, missingWords(opened))
    }
    let timeline = reference.source
    var joined = Episode(id: take.id, sourceFrames: timeline.sourceFrames, frames: timeline.frames, streams: [:])
    (joined.dropped, joined.captureStart, joined.dates) = (timeline.dropped, timeline.captureStart, timeline.dates)
    (joined.unixOrigin, joined.device) = (reference.aligned.unixOrigin, timeline.device)
    if !lacking.isEmpty { joined.findings.append(Finding(.joinIncomplete, missingWords(opened), severity: .warning)) }
    // One phone alone has nothing to be related to.
    let clock = opened.count > 1 ? try reference.unixClock() : nil
    var labels: [String: JSONValue] = [:]
    for member in OpenedMember.byLabels(opened) {
      let shift = member.name == reference.name ? nil : try clock.map { try self.shift(member, to: reference, $0, &joined.findings) }
      if let shift, let finding = try member.absence(from: timeline.frames, of: reference.name, shift) { joined.findings.append(finding) }
      joined.add(member, shift: shift, world: sharesWorld ? "session" : member.name)
      if let first = timeline.frames.timestamps.first, let own = member.source.frames.timestamps.first {
        labels.merge(member.labels(later: Double(own.advanced(by: shift?.nanoseconds ?? 0).since(first)) / 1e9)) { own, _ in own }
      }
    }
    if !labels.isEmpty { joined.details[LabelDetails.format] = .object(labels) }
    // Its times are those of the rows.
    if let archived = take.inputs.members.first(where: { $0.name == reference.name }).flatMap({ LabelFile.archived($0.inputs) }) {
      joined.details[LabelDetails.archive] = archived(joined.id)
    }
    for member in opened { joined.memberEvidence[member.name] = member.source.evidence }
    joined.dependsOnKeys = opened.contains { $0.source.dependsOnKeys }
    return joined
  }

  /// `there is no take of right; the files say that these took part: left, right`
  private func missingWords(_ opened: [OpenedMember]) -> String {
    let sides = Set(opened.flatMap { $0.source.details["sidesPresent"]?.array ?? [] }.compactMap(\.string)).sorted()
    let words = sides.isEmpty ? "" : "; the files say that these took part: \(sides.joined(separator: ", "))"
    return "there is no take of \(lacking.joined(separator: ", ")) beside \(opened.map(\.name).joined(separator: ", "))\(words)"
  }

  // MARK: Time

  /// Unix time coarser than this (ns) cannot pair frames of two phones.
  private static let coarsest: Int64 = 20_000_000

  private func shift(
    _ member: OpenedMember, to reference: OpenedMember, _ clock: UnixClock, _ findings: inout [Finding]
  ) throws -> Shift {
    let own = try member.unixClock()
    let given = (offset[member.name] ?? 0) - (offset[reference.name] ?? 0)
    let shift = Shift(
      nanoseconds: Timestamp(nanoseconds: own.zero).advanced(byNanoseconds: given * 1e9).since(Timestamp(nanoseconds: clock.zero)),
      residual: max(own.resolution, clock.resolution))
    if let delay = CommonMotion.delay(of: member.aligned, later: shift.nanoseconds, than: reference.aligned),
      delay.nanoseconds.magnitude > Self.coarsest.magnitude
    {
      findings.append(contradiction(delay, of: member.name, reference.name))
    } else if shift.residual > Self.coarsest {
      let words = given == 0 ? "join: {offset: {\(member.name): …}} corrects it" : "the offset of \(given) s that is given is added"
      findings.append(
        Finding(
          .joinClock,
          "the clock of \(member.name) is related to that of \(reference.name) by Unix time that is known to \(Double(shift.residual) / 1e9) s; \(words)",
          field: member.name))
    }
    return shift
  }

  /// The finding that two phones turn alike, and not at the same time.
  private func contradiction(_ delay: CommonMotion.Delay, of member: String, _ reference: String) -> Finding {
    let seconds = Double(delay.nanoseconds) / 1e9
    let words = String(
      format:
        "%@ turns as %@ does, and %.0f ms %@ (correlation %.4f with that, %.4f as timed); if they were turned together, join: {offset: {%@: %.3f}} puts both at one time",
      member, reference, abs(seconds) * 1000, seconds > 0 ? "later" : "earlier", delay.correlation, delay.correlationAsTimed, member,
      (offset[member] ?? 0) - seconds)
    return Finding(.joinClock, words, field: member)
  }
}

/// What is added to a member's times to get the reference's clock, and how exact that is (ns).
struct Shift {
  var nanoseconds: Int64
  var residual: Int64
}

extension Episode {
  /// Adds the streams, cameras, findings and details of a member. All but the frames' own streams of the reference get their rows from `align`.
  ///
  /// - Parameter shift: `nil` for the reference.
  fileprivate mutating func add(_ member: OpenedMember, shift: Shift?, world: String) {
    let (source, aligned, later) = (member.source, member.aligned, shift?.nanoseconds ?? 0)
    for (name, own) in source.streams {
      guard var stream = aligned.streams[name] else { continue }
      stream.rows = shift == nil ? own.rows : nil
      if stream.rows == nil {
        let known = aligned.alignments.first { $0.stream == name }
        let isRelated = known.map { $0.offset != nil } ?? true
        let own = known?.method.replacing("+nearest", with: "") ?? "same-clock"
        let method = shift == nil ? own : own == "same-clock" ? "unix" : own + "+unix"
        let used =
          source.streams[name]?.rows.map { rows in Set(rows.compactMap { $0?.nearest }).sorted() } ?? Array(stream.timestamps.indices)
        stream.relation = SampleStream.Relation(
          Alignment(
            stream: name, method: method,
            offset: isRelated ? Timestamp(nanoseconds: known?.offset ?? 0).advanced(by: later).nanoseconds : nil,
            residual: isRelated ? (known?.residual ?? 0) + (shift?.residual ?? 0) : nil), samples: used)
        stream.senderMilliseconds = nil
        if isRelated { stream.spec.clock = frames.clock }
      }
      stream.timestamps = stream.timestamps.map { $0.advanced(by: later) }
      stream.spec.member = member.name
      if var raster = stream.spec.raster {
        raster.camera = Self.camera(raster.camera, of: member)
        stream.spec.raster = raster
      }
      if var frame = stream.spec.kind.poseFrame {
        frame.world = world
        stream.spec.kind = .pose(frame)
      }
      stream.intrinsicsTrack = stream.intrinsicsTrack?.later(by: later)
      streams[name.of(member.name)] = stream
    }
    for (name, camera) in aligned.cameras {
      cameras[Self.camera(name, of: member)] = Camera(
        size: camera.size, intrinsicsTrack: camera.intrinsicsTrack?.later(by: later), pose: camera.pose?.of(member.name))
    }
    if shift != nil { addQuality(of: source.frames, shift: later) }
    findings += aligned.findings.map(member.named)
    var own = source.details
    own[LabelDetails.format] = nil
    var all = details["members"]?.object ?? [:]
    all[member.name] = ["reader": .string(member.reader), "variant": JSONValue(source.variant), "details": .object(own)]
    details["members"] = .object(all)
  }

  private static func camera(_ name: CameraName, of member: OpenedMember) -> CameraName { CameraName("\(member.name)_\(name)") }

  /// Marks the rows whose nearest frame of a member has a problem; a jump of its tracking is that of the first row after it.
  private mutating func addQuality(of member: Frames, shift: Int64) {
    guard member.quality.contains(where: { !$0.isEmpty }), frames.count > 0 else { return }
    if frames.quality.isEmpty { frames.quality = Array(repeating: [], count: frames.count) }
    let times = member.timestamps.map { $0.advanced(by: shift) }
    var next = 0  // the first frame of the member after the row
    for (row, time) in frames.timestamps.enumerated() {
      let before = next
      while next < times.count, times[next] <= time { next += 1 }
      // A jump before the first row leads to no row.
      let jumps = row > 0 && member.quality[before..<next].contains { $0.contains(.poseJump) }
      if jumps { frames.quality[row].insert(.poseJump) }
      guard let nearest = [next - 1, next].filter(times.indices.contains).min(by: { abs($0, time, times) < abs($1, time, times) }) else {
        continue
      }
      if abs(nearest, time, times) <= Self.near { frames.quality[row].formUnion(member.quality[nearest].subtracting(.poseJump)) }
    }
  }
  /// A frame of another phone that is farther from a row than this (ns) says nothing of it.
  private static let near: Int64 = 50_000_000

  private func abs(_ index: Int, _ time: Timestamp, _ times: [Timestamp]) -> Int64 { Swift.abs(max(times[index].since(time), -.max)) }
}

extension IntrinsicsTrack {
  /// The same at later times, by nanoseconds.
  fileprivate func later(by shift: Int64) -> IntrinsicsTrack {
    IntrinsicsTrack(usual, moments: moments.map { Moment(time: $0.time.advanced(by: shift), intrinsics: $0.intrinsics) })
  }
}
