import CZlib
import Evidence
import Foundation
import Model

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps

extension FuzzTarget {
  /// What a run leaves for the next one, workers for each other, and child processes for their parent.
  static let batches = [manifest, tasks, results, journal]

  private static let tool = ToolIdentity(version: "1", revision: "fuzz")
  private static let conversion = TakeConversion(
    pipeline: must("a pipeline") { try PipelineFile.defaultPipeline() }, tool: tool, context: RunContext(keys: nil))

  private static let manifest = FuzzTarget("manifest", throws: JSONError.self, TakeFailure.self) { bytes in
    FuzzFiles.shared.write(DatasetFiles.manifest, bytes)
    _ = try? ManifestFile.indexStamp(in: FuzzFiles.shared.path)
    let file = try ManifestFile(FuzzFiles.shared.path)
    let damage = must("the digests") { try file.damage() }
    expect(file.record != nil || !damage.isEmpty, "a manifest without a record and without damage")
    _ = try? file.locations()
    _ = file.record?.contradictions(with: file.takes)
    for take in file.takes {
      guard let record = try? file.record(of: take) else { continue }
      expect(record.id == take.id && record.outcome == take.outcome && record.framesOut == take.framesOut, "an entry of another take")
      checkRecord(record)
    }
  }

  /// A record reads back from its bytes, also by Foundation's decoder.
  private static func checkRecord(_ record: TakeRecord) {
    let bytes = record.canonicalBytes
    let again = must("a record of \(record.id)") { try TakeRecord(json: bytes) }
    expect(again.canonicalBytes == bytes, "another record when read again")
    let decoded = must("a record of \(record.id)") { try JSONDecoder().decode(TakeRecord.self, from: Data(bytes)) }
    expect(decoded.canonicalBytes == bytes, "another record by Foundation")
    _ = (record.framesIn, record.framesOut, record.hasWarnings)
  }

  private static let tasks = FuzzTarget("tasks", throws: UsageError.self, VersionMismatch.self) { bytes in
    FuzzFiles.shared.write(DatasetFiles.tasks, bytes)
    let list = try TaskList(in: FuzzFiles.shared.path, tool: tool)
    expect(list.count == list.head.count, "another number of tasks")
    for input in list.head.unmatched { checkRecord(input.record) }
    _ = try list.splitFile()
    _ = try list.conversion(tool)
    var count = 0
    try list.forEach { number, task in
      expect(must("task \(number)") { try list.task(number) }.id == task.id, "another task")
      _ = try? task.makeReader()
      count += 1
    }
    expect(count == list.count, "tasks are lost")
  }

  /// The message of a child process that may have been taken over.
  private static let results = FuzzTarget("results", throws: DecodingError.self, TakeFailure.self) { bytes in
    let task = TakeTask(id: "a", location: TakeLocation(path: "/takes/a", isDirectory: true), reader: StackSession())
    let results = try ConversionAnswer.decode(Data(bytes))
    try IsolatedConversion.check(results, of: task, conversion)
    let again = must("the answer") { try ConversionAnswer.decode(ConversionAnswer.encode(results)) }
    expect(again.map(\.record) == results.map(\.record), "other results when sent")
    var rows = 0
    for result in results {
      checkRecord(result.record)
      let entry = Journal.Entry(.init(result, of: task, conversion))
      rows += entry.framesIn + entry.framesOut + entry.framesRepeated
      let line = Journal.encode(entry, record: result.record.canonicalBytes)
      expect(Journal.decode(line.dropLast())?.entry == entry, "another entry in the journal")
    }
  }

  /// Lines of a journal. Their checksums are set right: libFuzzer would not find them.
  private static let journal = FuzzTarget("journal") { bytes in
    var text: [UInt8] = []
    for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
      let body = line.dropLast(checksumCount)
      let sum = String(crc32_z(crc32(0, nil, 0), Array(body), body.count), radix: 16)
      text += body + Array(",\"crc32\":\"\(String(repeating: "0", count: 8 - sum.count))\(sum)\"}\n".utf8)
    }
    let path = FuzzFiles.shared.write("journal.jsonl", text)
    let contents = must("the journal") { try Journal.contents(at: path) }
    expect(contents.damaged <= text.count(where: { $0 == 0x0A }), "more damaged lines than lines")
    let file = must("the journal") { try Journal(path: path) }
    expect(file.entries == contents.entries, "other entries when opened")
    for (id, entry) in contents.entries {
      let record = must("a record") { try file.record(of: id) }
      expect(Journal.decode(Journal.encode(entry, record: record).dropLast())?.entry == entry, "another entry when written")
    }
    for record in (try? Journal.records(at: path)) ?? [] { checkRecord(record) }
  }
  /// `,"crc32":"01234567"}`
  private static let checksumCount = 20
}
