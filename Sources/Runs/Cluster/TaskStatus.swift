package import Datasets
package import Evidence
import Foundation
import Model
import Steps

/// The progress of the tasks of a directory.
package struct TaskStatus: Sendable {
  package private(set) var written = 0
  package private(set) var rejected = 0
  /// Failed takes with their reasons.
  package private(set) var failed: [(number: Int, id: String, reason: String)] = []
  /// Numbers of the tasks that have no result yet, ascending.
  package private(set) var missing: [Int] = []
  package private(set) var rows = 0
  package let total: Int

  /// Throws `NoInputs`, `UsageError`, `VersionMismatch`, `OutputFailure`.
  package init(_ directory: String, tool: ToolIdentity, checks: Verification.ExternalChecks) throws {
    let list = try TaskList(in: directory, tool: tool)
    let results = TaskResults(
      directory: Directory.absolute(directory), conversion: try list.conversion(tool), checks: checks, replaces: list.head.replaces == true)
    total = list.count
    do {
      try list.forEach { number, task in
        guard let episodes = try results.episodes(of: task) else { return missing.append(number) }
        rows += episodes.reduce(0) { $0 + $1.entry.framesOut }
        if let bad = episodes.first(where: { $0.entry.outcome == .failed }) {
          failed.append((number, task.id, (try? TakeRecord(json: bad.record))?.reason ?? "no reason is recorded"))
        } else if episodes.contains(where: { $0.entry.outcome == .written }) {
          written += 1
        } else {
          rejected += 1
        }
      }
    } catch let error as FileError {
      throw OutputFailure("\(error)")
    }
  }

  /// Missing tasks as an array specification of Slurm: `3,7,12-15`.
  ///
  /// - Parameter size: Tasks in each job of the array; numbers are then those of jobs.
  package func ranges(size: Int = 1) -> String { Self.ranges(missing.map { $0 / max(1, size) }) }

  static func ranges(_ numbers: [Int]) -> String {
    var ranges: [ClosedRange<Int>] = []
    for number in numbers {
      if let last = ranges.last, number <= last.upperBound + 1 {
        ranges[ranges.count - 1] = last.lowerBound...number
      } else {
        ranges.append(number...number)
      }
    }
    return ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
  }

  package var json: JSONValue {
    [
      "tasks": JSONValue(total), "written": JSONValue(written), "rejected": JSONValue(rejected), "rows": JSONValue(rows),
      "failed": .array(failed.map { ["task": JSONValue($0.number), "id": .string($0.id), "reason": .string($0.reason)] }),
      "missing": .array(missing.map { JSONValue($0) }),
    ]
  }
}
