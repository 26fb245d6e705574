package import Datasets
import Evidence
import Foundation
import Hosts
import Media
import Model
import Steps

/// `tasks.json`: the takes of a batch, one task each, for workers that share nothing but the directory. The first line holds everything that
/// concerns all tasks, and each other line one task, so that a worker decodes one line and not all of them.
package struct TaskList: Sendable {
  /// The part of the list that concerns all tasks.
  package struct Head: Codable, Sendable {
    var format = "takeset-tasks"
    var formatVersion = 1
    var toolVersion: String
    /// The pipeline with all options, and its digest.
    var pipeline: JSONValue
    var pipelineDigest: String
    /// The text of the keys file.
    var keys: String?
    /// The text of the split file, and its name.
    var split: String?
    var splitName: String?
    /// Inputs in which there is no take.
    var unmatched: [UnmatchedInput]
    /// Places that the search passed over.
    var ignored: [Finding]?
    /// Whether shards are replaced to which another program has added; absent where not.
    var replaces: Bool?
    /// Number of tasks.
    package var count: Int
  }

  struct UnmatchedInput: Codable, Sendable {
    var path: String
    var record: TakeRecord

    /// Whether it stands for an input without a take, which failed and left nothing.
    var isPlausible: Bool { record.outcome == .failed && record.output == nil && record.id.part == nil && record.steps.isEmpty }
  }

  /// The digest of the list that was published last.
  private static let mark = DatasetFiles.results + "/" + DatasetFiles.publishedMark
  private static let end = Array("\n]}\n".utf8)

  package let head: Head
  private let path: String
  /// Stays the list that was opened when another plan replaces it, whose tasks have other places and numbers.
  private let file: FileSlice
  /// Byte offsets of the tasks' lines.
  private let lines: [Range<Int64>]

  /// Opens the list of a directory. Throws `NoInputs` where there is none, `UsageError` for a damaged one, `VersionMismatch` for one of
  /// another version, `OutputFailure` where it cannot be read.
  package init(in directory: String, tool: ToolIdentity) throws {
    path = directory + "/" + DatasetFiles.tasks
    var lines: [Range<Int64>] = []
    let (first, end): (Data, [UInt8])
    do {
      guard try Directory.kind(at: path) == .file else { throw NoInputs(path: path) }
      file = try InputFile(path).slice()
      var start: Int64 = 0
      for window in stride(from: 0, to: file.count, by: 1 << 20) {
        for (index, byte) in try file.bytes(window..<min(window + 1 << 20, file.count)).enumerated() where byte == 0x0A {
          lines.append(start..<(window + Int64(index)))
          start = window + Int64(index) + 1
        }
      }
      first = Data(try file.bytes(lines.first ?? 0..<0))
      end = try file.bytes(max(0, file.count - Int64(Self.end.count))..<file.count)
    } catch let error as NoInputs {
      throw error
    } catch {
      throw OutputFailure("cannot read \(path): \(error)")
    }
    let json = first.dropLast(",\"tasks\":[".utf8.count) + Data("}".utf8)
    // Another version may have other members.
    guard let version = try? JSONDecoder().decode(Version.self, from: json), version.format == "takeset-tasks" else {
      throw Self.damaged(path)
    }
    guard version.formatVersion == 1, version.toolVersion == tool.version else {
      throw VersionMismatch(
        description: "\(path) was written by Takeset \(version.toolVersion), and this is \(tool.version); use one version for all tasks")
    }
    guard let head = try? JSONDecoder().decode(Head.self, from: json), Digest(hex: head.pipelineDigest) != nil, end == Self.end,
      lines.count - 2 == head.count,
      head.unmatched.allSatisfy(\.isPlausible), (head.ignored ?? []).allSatisfy(\.hasPlausibleCount)
    else {
      throw Self.damaged(path)
    }
    self.head = head
    self.lines = Array(lines.dropFirst().dropLast())
  }

  private struct Version: Decodable {
    var format: String
    var formatVersion: Int
    var toolVersion: String
  }

  private static func damaged(_ path: String) -> UsageError {
    UsageError("\(path) is damaged, or not a list of tasks; write it again with takeset plan --tasks")
  }

  package var count: Int { lines.count }

  /// Task `number`, from 0. Throws `UsageError`, `OutputFailure`.
  package func task(_ number: Int) throws -> TakeTask {
    guard lines.indices.contains(number) else {
      throw UsageError("there is no task \(number); \(path) has tasks 0 to \(count - 1)")
    }
    var line: [UInt8]
    do { line = try file.bytes(lines[number]) } catch { throw OutputFailure("cannot read \(path): \(error)") }
    if line.last == UInt8(ascii: ",") { line.removeLast() }
    guard let task = try? JSONDecoder().decode(TakeTask.self, from: Data(line)), PlainName(task.id) != nil,
      task.findings.allSatisfy(\.hasPlausibleCount)
    else {
      throw UsageError("task \(number) of \(path) cannot be read; write it again with takeset plan --tasks")
    }
    return task
  }

  /// Calls `body` for every task in order.
  func forEach(_ body: (_ number: Int, _ task: TakeTask) throws -> Void) throws {
    for number in lines.indices { try body(number, task(number)) }
  }

  /// The conversion of tasks, or of what has become of them: only the former calls steps in Python, which `load` prepares.
  func conversion(
    _ tool: ToolIdentity, load: (_ pipeline: Pipeline, _ folder: String) throws -> Pipeline = { pipeline, _ in pipeline }
  ) throws -> TakeConversion {
    do {
      let keys = try head.keys.map { try DeviceKeys(Array($0.utf8), name: "keys of \(path)") }
      var pipeline = try PipelineFile.pipeline(from: head.pipeline)
      if pipeline.hasPrograms {
        let folder = TaskSteps(of: pipeline).folder(in: URL(fileURLWithPath: path).deletingLastPathComponent().path)
        pipeline.folder = folder
        pipeline = try load(pipeline, folder)
      }
      return TakeConversion(pipeline: pipeline, tool: tool, context: RunContext(keys: keys))
    } catch let mistake as StepMistake {
      throw UsageError("\(path): pipeline: \(mistake)")
    } catch let error as PipelineFileError {
      throw UsageError("\(path): pipeline: \(error)")
    }
  }

  func splitFile() throws -> SplitFile? {
    try head.split.map { try SplitFile(Array($0.utf8), name: head.splitName ?? "split") }
  }

  /// Whether a directory has tasks of which `publish` has not yet made a dataset; of whatever version. Throws `FileError`.
  package static func hasUnpublished(in directory: String) throws -> Bool {
    guard try Directory.kind(at: directory + "/" + DatasetFiles.tasks) == .file else { return false }
    let mark = directory + "/" + mark
    guard try Directory.kind(at: mark) == .file else { return true }
    var bytes: [UInt8] = []
    try InputFile(mark).readAll(limit: 1 << 10, into: &bytes)
    return bytes != Array("\(try SealedFile.digest(of: directory + "/" + DatasetFiles.tasks).digest)\n".utf8)
  }

  /// Notes that the list of a directory is published.
  static func markPublished(in directory: String) throws {
    guard try hasUnpublished(in: directory) else { return }
    let digest = try SealedFile.digest(of: directory + "/" + DatasetFiles.tasks).digest
    try SealedFile.write(directory + "/" + mark) { write in try Array("\(digest)\n".utf8).withUnsafeBytes(write) }
  }

  static func write(_ head: Head, _ tasks: some Collection<TakeTask>, to path: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    try SealedFile.write(path) { write in
      func put(_ bytes: some Sequence<UInt8>) throws { try Array(bytes).withUnsafeBytes(write) }
      try put(encoder.encode(head).dropLast() + Array(",\"tasks\":[".utf8))
      var separator = "\n"
      for task in tasks {
        try put(Array(separator.utf8) + encoder.encode(task))
        separator = ",\n"
      }
      try put(end)
    }
  }
}

/// A file of another version of Takeset: exit code 78.
package struct VersionMismatch: Error, CustomStringConvertible {
  package var description: String
}
