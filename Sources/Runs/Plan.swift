package import Datasets
package import Evidence
import Model
package import Steps

/// The output that a run would write; nothing is converted.
package struct Plan: Sendable {
  /// An episode that would be written, or a take that would not.
  package struct Entry: Sendable {
    package var id: String
    /// The id of the take, which may have several episodes.
    package var take: String
    package var reader: String?
    package var frames: Int
    /// Empty for a take that would not be written.
    package var datasets: [ArrayRecord]
    package var outcome: TakeRecord.Outcome
    package var reason: String?
    /// Bytes before compression.
    package var rawBytes: Int

    init(
      id: String, take: String, reader: String? = nil, frames: Int, datasets: [ArrayRecord], outcome: TakeRecord.Outcome,
      reason: String? = nil
    ) {
      (self.id, self.take, self.reader, self.frames, self.datasets) = (id, take, reader, frames, datasets)
      (self.outcome, self.reason) = (outcome, reason)
      rawBytes = datasets.reduce(0) { $0 + $1.rawBytes }
    }
  }

  /// Entries sorted by take id; a take that a step splits has several. Empty if they were given out one by one.
  package private(set) var entries: [Entry] = []
  package var notices: [String]

  package private(set) var count = 0
  package private(set) var rawBytes = 0
  package private(set) var frames = 0
  package private(set) var failed = 0

  /// The time and space that the run would take, if they were to be estimated.
  package var estimate: Estimate?

  /// Plans a run over the inputs. Throws `NoInputs` when none of them exists, and `UsageError` for takes that the
  /// pipeline lacks `align` for, as a run does.
  ///
  /// `threads`: Threads for which the time is estimated; `nil` estimates nothing, and no sample is read. `body`: Called with each entry in
  /// order; entries are then not kept.
  package init(
    inputs: [String], pipeline: Pipeline, followsLinks: Bool = false, keys: DeviceKeys? = nil, estimatingFor threads: Int? = nil,
    forEach body: ((Entry) -> Void)? = nil
  ) throws {
    let search = TakeSearch(inputs: inputs, pipeline: pipeline, followsLinks: followsLinks)
    if search.hasNoInput { throw NoInputs(search.unmatchedInWords) }
    try search.refuseWithoutAlign(pipeline)
    notices = search.notices
    var estimate = threads.map { Estimate(pipeline: pipeline, threads: $0) }
    func add(_ entry: Entry) {
      count += 1
      rawBytes += entry.rawBytes
      frames += entry.frames
      if entry.outcome == .failed { failed += 1 }
      if let body { body(entry) } else { entries.append(entry) }
    }
    // Both lists are in order already, and so are the episodes of one take.
    var unmatched = search.unmatched[...]
    func addUnmatched(before id: String?) {
      while let next = unmatched.first, id.map({ next.id.utf8.lexicographicallyPrecedes($0.utf8) }) ?? true {
        add(Entry(id: next.id, take: next.id, frames: 0, datasets: [], outcome: .failed, reason: next.failure.description))
        unmatched.removeFirst()
      }
    }
    for take in search.found {
      addUnmatched(before: take.id)
      Self.entries(take, pipeline, keys, &estimate).forEach(add)
    }
    addUnmatched(before: nil)
    estimate?.finish()
    self.estimate = estimate
  }

  private static func entries(
    _ found: TakeSearch.Found, _ pipeline: Pipeline, _ keys: DeviceKeys?, _ estimate: inout Estimate?
  ) -> [Entry] {
    func refused(_ error: any Error, as id: String) -> Entry {
      Entry(
        id: id, take: found.id, reader: type(of: found.reader).name, frames: 0, datasets: [],
        outcome: error is Rejection ? .rejected : .failed, reason: "\(error)")
    }
    do {
      let take = Take(
        id: found.id, location: found.location, inputs: try found.reader.inputs(of: found.location), duplicateFolder: found.duplicateFolder)
      var context = RunContext(keys: keys)
      context.isPlan = true
      let traces = try pipeline.open(take, with: found.reader, in: context)
      if let failure = traces.compactMap(\.obstacle).first(where: { !($0 is Rejection) }) { throw failure }
      return try traces.map { trace in
        if let rejection = trace.obstacle { return refused(rejection, as: trace.episode.id.text) }
        let arrays = try pipeline.writer.plan(trace.episode)
        estimate?.add(trace.episode, arrays)
        return Entry(
          id: trace.episode.id.text, take: found.id, reader: type(of: found.reader).name, frames: trace.episode.frames.count,
          datasets: arrays,
          outcome: .written)
      }
    } catch {
      return [refused(error, as: found.id)]
    }
  }

  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "takes": .array(entries.map(\.json)), "frames": JSONValue(frames), "raw_bytes": JSONValue(rawBytes),
    ]
    if let estimate { members["estimate"] = estimate.json }
    return .object(members)
  }
}

extension Plan.Entry {
  fileprivate var json: JSONValue {
    [
      "id": .string(id), "reader": JSONValue(reader), "outcome": .string(outcome.rawValue), "reason": JSONValue(reason),
      "frames": JSONValue(frames), "raw_bytes": JSONValue(rawBytes),
      "datasets": .array(datasets.map(\.json)),
    ]
  }
}
