import Datasets
package import Evidence

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
