package import Datasets
package import Evidence
import Foundation
import Model
package import Steps

/// A format that `takeset export` writes. As of any step, its stored properties are its options, on the command line `--option value`.
package protocol Exporter: Step {
  /// Whether it has a place for the streams of several phones.
  static var holdsMembers: Bool { get }
  /// Writes the dataset's episodes into a new directory, and notes what the format cannot hold with `directory.lose`.
  ///
  /// Throws `ExportRefusal` if the format cannot hold the dataset, best before anything is written.
  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws
}

extension Exporter {
  package static var holdsMembers: Bool { false }
}

/// One export: a dataset, the format and its options, and the episodes asked for.
///
///     let export = Export(dataset, try Export.exporter("zarr", options: [:]), tool: tool, threads: 4)
///     let summary = try export.write(to: "out", replacing: false)
package struct Export: Sendable {
  package var dataset: Dataset
  package var exporter: any Exporter
  package var tool: ToolIdentity
  /// Ids of episodes or takes; empty for all.
  package var selected: [String] = []
  package var threads: Int
  /// Whether to stop.
  package var isCancelled: @Sendable () -> Bool = { false }

  /// The names of other formats that somebody may look for here, with the command that makes each.
  private static let others = [
    "rerun": "takeset view DATASET --save OUT.rrd",
    "umi": "--to zarr --layout umi", "diffusion-policy": "--to zarr", "act": "--to aloha",
    "robomimic": "the dataset as it is: robomimic reads dataset.h5",
  ]

  /// Finds a format by its name and sets its options. Throws `UsageError`.
  package static func exporter(_ name: String, options: [String: JSONValue]) throws -> any Exporter {
    guard let type = Exporters.all.first(where: { $0.name == name }) else {
      if let remedy = others[name] { throw UsageError("there is no format \"\(name)\"; use \(remedy)") }
      let meant = Spelling.hint(for: name, among: Exporters.names)
      throw UsageError("there is no format \"\(name)\"; formats: \(Exporters.names.joined(separator: ", "))\(meant)")
    }
    do {
      return try type.exporter(with: options)
    } catch let error as PipelineFileError {
      // Options of a pipeline file stand in quotes, those of a command have dashes.
      let message = error.message.hasPrefix("unknown option") ? error.message.replacing(/"([a-z0-9-]+)"/) { "--\($0.1)" } : error.message
      throw UsageError("--\(error.path.drop { "-.".contains($0) }): \(message)")
    }
  }

  package init(_ dataset: Dataset, _ exporter: any Exporter, tool: ToolIdentity, threads: Int) {
    (self.dataset, self.exporter, self.tool, self.threads) = (dataset, exporter, tool, threads)
  }

  /// Writes the export. The directory appears once it is complete.
  ///
  /// Throws `OutputExists`, `ExportRefusal`, `UsageError` for an unknown episode, `OutputFailure`, `CancellationError`.
  package func write(to output: String, replacing: Bool) throws -> ExportDirectory.Summary {
    let episodes = try dataset.exported(selected)
    let joined = episodes.filter { $0.episode.streams.values.contains { $0.spec.member != nil } }
    if let first = joined.first, !type(of: exporter).holdsMembers {
      let members = Set(first.episode.streams.values.compactMap(\.spec.member)).sorted().joined(separator: ", ")
      throw ExportRefusal(
        "\(type(of: exporter).name) is for takes of one phone, and \(joined.map(\.id).abridged) have several (\(members)); export datasets that are made of the takes by themselves"
      )
    }
    guard !episodes.isEmpty else { throw ExportRefusal("\(dataset.directory) has no episode to export") }
    let directory = try ExportDirectory(output, of: dataset, threads: threads, replacing: replacing, isCancelled: isCancelled)
    for finding in episodes.flatMap(\.episode.findings) where finding.code == .added { directory.lose(finding.message) }
    do {
      try exporter.export(episodes, of: dataset, to: directory)
      return try directory.finish(record(episodes))
    } catch {
      // Before the directory is removed, for the free space that it reports.
      let failure = OutputFailure(error, writing: output, isResumed: false)
      directory.discard()
      switch error {
      case is ExportRefusal, is UsageError, is OutputFailure, is OutputExists, is CancellationError: throw error
      // A damaged dataset is no reason to doubt the disk that is written to. Those who read it throw this.
      case let damage as TakeFailure: throw ExportRefusal("\(damage)")
      default: throw failure
      }
    }
  }

  private func record(_ episodes: [ExportedEpisode]) -> [String: JSONValue] {
    [
      "export_version": 1, "format": .string(type(of: exporter).name), "options": exporter.optionValues,
      "source": ["record_sha256": .string(dataset.recordDigest), "takes": JSONValue(dataset.takes.count)],
      "tool": ["name": "takeset", "version": .string(tool.version), "revision": .string(tool.revision)],
      "episodes": .array(
        episodes.map { episode in
          var members: [String: JSONValue] = [
            "id": .string(episode.id), "rows": JSONValue(episode.rows), "time_base": .string(episode.timeBase.description),
          ]
          if case .unix(let resolution) = episode.timeBase { members["time_resolution_ns"] = .integer(resolution) }
          return .object(members)
        }),
    ]
  }
}

extension Exporter {
  fileprivate static func exporter(with options: [String: JSONValue]) throws -> any Exporter {
    try Options.decode(Self.self, over: .object(options), at: "--")
  }

  fileprivate var optionValues: JSONValue { Options.values(of: self) }
}

extension Dataset {
  /// The episodes with these ids, or of the takes with these ids, in the order of the index; all if there are none. Throws `UsageError`.
  package func episodes(_ selected: [String]) throws -> [TakeEntry] {
    let (written, wanted) = (written, Set(selected))
    let known = Set(written.map(\.id.text) + written.map(\.id.take))
    for id in selected where !known.contains(id) {
      let meant = Spelling.hint(for: id, among: written.map(\.id.text))
      throw UsageError("\(directory) has no episode \(id)\(meant)")
    }
    return written.filter { wanted.isEmpty || wanted.contains($0.id.text) || wanted.contains($0.id.take) }
  }

  /// The same, opened. Throws also `ExportRefusal` for a shard that cannot be read.
  func exported(_ selected: [String]) throws -> [ExportedEpisode] {
    try episodes(selected).map {
      do {
        var exported = try ExportedEpisode($0.id.text, open: episode($0))
        exported.labels = record.labels[$0.id.text] ?? Labels()
        return exported
      } catch {
        throw ExportRefusal("\(Dataset.unreadable(error, "the shard of \($0.id)"))")
      }
    }
  }
}
