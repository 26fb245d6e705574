import Datasets
import Evidence
import Foundation
import HDF5
import Model
import Steps

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
  var stem: String { URL(fileURLWithPath: file).deletingPathExtension().lastPathComponent }

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
struct DatasetPlaces {
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
      throw UsageError("\(index) has no episodes that Takeset or robomimic would find: /data is missing, or its groups lack obs")
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
