import Foundation
import Steps

/// The takes that a watch has found at rest and whose groups are not complete: a group is converted once all of its members are there.
struct WatchedGroups {
  private let pipeline: Pipeline
  private let timing: UnixSpan.Reading
  /// The takes whose group lacks a member, by their paths.
  private(set) var waiting: [String: Waiting] = [:]

  struct Waiting {
    var reason: String
    /// When it was first looked at, in seconds of the system's uptime.
    var since: Double?
    var isNamed = false
  }

  /// The paths of a group's takes by that of each: if one changes, all are converted.
  private var groups: [String: [String]] = [:]

  /// `nil` for a pipeline that joins nothing.
  init?(_ run: Run, _ isCancelled: @escaping @Sendable () -> Bool) {
    guard var join = run.pipeline.join else { return nil }
    var pipeline = run.pipeline
    timing = run.timing(TakeConversion(pipeline: pipeline, tool: run.tool, context: RunContext(keys: run.keys)), isCancelled)
    // What becomes of an incomplete group shows only when nothing else comes.
    join.incomplete = .reject
    pipeline.join = join
    self.pipeline = pipeline
  }

  /// The takes that can be converted now that these have come to rest: those of complete groups, and those that no group takes in. Others wait.
  mutating func complete(_ ready: [String], _ watch: TakeWatch) -> [String] {
    waiting = waiting.filter { watch.isStanding($0.key) }
    guard !ready.isEmpty else { return [] }
    let others = ready.flatMap { groups[$0] ?? [] } + waiting.keys
    let inputs = Set(ready + others.filter(watch.isStanding)).sorted()
    let search = TakeSearch(inputs: inputs, pipeline: pipeline, timing: timing)
    var converted: Set<String> = []
    for take in search.found {
      guard let joined = take.reader as? JoinedTake else {
        converted.insert(take.location.path)
        continue
      }
      let members = joined.joinedGroup.paths(in: take.location.path)
      for path in members { groups[path] = members }
      if joined.lacking.isEmpty || joined.ambiguity != nil {
        converted.formUnion(members)
      } else {
        let reason = "its group has no take of \(joined.lacking.joined(separator: ", ")) yet"
        for path in members where waiting[path]?.reason != reason { waiting[path] = Waiting(reason: reason) }
      }
    }
    for path in converted { waiting[path] = nil }
    // What is gone again a moment later is said by the run.
    return converted.union(ready.filter { waiting[$0] == nil }).sorted()
  }

  /// The takes that have waited for longer than some seconds, each once.
  mutating func stalled(_ now: Double, patience: Double) -> [(path: String, reason: String)] {
    var stalled: [(path: String, reason: String)] = []
    for (path, var entry) in waiting.sorted(by: { $0.key < $1.key }) where !entry.isNamed {
      entry.since = entry.since ?? now
      if now - (entry.since ?? now) >= patience {
        entry.isNamed = true
        stalled.append((path, entry.reason))
      }
      waiting[path] = entry
    }
    return stalled
  }
}
