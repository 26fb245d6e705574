import Model

/// The output that a run would write; nothing is converted.
package struct Plan: Sendable {
  package struct Entry: Sendable {
    package var id: String
    package var reader: String?
    package var frames: Int
    /// Empty for a take that would not be written.
    package var datasets: [ArrayRecord]
    package var outcome: TakeRecord.Outcome
    package var reason: String?

    /// Bytes before compression.
    package var rawBytes: Int { datasets.reduce(0) { $0 + $1.rawBytes } }
  }

  /// Entries sorted by take id.
  package var entries: [Entry]
  package var notices: [String]

  package var rawBytes: Int { entries.reduce(0) { $0 + $1.rawBytes } }
  package var frames: Int { entries.reduce(0) { $0 + $1.frames } }
  package var failed: Int { entries.count { $0.outcome == .failed } }

  /// Plans a run over the inputs. Throws `NoInputs` when none of them exists.
  package init(inputs: [String], pipeline: Pipeline, keys: DeviceKeys? = nil) throws {
    let search = TakeSearch(inputs: inputs, readers: pipeline.candidates)
    if search.hasNoInput { throw NoInputs(search) }
    notices = search.notices
    entries = search.found.map { Self.entry($0, pipeline, keys) }
    entries += search.unmatched.map {
      Entry(id: $0.id, frames: 0, datasets: [], outcome: .failed, reason: $0.failure.description)
    }
    entries.sort { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
  }

  private static func entry(_ found: TakeSearch.Found, _ pipeline: Pipeline, _ keys: DeviceKeys?) -> Entry {
    let reader = type(of: found.reader).name
    do {
      let take = Take(
        id: found.id, location: found.location, inputs: try found.reader.inputs(of: found.location), duplicateFolder: found.duplicateFolder)
      let episode = try pipeline.open(take, with: found.reader, in: RunContext(keys: keys)).get()
      return Entry(
        id: found.id, reader: reader, frames: episode.frames.count, datasets: try pipeline.writer.plan(episode), outcome: .written)
    } catch {
      let outcome: TakeRecord.Outcome = error is Rejection ? .rejected : .failed
      return Entry(id: found.id, reader: reader, frames: 0, datasets: [], outcome: outcome, reason: "\(error)")
    }
  }

  package var json: JSONValue {
    [
      "takes": .array(entries.map(\.json)), "frames": JSONValue(frames), "raw_bytes": JSONValue(rawBytes),
    ]
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
