package import Datasets
package import Evidence
package import Model
package import Hosts
import Readers
package import Steps
import Transforms

/// The steps that a run applies to every take: a reader, transforms in order, a writer.
package struct Pipeline: Sendable {
  /// The readers of a pipeline: the one that recognizes a take, or one for all takes.
  package enum Readers: Sendable {
    /// The reader that recognizes the take, with default options.
    case auto
    case one(any Reader)
  }

  package var readers: Readers
  /// How takes of several phones are joined; `nil` where each is one of its own.
  package var join: Join?
  package let transforms: [any Transform]
  /// The options of each transform, for the records of takes.
  private let transformOptions: [JSONValue]
  package var writer: any Writer
  /// The processes that call its steps in Python.
  package var hosts: StepHosts?
  /// The files that these read, by their paths, as they were when their digests were recorded.
  var stepInputs: [String: StepInputFile] = [:]

  struct StepInputFile: Sendable {
    var stamp: FileStamp
    var digest: Digest
  }

  /// The folder of the pipeline file, from which the paths of these steps are.
  package var folder: String?

  package init(readers: Readers, join: Join?, transforms: [any Transform], writer: any Writer) {
    self.readers = readers
    self.join = join
    self.transforms = transforms
    transformOptions = transforms.map { $0.optionValues() }
    self.writer = writer
  }

  /// The readers that may claim a take, in order.
  package var candidates: [any Reader] {
    switch readers {
    case .auto: Registry.readers.map { $0.init() }
    case .one(let reader): [reader]
    }
  }

  /// Every option of every step, defaults included, as the manifest records it.
  package func canonical() -> JSONValue {
    let reader: JSONValue
    switch readers {
    case .auto: reader = "auto"
    case .one(let one):
      var options = one.optionValues().object ?? [:]
      options["name"] = .string(type(of: one).name)
      reader = .object(options)
    }
    var members: [String: JSONValue] = [
      "version": 1, "reader": reader,
      "transforms": .array(zip(transforms, transformOptions).map { .object([type(of: $0).name: $1]) }),
      "writer": .object([type(of: writer).name: writer.optionValues()]),
    ]
    members["join"] = join?.json
    return .object(members)
  }

  /// The digest of the canonical form.
  package func digest() -> Digest { Digest.of(canonical().canonicalBytes) }

  /// The digest of the canonical form without the steps that concern the index alone; two runs with the same digest convert the same take in
  /// the same way.
  package func conversionDigest() -> Digest {
    Digest.of(Self(readers: readers, join: join, transforms: takeSteps, writer: writer).canonical().canonicalBytes)
  }

  /// The transforms that are applied to takes.
  private var takeSteps: [any Transform] { transforms.filter { !type(of: $0).concernsIndexOnly } }

  /// Throws `TakeFailure` where a file that a step in Python reads is no longer the one that was recorded.
  func checkStepFiles() throws {
    for (path, file) in stepInputs where (try? FileStamp.of(path)) != file.stamp {
      // It may only have been touched.
      if (try? SealedFile.digest(of: path).digest) == file.digest { continue }
      throw TakeFailure(
        .pythonStepFailed, "\(path) was changed while takes were converted, so nobody knows which version the step has read")
    }
  }

  /// Whether it has steps in Python.
  package var hasPrograms: Bool { transforms.contains { $0 is any ProgrammedTransform } }

  /// The split rule of the pipeline, if it has one; the last one counts.
  var split: (any SplitRule)? { transforms.compactMap { $0 as? any SplitRule }.last }

  /// The normalization of the pipeline, if it has one; the last one counts.
  var normalization: (any NormalizationRule)? { transforms.compactMap { $0 as? any NormalizationRule }.last }
}

/// The trace of an episode through the transforms.
package struct TakeTrace: Sendable {
  /// The episode from the reader.
  package var source: Episode
  /// The episode for the writer, or the last one before the obstacle.
  package var episode: Episode
  package var steps: [TakeRecord.Step]
  /// The `TakeFailure` or `Rejection` that ended it early.
  package var obstacle: (any Error)?
  /// Number of episodes of the take, once a step has split it.
  package var parts: Int?
  /// Number of steps before that.
  package var stepsBeforeSplit = 0
  /// Rows that repeated a frame before the take was split; they count once, for its first episode.
  package var repeatedBeforeSplit = 0
  /// The episode from the reader and after each step, if requested.
  package var history: [Episode] = []

  /// The trace of the take as one, for a take that is given up whatever episodes it would have had.
  package var beforeSplit: TakeTrace {
    guard parts != nil else { return self }
    var whole = self
    whole.steps = Array(steps.prefix(stepsBeforeSplit))
    (whole.parts, whole.repeatedBeforeSplit) = (nil, 0)
    whole.episode.id.part = nil
    return whole
  }

  /// The episode for the writer. Throws the obstacle.
  package func get() throws -> Episode {
    if let obstacle { throw obstacle }
    return episode
  }
}

extension Pipeline {
  /// Opens a take and applies every transform but those of the index. Conversion, plan and inspection all open takes with this method.
  ///
  /// - Parameter keepsHistory: Whether the traces have the episode after each step.
  /// - Returns: One trace for each episode of the take; exactly one unless a step splits takes.
  /// - Throws: Errors of the reader. An error of a transform is in the trace.
  package func open(
    _ take: Take, with reader: any Reader, in context: RunContext, keepsHistory: Bool = false
  ) throws -> [TakeTrace] {
    var source = try reader.open(take)
    source.folder = take.location.folder
    source.readerName = type(of: reader).name
    if let hosts = context.hosts ?? hosts { source.stepLease = StepLease(hosts) }
    // Its members are examined one by one.
    if !(reader is JoinedTake) { Self.examine(&source, take.inputs) }
    let opened = step(type(of: reader), reader.optionValues(), from: nil, to: source)
    var traces = [TakeTrace(source: source, episode: source, steps: [opened])]
    for (transform, options) in zip(transforms, transformOptions) where !type(of: transform).concernsIndexOnly {
      if keepsHistory { for index in traces.indices { traces[index].history.append(traces[index].episode) } }
      traces = traces.flatMap { trace -> [TakeTrace] in
        guard trace.obstacle == nil else { return [trace] }
        if let splitter = transform as? any EpisodeSplitter { return split(trace, splitter, options) }
        return [applying(transform, options, to: trace, in: context)]
      }
    }
    if keepsHistory { for index in traces.indices { traces[index].history.append(traces[index].episode) } }
    for index in traces.indices where traces[index].obstacle == nil {
      let frames = traces[index].episode.frames
      if frames.count == 0 { traces[index].obstacle = Rejection(.noRows, "no frames are left after the transforms") }
      // Images alone are not learned from in windows of actions.
      let isMotion = traces[index].episode.streams.values.contains { stream in
        if case .pose = stream.spec.kind { true } else { stream.spec.kind == .angles }
      }
      if isMotion, let short = frames.shortEpisode { traces[index].episode.findings.append(short) }
    }
    return traces
  }

  /// Examines what a take says of itself, whichever reader opened it.
  static func examine(_ source: inout Episode, _ inputs: TakeInputs) {
    source.findings += IntrinsicsCheck.findings(source) + RateCheck.findings(source) + (Day.finding(source.dates).map { [$0] } ?? [])
    SecondaryStreams.examine(&source, inputs)
    source.findings += RotationCheck.findings(source) + [InertialDelay.finding(source)].compactMap(\.self)
  }

  private func applying(_ transform: any Transform, _ options: JSONValue, to before: TakeTrace, in context: RunContext) -> TakeTrace {
    var trace = before
    let name = type(of: transform).name
    do {
      // A step after the actions may leave another row as the last one.
      let member = (transform as? any MemberTransform)?.member
      trace.episode = try before.episode.changing(member) { try transform.apply(to: $0, in: context) }.endingBeforeTheNextRow()
      if let member, !before.episode.has(member) { trace.episode.noteLacking(member, type(of: transform)) }
      trace.steps.append(step(type(of: transform), options, from: before.episode, to: trace.episode))
    } catch let rejection as Rejection {
      trace.episode = rejection.episode ?? before.episode
      trace.obstacle = Rejection(rejection.code, rejection.message)
    } catch {
      trace.obstacle = Self.named(error, name)
    }
    return trace
  }

  /// The traces of the episodes of a take, numbered from 0; what belongs to the others counts as dropped.
  private func split(_ take: TakeTrace, _ splitter: any EpisodeSplitter, _ options: JSONValue) -> [TakeTrace] {
    do {
      let whole = take.episode
      // A take without frames stays one, to be rejected.
      let ranges = try whole.frames.count == 0 ? [0..<0] : splitter.episodes(of: whole)
      return ranges.enumerated().map { part, rows in
        var trace = take
        trace.episode = whole.keeping(Array(rows), dropping: "other-episodes", continues: true)
        // Fewer rows do not change the rate.
        trace.episode.frames.nominalRate = whole.frames.nominalRate ?? whole.frames.cadence.rateHz
        trace.episode = trace.episode.endingBeforeTheNextRow()
        trace.episode.id.part = part
        (trace.parts, trace.repeatedBeforeSplit, trace.stepsBeforeSplit) = (ranges.count, whole.repeated, take.steps.count)
        trace.steps.append(step(type(of: splitter), options, from: whole, to: trace.episode))
        return trace
      }
    } catch {
      var trace = take
      trace.obstacle = Self.named(error, type(of: splitter).name)
      return [trace]
    }
  }

  private static func named(_ error: any Error, _ step: String) -> any Error {
    guard var failure = error as? TakeFailure else { return error }
    failure.message = "\(step): \(failure.message)"
    return failure
  }

  private func step(_ type: any Step.Type, _ options: JSONValue, from before: Episode?, to after: Episode) -> TakeRecord.Step {
    var step = TakeRecord.Step(
      name: type.name, options: options, framesIn: before?.frames.count ?? after.sourceFrames, framesOut: after.frames.count,
      dropped: after.dropped.dropFirst(before?.dropped.count ?? 0).map { TakeRecord.Step.Dropped(reason: $0.reason, count: $0.count) })
    if (type as? any Transform.Type)?.makesGrid == true {
      step.repeated = after.repeated - (before?.repeated ?? 0)
      step.skippedTicks = after.skippedTicks - (before?.skippedTicks ?? 0)
    }
    return step
  }
}

extension Step {
  /// Returns the values of all options, defaults included, as the manifest has them.
  package func optionValues() -> JSONValue { Options.values(of: self) }
}
