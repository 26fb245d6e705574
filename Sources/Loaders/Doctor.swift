import Datasets
package import Evidence
import Foundation
import HDF5
import Model
import Rasters
import Steps

/// A check of a dataset by the rules of one loader.
///
/// The rules of robomimic apply to the dataset as it is; those of others to what an export makes of it. Digests are not checked.
///
///     let doctor = try Doctor("dataset", for: .robomimic)
///     for diagnosis in doctor.diagnoses { print(diagnosis.message) }
package struct Doctor: Sendable {
  package let loader: Loader
  /// Worst first.
  package let diagnoses: [Diagnosis]
  package let episodes: Int
  package let rows: Int
  /// The agreement of depth, poses and intrinsics, by episode; only of `geometry`.
  private let geometry: [String: GeometryAgreement]

  /// Examines a dataset directory, its `dataset.h5`, a shard or a packed file.
  ///
  /// Throws `UsageError` for anything else.
  ///
  /// - Parameters:
  ///   - keys: The observations that are to be trained on; empty for all.
  ///   - window: Rows of a training window; `nil` for what is usual with the loader.
  package init(_ path: String, for loader: Loader, keys: [String] = [], window: Int? = nil, threads: Int = 1) throws {
    let file = try DatasetPlaces(path)
    let measured = inParallel(file.places.count, threads: threads) { index in
      file.places[index].measured(keys: Set(keys), for: loader)
    }
    let found = Set(measured.flatMap(\.observations.keys))
    if let unknown = keys.first(where: { !found.contains($0) }), measured.contains(where: { $0.failure == nil }) {
      let names = try EpisodePlace.keys(file.places)
      let meant = Spelling.nearest(to: unknown, among: names).map { "; did you mean \($0)?" } ?? "; it has \(names.joined(separator: ", "))"
      throw UsageError("no episode of \(path) has an observation \(unknown)\(meant)")
    }
    self.init(
      Examined(episodes: measured, emptyMasks: file.emptyMasks, window: window ?? loader.window, dataset: path), for: loader)
  }

  init(_ measured: Examined, for loader: Loader) {
    self.loader = loader
    var examined = measured
    examined.exportCommand = loader.exportCommand
    for index in examined.episodes.indices {
      let episode = examined.episodes[index]
      examined.episodes[index].observations = episode.observations.filter { loader.reads($0.value, of: episode) }
    }
    geometry = Dictionary(examined.episodes.compactMap { one in one.geometry.map { (one.id, $0) } }) { first, _ in first }
    (episodes, rows) = (examined.episodes.count, examined.episodes.reduce(0) { $0 + $1.rows })
    diagnoses = loader.rules.flatMap { $0.diagnoses(of: examined) }.enumerated().sorted {
      ($0.element.severity, $0.offset) < ($1.element.severity, $1.offset)
    }.map(\.element)
  }

  /// Returns the number of diagnoses with this severity.
  package func count(_ severity: Diagnosis.Severity) -> Int { diagnoses.count { $0.severity == severity } }

  /// Whether the loader reads it.
  package var isReady: Bool { count(.breaks) == 0 }

  /// Returns the report on the dataset at a path, as `doctor --json` prints it.
  package func json(_ path: String) -> JSONValue {
    var members: [String: JSONValue] = [
      "dataset": .string(path), "for": .string(loader.rawValue), "ready": .bool(isReady), "episodes": JSONValue(episodes),
      "rows": JSONValue(rows), "diagnoses": .array(diagnoses.map(\.json)),
    ]
    if loader == .geometry {
      members["reprojection"] = Self.json(Array(geometry.values))
      members["reprojections"] = .object(geometry.mapValues { Self.json([$0]) })
      members["problems"] = .array(
        diagnoses.filter { $0.severity == .breaks }.map { diagnosis in
          var problem = diagnosis.json.object ?? [:]
          if diagnosis.code == .geometryContradictory { problem["code"] = "reprojection" }
          return .object(problem)
        })
    }
    return .object(members)
  }

  /// Returns the errors of points in millimeters: the medians over the episodes in which rows have something in common.
  private static func json(_ agreements: [GeometryAgreement]) -> JSONValue {
    let known = agreements.filter { $0.pairs > 0 }
    func median(_ value: (GeometryAgreement) -> Double) -> JSONValue {
      known.isEmpty ? .null : .number((known.map(value).sorted()[known.count / 2] * 1e6).rounded() / 1000)
    }
    return ["median_mm": median(\.distance), "p90_mm": median(\.p90), "pairs": JSONValue(known.reduce(0) { $0 + $1.pairs })]
  }
}
