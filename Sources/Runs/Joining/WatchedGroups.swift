import Foundation
import Model
import Steps
import Synchronization

/// The groups of all takes that a watch knows: a group is converted once all of its members are there and at rest.
///
/// What a search has found of a take is kept until its files change, so that a look at the inputs searches only what is new.
struct WatchedGroups {
  private let pipeline: Pipeline
  private let join: Join
  /// Says when a take was recorded, and asks once, unless the machine was to blame.
  let timing: UnixSpan.Reading
  private let spans: Spans
  /// The takes at rest, by their paths, as a search finds them before it joins any.
  private var known: [String: TakeSearch.Found] = [:]
  /// The paths of the takes that were given out together.
  private var given: Set<[String]> = []
  /// The takes whose group lacks a member, by their paths.
  private(set) var waiting: [String: Waiting] = [:]

  struct Waiting {
    var reason: String
    /// When it was first looked at, in seconds of the system's uptime.
    var since: Double?
    var isNamed = false
  }

  /// Times that were read once.
  private final class Spans: Sendable {
    let all = Mutex<[String: Result<UnixSpan, any Error>]>([:])

    func span(of task: TakeTask, _ timing: UnixSpan.Reading) throws -> UnixSpan {
      if let span = all.withLock({ $0[task.location.path] }) { return try span.get() }
      let span = Result { try timing(task) }
      let isOfTake = if case .failure(let error) = span { TakeMoments.isOfTake(error) || TakeMoments.isLimit(error) } else { true }
      if isOfTake { all.withLock { $0[task.location.path] = span } }
      return try span.get()
    }
  }

  /// `nil` for a pipeline that joins nothing.
  init?(_ run: Run, _ isCancelled: @escaping @Sendable () -> Bool) {
    guard var join = run.pipeline.join else { return nil }
    // What becomes of an incomplete group shows only when nothing else comes.
    join.incomplete = .reject
    (self.join, pipeline) = (join, run.pipeline)
    let ask = run.timing(TakeConversion(pipeline: run.pipeline, tool: run.tool, context: RunContext(keys: run.keys)), isCancelled)
    let spans = Spans()
    self.spans = spans
    timing = { try spans.span(of: $0, ask) }
  }

  /// The takes that can be converted now: those of groups that are complete, and those that no group takes in, as far as some of them have come to
  /// rest, or belong together otherwise than before.
  ///
  /// - Parameter counterparts: Takes that have to be compared with one that is ready: an archive and the folder of its name.
  mutating func complete(_ ready: [String], _ counterparts: [String], _ watch: TakeWatch) -> [String] {
    // Those whose files change again are no longer at rest, and an archive is judged anew when the folder of its name is gone.
    let left = known.filter { !watch.isAtRest($0.key) }.keys
    let judged = known.values.filter { take in take.duplicateFolder.map { !watch.isAtRest($0.path) } ?? false }.map(\.location.path)
    if ready.isEmpty, left.isEmpty, judged.isEmpty { return [] }
    for path in left { known[path] = nil }
    let searched = Set(ready + counterparts + judged).filter { watch.isAtRest($0) || ready.contains($0) }
    for path in searched {
      known[path] = nil
      spans.all.withLock { $0[path] = nil }
    }
    let search = TakeSearch(inputs: searched.sorted(), pipeline: pipeline, timing: timing)
    for take in search.ungrouped { known[take.location.path] = take }
    let groups = TakeGroups(join, known.sorted { $0.key < $1.key }.map(\.value), inputs: watch.inputs, timing: timing)
    let (fresh, before) = (Set(ready), waiting)
    var (converted, complete): (Set<String>, Set<[String]>) = ([], [])
    waiting = [:]
    for take in groups.found {
      let joined = take.reader as? JoinedTake
      // Of takes that cannot be told apart, all are given out together.
      let paths = take.rivals ?? joined?.joinedGroup.paths(in: take.location.path).sorted() ?? [take.location.path]
      if let joined, !joined.lacking.isEmpty, joined.ambiguity == nil {
        let reason = "its group has no take of \(joined.lacking.joined(separator: ", ")) yet"
        for path in paths { waiting[path] = before[path].flatMap { $0.reason == reason ? $0 : nil } ?? Waiting(reason: reason) }
        continue
      }
      complete.insert(paths)
      if !given.contains(paths) || !fresh.isDisjoint(with: paths) { converted.formUnion(paths) }
    }
    given = complete
    // What is gone again a moment later is said by the run.
    return converted.union(fresh.filter { known[$0] == nil }).sorted()
  }

  /// Lets takes be given out again, because they were not converted.
  mutating func giveBack(_ paths: [String]) {
    let paths = Set(paths)
    given = given.filter { paths.isDisjoint(with: $0) }
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
