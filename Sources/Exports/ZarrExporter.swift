import Datasets
import Evidence
import Foundation
import Model
import Steps

/// A replay buffer in Zarr format 2: the rows of all episodes one after the other, and where each episode ends.
///
///     data/<key>           (N,...) keys of obs, and action
///     meta/episode_ends    (E,) i8, rows up to the end of each episode
///
/// Source: `replay_buffer.py` and `sampler.py` of diffusion-policy (Chi et al. 2023), `umi_dataset.py` of UMI (Chi et al. 2024).
struct ZarrExporter: Exporter {
  enum Layout: String, OptionChoice {
    case diffusionPolicy = "diffusion-policy"
    case umi
  }

  static let holdsMembers = true
  static let name = "zarr"
  static let summary = "a replay buffer in Zarr format 2, as diffusion-policy and UMI read it"

  @StepOption("names of the arrays: diffusion-policy (the streams' own) or umi (one dataset.zarr.zip)") var layout = Layout.diffusionPolicy
  @StepOption("write one file, replay_buffer.zarr.zip, instead of a folder") var zip = false
  @StepOption("deflate level of the chunks (zlib), 0 for uncompressed chunks", 0...9) var compression = 1
  @StepOption(
    "streams to export, separated by commas, and action; by default all that every episode has; with the layout umi: iphumi, to name keys after phones"
  )
  var keys = ""
  @StepOption(
    "with the layout umi, the stream of the gripper's width in meters, and its element: joints:0; of several phones, its name without the member"
  ) var gripper: String? = nil

  func validate() throws {
    if layout == .umi, !["", "iphumi"].contains(keys) { throw OptionError("keys", "the layout umi has its own, or those of iphumi") }
    if layout != .umi, gripper != nil { throw OptionError("gripper", "it belongs to --layout umi") }
  }

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let contents: ReplayContents
    switch layout {
    case .diffusionPolicy:
      contents = try .plain(episodes, keys: keys.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) })
    case .umi: contents = try .umi(episodes, gripper: gripper, keys: keys.isEmpty ? .umi : .iphumi)
    }
    let buffer = try ReplayBuffer(contents, episodes, level: compression)
    for sentence in contents.lost { directory.lose(sentence) }
    directory.lose("The format has no times and no splits: takeset-export.json says which rows are of which take.")
    directory.lose(contents.unplaced, of: episodes)
    if contents.streams.contains(.pose) { directory.loseFrames(of: episodes) }
    buffer.note(to: directory, dataset)
    let file: String? = layout == .umi ? "dataset.zarr.zip" : zip ? "replay_buffer.zarr.zip" : nil
    try ZarrStore.write(to: directory, zip: file) { try buffer.write(to: $0, directory) }
  }
}

/// An array of a replay buffer, and what a row of it is.
struct ReplayKey: Sendable {
  enum Content: Sendable {
    /// An image, a depth map or its confidence, as stored.
    case raster(StreamName)
    /// 1 where a depth map has a value.
    case depthMask(StreamName)
    /// The numbers of a stream, and whether each is there.
    case values(StreamName)
    case mask(StreamName)
    case umi(UMIRow.Part, robot: Int)

    /// The stream that is read as a raster.
    var raster: StreamName? {
      switch self {
      case .raster(let name), .depthMask(let name): name
      case .values, .mask, .umi: nil
      }
    }
  }

  var name: String
  var type: ScalarType
  /// Shape of a row.
  var shape: [Int]
  var content: Content
  var attributes: [String: JSONValue] = [:]
}

/// The parts of each episode that a replay buffer holds.
struct ReplayContents: Sendable {
  var keys: [ReplayKey]
  /// The streams that a row must have.
  var streams: [StreamName]
  /// The only element that is needed of a stream.
  var elements: [StreamName: Int] = [:]
  /// The hands, in the layout umi.
  var robots: [UMIRow.Robot] = []
  /// The least number of rows of an episode.
  var minimumRows = 1
  var lost: [String]
  /// Streams that the layout has no place for.
  var unplaced: Set<StreamName>
  /// Conventions that a user of the file has to know.
  var conventions: [String]

  /// The keys of the dataset.
  ///
  /// - Parameter wanted: Names of streams, or `action`; empty for all that every episode has.
  /// - Throws: `ExportRefusal` for keys that an episode lacks, or whose type or size differs.
  static func plain(_ episodes: [ExportedEpisode], keys wanted: [String]) throws -> ReplayContents {
    let available = episodes.map { episode in Set(Self.streams(of: episode)) }
    let all = available.reduce(into: Set()) { $0.formUnion($1) }.sorted()
    var lost: [String] = []
    let names: [StreamName]
    func lacking(_ name: StreamName) -> [String] { zip(episodes, available).filter { !$1.contains(name) }.map(\.0.id) }
    if wanted.isEmpty {
      names = all.filter { lacking($0).isEmpty }
      for name in all where !names.contains(name) {
        lost.append("\(Self.key(name)) is left out, because some episodes lack it: \(lacking(name).abridged).")
      }
    } else {
      names = wanted.map { $0 == Self.key(.actions) ? .actions : StreamName($0) }
      if let twice = Dictionary(grouping: names, by: \.self).filter({ $1.count > 1 }).keys.min() {
        throw UsageError("--keys names \(Self.key(twice)) twice")
      }
      for name in names where !lacking(name).isEmpty {
        guard all.contains(name) else {
          throw UsageError("--keys: no episode has \(Self.key(name)); keys are \(all.map(Self.key).joined(separator: ", "))")
        }
        let ids = lacking(name).abridged
        throw ExportRefusal("--keys: these episodes have no \(Self.key(name)): \(ids); leave them out with --episodes")
      }
      let left = all.filter { !names.contains($0) }
      if !left.isEmpty { lost.append("--keys leaves out \(left.map(Self.key).joined(separator: ", ")).") }
    }
    if !all.contains(.actions) {
      lost.append("There is no data/action, which policies need, because the dataset has no actions.")
    }
    guard !names.isEmpty else { throw ExportRefusal("zarr needs a key that all episodes have, and there is none") }
    for name in names {
      let groups = EpisodeGroups(episodes) { episode in
        Self.spec(name, episode).map { "\($0.shape.map(String.init).joined(separator: "x")) \($0.type.rawValue)" } ?? ""
      }
      if groups.differ {
        throw ExportRefusal(
          "zarr needs \(Self.key(name)) of one type and size in all episodes, found \(groups); \(Self.remedy(name, episodes)), "
            + "or choose episodes with --episodes or streams with --keys")
      }
    }
    var conventions: [String] = []
    if names.contains(.actions) {
      let hasRotations = episodes.contains { $0.episode.derived[.actions]?.spec.rotationLayout != nil }
      conventions.append(
        "action[t] leads from row t to row t+1. UMI's action windows begin with row t itself"
          + (hasRotations
            ? ", and its 6 numbers of a rotation are the first two rows of the matrix; those of a relative-6d action are its columns, "
              + "unless the pipeline has rotation-layout: rows." : "."))
    }
    return ReplayContents(
      keys: names.flatMap { Self.keys($0, episodes[0]) }, streams: names, lost: lost, unplaced: Self.unplaced(episodes),
      conventions: conventions)
  }

  private static func key(_ name: StreamName) -> String { name == .actions ? "action" : name.rawValue }

  private static func streams(of episode: ExportedEpisode) -> [StreamName] {
    episode.streams { $0.place == .observation }.map(\.name) + (episode.episode.derived[.actions] == nil ? [] : [.actions])
  }

  private static func spec(_ name: StreamName, _ episode: ExportedEpisode) -> StreamSpec? {
    episode.episode.derived[name]?.spec ?? episode.episode.streams[name]?.spec
  }

  private static func remedy(_ name: StreamName, _ episodes: [ExportedEpisode]) -> String {
    switch Self.spec(name, episodes[0])?.kind {
    case .image: "convert with resize-image: {width: W, height: H, mode: cover}"
    case .depth, .confidence: "convert with resample-depth: {width: W, height: H, unit: m}"
    case .action: "convert with actions: {joints: none}"
    default: "convert the takes with one pipeline"
    }
  }

  /// The arrays of a stream: its samples, and the mask that the dataset has next to it.
  private static func keys(_ name: StreamName, _ episode: ExportedEpisode) -> [ReplayKey] {
    guard let spec = Self.spec(name, episode) else { return [] }
    var attributes: [String: JSONValue] = ["unit": .string(spec.unit)]
    if let frame = spec.kind.poseFrame {
      attributes = ["unit": .string(frame.unit.rawValue), "camera_axes": .string(frame.cameraAxes.rawValue), "quaternion_order": "xyzw"]
    }
    if !spec.parts.isEmpty { attributes["parts"] = .string(spec.parts.map(\.description).joined(separator: " ")) }
    let isRaster = spec.kind.isRaster
    let samples = ReplayKey(
      name: key(name), type: isRaster ? spec.type : .float32, shape: spec.shape, content: isRaster ? .raster(name) : .values(name),
      attributes: attributes)
    guard spec.kind.mask != nil, spec.kind != .action else { return [samples] }
    let mask = ReplayKey(
      name: "\(name)_valid", type: .uint8, shape: spec.shape, content: isRaster ? .depthMask(name) : .mask(name),
      attributes: ["unit": "0 or 1"])
    return [samples, mask]
  }

  /// The streams that no layout has a place for: those with times of their own, and parts and chunks of actions.
  static func unplaced(_ episodes: [ExportedEpisode]) -> Set<StreamName> {
    Set(
      episodes.flatMap { episode in
        episode.episode.streams.filter { $0.value.rows == nil || $0.value.spec.kind.place != .observation }.map(\.key)
          + episode.episode.derived.keys.filter { $0 != .actions }
      })
  }
}
