package import Datasets
package import Evidence
import Foundation
import HDF5
package import Model
import Runs
package import Steps

/// One row of an episode, followed back to the bytes of the take's files: samples, files, steps with their options, and the row made again.
/// A trace names what it cannot show because the take is gone, and has everything that the dataset itself holds.
///
///     let trace = try Trace(dataset: "dataset", Trace.Request(episode: "take-1", row: -1), checks: .inProcess)
///     for stream in trace.streams { print(stream.name, stream.origins) }
package struct Trace: Sendable {
  /// The row to trace.
  package struct Request: Sendable {
    /// An episode's id, or its name in the index.
    package var episode: String
    /// Number of the row, from 0, or from the end if negative.
    package var row: Int
    package var stream: StreamName?
    /// Public keys of devices, where the pipeline checks signatures.
    package var keys: DeviceKeys?
    /// The interpreter of the pipeline's steps in Python, if one is named.
    package var python: String?

    package init(episode: String, row: Int, stream: String? = nil, keys: DeviceKeys? = nil, python: String? = nil) {
      (self.episode, self.row, self.stream, self.keys, self.python) = (episode, row, stream.map { StreamName($0) }, keys, python)
    }
  }

  /// The dataset's directory, or a packed file.
  package let dataset: String
  package let isPacked: Bool
  package let episode: String
  /// The name in the index.
  package let demo: String
  package let row: Int
  package let rows: Int
  /// The record of the episode; `nil` for a packed file, which has none.
  package private(set) var record: TakeRecord?
  package private(set) var recordDigest: String?
  package private(set) var tool: String?
  package private(set) var part: String?
  package private(set) var location: String?
  package private(set) var sources: JSONValue?
  package private(set) var writer: JSONValue?
  /// Time of the row since the first one, in nanoseconds, on this clock.
  package private(set) var time: Int64 = 0
  package private(set) var clock = ""
  package private(set) var timeline = ""
  package private(set) var frame: Int64?
  package private(set) var streams: [TracedStream] = []
  package private(set) var steps: [TracedStep] = []
  /// Files that samples of the row are in.
  package private(set) var inputs: [TracedInput] = []
  /// Number of other files of the take, and those of them that are missing or have another size.
  package private(set) var otherInputs = 0
  package private(set) var otherProblems: [String] = []
  /// Whether the row has the same bytes when it is made again; `nil` where that was not possible, for this reason.
  package private(set) var isReproduced: Bool?
  package private(set) var unavailable: String?
  var difference: RecomputedRow.Difference?
  /// Arrays that are not as recorded, and what else differs from the record.
  package private(set) var problems: [String] = []
  /// The cause of `unavailable`, where it is one of the take.
  private var cause: TracedTake.Unavailable.Cause?
  private var isOtherGone = false
  private var isOtherChanged = false

  /// The row and the take, for pictures.
  var stored: StoredRow?
  var take: TracedTake?
  private(set) var remade: RecomputedRow?

  /// 0; 2 where the row, a step in Python or an input differs from its record; 64 where such a step cannot be called by this Python; 66 where
  /// inputs are gone and nothing else differs.
  package var exitCode: Int32 {
    if !problems.isEmpty || cause == .otherStep || isReproduced == false || inputs.contains(where: { $0.state == .changed }) { return 2 }
    if cause == .noStep { return 64 }
    // Other files matter where the take cannot be opened without them.
    if isReproduced == nil, isOtherChanged { return 2 }
    return cause == .gone || isReproduced == nil && isOtherGone || inputs.contains { $0.state != .unchanged } ? 66 : 0
  }

  package var differenceWords: String? { difference?.words }

  // MARK: A dataset

  /// Traces a row of a dataset directory. Throws `UsageError`.
  ///
  /// - Parameter checks: The check of a shard that another program has written to, before it is opened.
  package init(dataset directory: String, _ request: Request, checks: Verification.ExternalChecks) throws {
    let dataset = try Dataset(directory: directory)
    let found = try Self.find(request.episode, in: dataset)
    let record = found.record
    (self.dataset, isPacked, episode, demo) = (directory, false, record.id.text, found.demo)
    rows = record.output?.samples ?? 0
    row = try Self.number(request.row, of: rows, in: record.id.text)
    (self.record, recordDigest) = (record, dataset.recordDigest)
    tool = dataset.record.tool["version"]?.string
    part = dataset.parts[record.id.text]?.rawValue
    location = dataset.location(of: record.id.text)
    (sources, writer) = (dataset.record.sources, dataset.record.pipeline["writer"])
    try readStored(record, in: directory, request.stream, checks)
    retrace(record, dataset, request)
  }

  /// The written episode of an id or of a name in the index. Throws `UsageError`.
  private static func find(_ name: String, in dataset: Dataset) throws -> (record: TakeRecord, demo: String) {
    let written = dataset.written
    if let index = written.firstIndex(where: { $0.id.text == name }) {
      return (try dataset.record(of: written[index]), ShardNames.demo(index))
    }
    if let number = ShardNames.number(of: name), written.indices.contains(number) {
      return (try dataset.record(of: written[number]), ShardNames.demo(number))
    }
    let directory = dataset.directory
    if ShardNames.number(of: name) != nil {
      let last = written.isEmpty ? "" : "; the last is \(ShardNames.demo(written.count - 1))"
      throw UsageError("\(directory) has no episode \(name)\(last)")
    }
    if let take = dataset.takes.first(where: { $0.id.text == name }) {
      let reason = try dataset.record(of: take).reason
      throw UsageError("\(name) is \(take.outcome.rawValue) and has no rows: \(reason ?? "no reason is recorded")")
    }
    let parts = written.filter { $0.id.part != nil && $0.id.take == name }
    if let first = parts.first, let last = parts.last {
      throw UsageError("\(name) has \(parts.count) episodes; name one of \(first.id) to \(last.id)")
    }
    let meant = Spelling.nearest(to: name, among: written.map(\.id.text)).map { "; did you mean \($0)?" }
    throw UsageError("\(directory) has no episode \(name)\(meant ?? "; takeset inspect \(directory) lists them")")
  }

  /// The row counted from 0. Throws `UsageError`.
  private static func number(_ row: Int, of count: Int, in episode: String) throws -> Int {
    guard (-count..<count).contains(row) else {
      throw UsageError("there is no row \(row): \(episode) has the rows 0 to \(count - 1), from the end -1 to -\(count)")
    }
    return row < 0 ? row + count : row
  }

  /// Reads the stored row, if the shard is intact enough to be opened.
  private mutating func readStored(
    _ record: TakeRecord, in directory: String, _ stream: StreamName?, _ checks: Verification.ExternalChecks
  ) throws {
    guard let output = record.output else { throw UsageError("episode \(record.id) has no shard in \(directory)") }
    let path = directory + "/" + output.path
    var differences: [Verification.Difference] = []
    guard try Directory.kind(at: path) != nil else { return problems.append("\(output.path) is missing") }
    do {
      try WrittenShard.checkFolder(of: path)
      if (try? WrittenShard(path).structureDigest()) != output.structureDigest {
        // Another program has written to it, or it is damaged; only the check's own process opens it before that is known.
        differences = try checks.shard(path, output).differences
        if let crash = differences.first(where: { $0.path == path }) { return problems.append("\(output.path) \(crash.message)") }
      }
      let file = try File.open(path)
      defer { try? file.close() }
      let recorded = Dictionary(output.arrays.compactMap { array in array.digest.map { (array.path, $0) } }) { first, _ in first }
      let stored = try StoredRow(row, of: ShardNames.demo, in: file, recorded: recorded)
      guard stored.count == rows else { return problems.append("\(output.path) has \(stored.count) rows, recorded \(rows)") }
      guard stored.takeID == record.id.text else { return problems.append("\(output.path) is the shard of \(stored.takeID)") }
      // Arrays that can be read are compared with their digests below, of which other rows do not matter.
      let read = Set(stored.fields.values.map { "\(output.path):\($0.path)" })
      for difference in differences.prefix(Verification.rowsNamed) where difference.path != output.path {
        let array = difference.path.prefix { $0 != "[" }
        if !read.contains(String(array)) { problems.append("\(difference.path) \(difference.message)") }
      }
      try show(stored, stream)
    } catch let damage as FileMap.Damaged {
      problems.append("\(output.path) is not read: \(damage.description)")
    } catch let error as HDF5Error {
      problems.append("\(output.path) cannot be read: \(error.message)")
    } catch let error as FileError {
      problems.append("\(output.path) cannot be read: \(error.reason)")
    }
  }

  /// Fills in the streams of the stored row. Throws `UsageError` for a stream that it does not have.
  private mutating func show(_ stored: StoredRow, _ stream: StreamName?) throws {
    self.stored = stored
    (time, clock, timeline) = (stored.integer("meta/timestamp_ns") ?? 0, stored.clock, stored.timeline)
    frame = stored.integer("meta/source_index")
    let names = stored.streams
    if let stream, !names.contains(stream) {
      let meant = Spelling.hint(for: stream.rawValue, among: names.map(\.rawValue))
      throw UsageError("\(episode) has no stream \(stream)\(meant); it has \(names.map(\.rawValue).joined(separator: ", "))")
    }
    for name in names where stream == nil || stream == name {
      if let field = stored.field(of: name) {
        streams.append(TracedStream(name, field, stored))
        streams[streams.count - 1].addition = record?.additions.first { $0.stream == name }
      } else if let reading = stored.readings.first(where: { $0.name == name }) {
        streams.append(TracedStream(reading, demo: demo))
      }
    }
    for (key, field) in stored.fields.sorted(by: { $0.key < $1.key }) where stream.map({ StoredRow.belongs(key, to: $0) }) ?? true {
      if let problem = field.problem { problems.append("\(field.path)[\(row)]: \(problem)") }
    }
  }

  // MARK: The take

  /// Opens the take again, finds the samples' places, compares the files, and makes the row again.
  private mutating func retrace(_ record: TakeRecord, _ dataset: Dataset, _ request: Request) {
    var files: Set<String> = []
    if let addition = record.additions.first(where: { $0.stream == request.stream }) {
      unavailable = "takeset add has added it from \(addition.file), which is no file of the take"
      otherInputs = record.inputs.count
      return
    }
    if let location {
      do {
        let take = try TracedTake(
          record, at: location, by: dataset.record.pipeline, from: dataset.pipelineFolder, python: request.python, keys: request.keys)
        self.take = take
        files = try follow(take, request.stream)
      } catch let error as TracedTake.Unavailable {
        (unavailable, cause) = (error.reason, error.cause)
      } catch {
        unavailable = "\(error)"
      }
    } else {
      (unavailable, cause) = ("where the take was is not recorded", .gone)
    }
    if files.isEmpty {
      let made = Set(record.steps.compactMap { TracedStep($0).madeStream })
      for index in streams.indices where streams[index].hasSample && !made.contains(streams[index].name) && streams[index].addition == nil {
        streams[index].candidates = TracedInput.candidates(
          streams[index].kind, number: streams[index].sourceIndex ?? -1, among: record.inputs)
        files.formUnion(streams[index].candidates.map(\.path))
      }
    }
    compareInputs(record, files)
    steps = TracedStep.all(record, take, row: row, stream: request.stream)
    if let unavailable, cause == nil || cause == .take, inputs.allSatisfy({ $0.state == .unchanged }), otherProblems.isEmpty {
      problems.append("the take cannot be opened as it was: \(unavailable)")
    }
  }

  /// The streams that come from files beside the take, and cannot be made of it.
  private var added: Set<StreamName> { Set(record?.additions.map(\.stream) ?? []) }

  /// Traces the streams in the take and makes the row again; returns the files that samples are in. Throws `Unavailable`.
  private mutating func follow(_ take: TracedTake, _ stream: StreamName?) throws -> Set<String> {
    guard take.episode.frames.count == rows else {
      (isReproduced, self.take) = (false, nil)
      throw TracedTake.Unavailable(reason: "made again, the episode has \(take.episode.frames.count) rows, not \(rows)")
    }
    do {
      for index in streams.indices { try streams[index].trace(row, in: take.episode) }
      let again = try RecomputedRow(row, of: take.episode, stored: take.pipeline.writer.storage)
      remade = again
      if let stored {
        difference = again.difference(from: stored, in: stream, except: added)
        isReproduced = difference == nil
        for index in streams.indices where streams[index].kind != "inertial" && streams[index].addition == nil {
          streams[index].isReproduced = again.difference(from: stored, in: streams[index].name) == nil
        }
      }
      for index in streams.indices { streams[index].unreadable = again.unreadable[streams[index].name] }
    } catch {
      unavailable = "the row cannot be made again: \(error)"
    }
    return Set(streams.flatMap(\.origins).map(\.place.file))
  }

  private mutating func compareInputs(_ record: TakeRecord, _ files: Set<String>) {
    let paths = location.map { record.inputPaths(at: $0) } ?? record.inputs.map { _ in nil }
    for (input, path) in zip(record.inputs, paths) {
      if files.contains(input.path) {
        inputs.append(TracedInput(input, at: path))
        continue
      }
      otherInputs += 1
      guard let path, cause != .gone else { continue }
      // Digests of all files are what verify --inputs is for.
      let bytes = try? FileStamp.of(path).bytes
      if bytes == nil { isOtherGone = true } else if bytes != input.bytes { isOtherChanged = true }
      if bytes != input.bytes { otherProblems.append("\(input.path) \(bytes == nil ? "is missing" : "has another size than recorded")") }
    }
  }

  // MARK: A packed file

  /// Traces a row of a packed file, as far as the file knows. Throws `UsageError`, or `HDF5Error`.
  package init(packed path: String, _ request: Request) throws {
    let file = try File.open(path)
    defer { try? file.close() }
    guard try file.root.textAttribute("format") == "takeset" else {
      throw UsageError("\(path) is not a Takeset file: it has no attribute format = \"takeset\"")
    }
    let demo = try Self.demo(request.episode, in: file, path)
    let count = try StoredRow.count(in: file, demo: demo)
    (dataset, isPacked, self.demo, rows) = (path, true, demo, count)
    row = try Self.number(request.row, of: count, in: request.episode)
    let stored = try StoredRow(row, of: demo, in: file, recorded: nil)
    episode = stored.takeID
    tool = try file.root.textAttribute("tool_version")
    unavailable = "the file does not say where its takes were; trace the same row in the dataset that it was packed from"
    try show(stored, request.stream)
  }

  private static func demo(_ name: String, in file: File, _ path: String) throws -> String {
    let data = try file.root.group(ShardNames.allData)
    let demos = try data.members().filter { $0.kind == .group }.map(\.name)
    if demos.contains(name) { return name }
    var ids: [String] = []
    for demo in demos {
      let id = try data.group(demo).textAttribute(ShardNames.takeID) ?? demo
      if id == name { return demo }
      ids.append(id)
    }
    let meant = Spelling.hint(for: name, among: ids)
    throw UsageError("\(path) has no episode \(name)\(meant)")
  }
}

extension Trace {
  /// The trace as a JSON object, described in `docs/trace.md`.
  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "dataset": .string(dataset), "packed": .bool(isPacked), "record_sha256": JSONValue(recordDigest), "tool_version": JSONValue(tool),
      "episode": .string(episode), "demo": .string(demo), "take": JSONValue(record.map { $0.id.take }),
      "part": record?.id.part.map { JSONValue($0) } ?? .null, "split": JSONValue(part), "reader": JSONValue(record?.reader),
      "variant": JSONValue(record?.variant), "location": JSONValue(location), "row": JSONValue(row), "rows": JSONValue(rows),
      "timestamp_ns": .integer(time), "clock": .string(clock), "timeline": .string(timeline),
      "source_index": frame.map { .integer($0) } ?? .null, "streams": .array(streams.map(\.json)), "steps": .array(steps.map(\.json)),
      "writer": writer ?? .null, "inputs": .array(inputs.map(\.json)),
      "other_inputs": ["count": JSONValue(otherInputs), "problems": .array(otherProblems.map { .string($0) })],
      "reproduced": isReproduced.map { .bool($0) } ?? .null, "difference": difference?.json ?? .null,
      "unavailable": JSONValue(unavailable), "problems": .array(problems.map { .string($0) }), "exit_code": .integer(Int64(exitCode)),
    ]
    if let sources { members["sources"] = sources }
    return .object(members)
  }
}
