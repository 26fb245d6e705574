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

/// The place of an episode: a group of a file.
struct EpisodePlace: Sendable {
  var file: String
  var demo: String
  /// The reason why its link cannot be followed.
  var failure: String?
  /// Its part of the split; `nil` in a file without masks.
  var part: SplitPart?
  /// Its label `task`.
  var task: String?

  /// The name of the file without its extension, for an episode that cannot be read.
  private var stem: String { URL(fileURLWithPath: file).deletingPathExtension().lastPathComponent }

  func measured(keys: Set<String>, for loader: Loader) -> EpisodeMeasurements {
    var measured = examined(keys: keys, for: loader)
    (measured.part, measured.task) = (part, task)
    return measured
  }

  private func examined(keys: Set<String>, for loader: Loader) -> EpisodeMeasurements {
    if let failure { return EpisodeMeasurements(id: stem, failure: failure) }
    do {
      guard try Directory.kind(at: file, followingLinks: true) == .file else {
        return EpisodeMeasurements(id: stem, failure: "there is no file \(file)")
      }
      let open = try File.open(file)
      defer { try? open.close() }
      return try EpisodeMeasurements(
        open.root, demo: demo, keys: keys, measuresSharpness: loader == .nerfstudio, measuresGeometry: loader == .geometry)
    } catch let error as HDF5Error {
      return EpisodeMeasurements(id: stem, failure: error.message)
    } catch {
      return EpisodeMeasurements(id: stem, failure: "\(error)")
    }
  }

  /// Names of all observations.
  static func keys(_ places: [EpisodePlace]) throws -> [String] {
    Set(places.flatMap { $0.measured(keys: [], for: .robomimic).observations.keys }).sorted()
  }
}

/// The episodes of a dataset or a file as a loader finds them, through its groups and links, and the masks without any.
private struct DatasetPlaces {
  private(set) var places: [EpisodePlace] = []
  /// Names of masks that select no episode although the pipeline asks for them.
  private(set) var emptyMasks: [String] = []

  init(_ path: String) throws {
    guard let kind = try Directory.kind(at: path, followingLinks: true) else { throw NoInputs(path: path) }
    let index = kind == .directory ? path + "/" + DatasetFiles.index : path
    guard try kind != .directory || Directory.kind(at: index) == .file else {
      throw UsageError("\(path) is not a Takeset dataset: it has no \(DatasetFiles.index)")
    }
    let file: File
    do {
      file = try File.open(index)
    } catch {
      throw UsageError("\(index) cannot be read as an HDF5 file: \((error as? HDF5Error)?.message ?? "\(error)")")
    }
    defer { try? file.close() }
    guard let stored = try StoredIndex(file.root) else {
      throw UsageError("\(index) is not a Takeset file: it has no attribute format = \"takeset\" or no /data")
    }
    let asked = kind == .directory ? Self.shares(path) : [:]
    var parts: [String: SplitPart] = [:]
    for part in SplitPart.allCases {
      guard let names = try stored.names(in: part) else { continue }
      for name in names { parts[name] = part }
      // Without the pipeline, train and valid are expected.
      let share = part == .train ? 1 : asked[part.rawValue] ?? (part == .valid ? 1 : 0)
      if share > 0, names.isEmpty { emptyMasks.append(part.rawValue) }
    }
    places = try stored.episodes().map { name, target in
      var place = target.map { Self.linked($0, from: index) } ?? EpisodePlace(file: index, demo: name)
      (place.part, place.task) = (parts[name], try stored.task(of: name))
      return place
    }
  }

  /// A link to the episode of a shard, relative to the file that has the link.
  private static func linked(_ target: (file: String, object: String), from index: String) -> EpisodePlace {
    let parts = target.object.split(separator: "/")
    let folder = URL(fileURLWithPath: index).deletingLastPathComponent().path
    var place = EpisodePlace(file: folder + "/" + target.file, demo: parts.last.map(String.init) ?? "")
    if !DatasetFiles.isInside(target.file) || parts.count != 2 || parts.first != ShardNames.allData[...] {
      place.failure = "its link leads to \(target.file):\(target.object), which is no shard of the dataset"
    }
    return place
  }

  /// The shares of the parts that the pipeline of a dataset asks for.
  private static func shares(_ directory: String) -> [String: Double] {
    let pipeline = ManifestFile.head(["pipeline"], in: directory)["pipeline"]
    let split = pipeline?["transforms"]?.array?.compactMap { $0["split"] }.last
    return (split?.object ?? [:]).compactMapValues(\.double).filter { ["valid", "test"].contains($0.key) }
  }
}
