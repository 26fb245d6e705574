import Datasets
import Evidence
import Foundation
import HDF5
import Model
import Steps

/// One HDF5 file per episode, as the loaders of ACT and ALOHA read them.
///
///     episode_<n>.hdf5              attrs sim, compress (booleans)
///       action                      (T,A) f4
///       observations/qpos, qvel     (T,Q) f4
///       observations/images/<camera> (T,H,W,3) u1, chunks of one row
///       is_pad                      (T,) boolean, with `--fixed-length pad`
///
/// Source: `utils.py` and `record_sim_episodes.py` of ACT (Zhao et al. 2023). Its loader stacks whole episodes, so all have one length.
struct ALOHAExporter: Exporter {
  enum FixedLength: String, OptionChoice { case trim, pad }
  enum Masked: String, OptionChoice { case refuse, longest, split }

  static let holdsMembers = true
  static let name = "aloha"
  static let summary = "one HDF5 file per episode, as ACT and ALOHA read them"

  @StepOption("make all episodes one length: trim (to the shortest) or pad (repeat the last row up to the longest)")
  var fixedLength: FixedLength? = nil
  @StepOption("link to images and actions in the dataset instead of copying them, where the values are stored as the format needs them")
  var link = false
  @StepOption("takes with incomplete rows: refuse, longest (keep the longest complete part) or split (each complete part is an episode)")
  var masked = Masked.refuse
  @StepOption(
    "streams of qpos, separated by commas; by default pose and all joints, or, where no take has poses, all joints and the numbers that are actions"
  ) var qpos = ""
  @StepOption("the attribute sim: if false, ACT pairs the images of row t with the actions from row t-1 on") var sim = false

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let plan = try ALOHAPlan(episodes, self)
    plan.noteLosses(to: directory)
    var table: [JSONValue] = []
    for (number, part) in plan.parts.enumerated() {
      let name = "episode_\(number).hdf5"
      let isLinked = try ALOHAFile(plan, part, self).write(to: name, of: dataset, in: directory)
      var entry: [String: JSONValue] = [
        "file": .string(name), "take": .string(part.episode.id), "first_row": JSONValue(part.rows.lowerBound),
        "rows": JSONValue(part.rows.count), "padding": JSONValue(plan.length - part.rows.count), "linked": .bool(isLinked),
      ]
      entry["split"] = part.episode.split(in: dataset)
      table.append(.object(entry))
    }
    directory.note("episode_files", .array(table))
    directory.note("length", JSONValue(plan.length))
    directory.note("qpos", .array(plan.qpos.map { .string("\($0.name):\($0.width)") }))
  }
}

/// The attributes that every file of an export has, and the rows of each file.
struct ALOHAPlan: Sendable {
  struct Part: Sendable {
    var episode: ExportedEpisode
    var rows: Range<Int>
  }

  struct Camera: Sendable {
    var name: String
    var stream: StreamName
  }

  private(set) var parts: [Part] = []
  /// Rows of every file.
  private(set) var length = 0
  let cameras: [Camera]
  let qpos: [(name: StreamName, width: Int)]
  private var lost: [String] = []
  private let episodes: [ExportedEpisode]

  /// Throws `ExportRefusal` for episodes that differ or lack something.
  init(_ episodes: [ExportedEpisode], _ options: ALOHAExporter) throws {
    self.episodes = episodes
    func refuse(_ what: String, _ isMissing: (ExportedEpisode) -> Bool, _ remedy: String) throws {
      let ids = episodes.filter(isMissing).map(\.id)
      if !ids.isEmpty { throw ExportRefusal("aloha needs \(what), and these episodes have none: \(ids.abridged); \(remedy)") }
    }
    func demand(_ what: String, _ remedy: String, _ property: (ExportedEpisode) -> String) throws {
      let groups = EpisodeGroups(episodes, by: property)
      if groups.differ {
        throw ExportRefusal("aloha needs \(what), found \(groups); \(remedy), or choose episodes with --episodes")
      }
    }
    let leaveOut = "leave them out with --episodes"
    try refuse(
      "actions", { $0.episode.derived[.actions] == nil },
      "add the step actions to the pipeline (of kind none where takes have no poses), or \(leaveOut)")
    try refuse("images", { $0.images.isEmpty }, leaveOut)
    let names = try Self.streams(of: episodes, options.qpos)
    try demand("the same cameras in all episodes", "keep the cameras that all takes have (step select)") {
      $0.images.map(\.name.rawValue).joined(separator: " ")
    }
    try demand("images of one size", "convert with resize-image: {width: W, height: H, mode: cover}") {
      $0.images.map { "\($0.name) \($0.stream.spec.gridSize)" }.joined(separator: ", ")
    }
    try demand("actions of one width", "convert with actions: {joints: none}") {
      "\($0.episode.derived[.actions]?.spec.elementCount ?? 0) columns"
    }
    try demand("qpos of one width", "give --qpos pose") { episode in
      Self.qpos(of: episode, names).map { "\($0.name):\($0.width)" }.joined(separator: " ")
    }
    qpos = Self.qpos(of: episodes[0], names)
    cameras = Self.cameras(episodes[0].images.map(\.name))
    try addParts(options.masked)
    try setLength(options.fixedLength)
  }

  /// The streams of qpos that the user names, which every episode must have; `nil` for those of each episode.
  private static func streams(of episodes: [ExportedEpisode], _ option: String) throws -> [StreamName]? {
    let names = option.split(separator: ",").map { StreamName($0.trimmingCharacters(in: .whitespaces)) }
    guard !names.isEmpty else {
      let without = episodes.filter(\.hands.isEmpty)
      // An arm without poses has a state, too.
      guard without.isEmpty || without.count == episodes.count && !episodes.contains(where: { qpos(of: $0, nil).isEmpty }) else {
        throw ExportRefusal(
          "aloha needs poses for qpos, and these episodes have none: \(without.map(\.id).abridged); name other streams with --qpos, "
            + "or leave them out with --episodes")
      }
      return nil
    }
    for name in names {
      let without = episodes.filter { episode in !vectors(of: episode).contains { $0.name == name } }.map(\.id)
      guard without.count < episodes.count else {
        let known = Set(episodes.flatMap { vectors(of: $0).map(\.name) }).sorted().map(\.rawValue)
        throw UsageError("--qpos: no episode has numbers called \(name); there are \(known.joined(separator: ", "))")
      }
      guard without.isEmpty else {
        throw ExportRefusal("--qpos: these episodes have no \(name): \(without.abridged); leave them out with --episodes")
      }
    }
    return names
  }

  private static func vectors(of episode: ExportedEpisode) -> [(name: StreamName, stream: SampleStream)] {
    episode.streams { !$0.isRaster && $0.place == .observation }
  }

  private static func qpos(of episode: ExportedEpisode, _ names: [StreamName]?) -> [(name: StreamName, width: Int)] {
    let acting = Set(episode.episode.derived[.actions]?.spec.parts.map(\.name) ?? [])
    let ownNames =
      episode.hands.isEmpty
      ? vectors(of: episode).filter { $0.stream.spec.kind == .angles || acting.contains($0.name.rawValue) }.map(\.name)
      : episode.hands.map(\.pose) + episode.streams { $0 == .angles }.map(\.name)
    return (names ?? ownNames).map { ($0, episode.episode.streams[$0]?.spec.elementCount ?? 0) }
  }

  /// `camera_image` is the camera `camera`; `wrist_image`, which rename makes of it, is `wrist`.
  private static func cameras(_ streams: [StreamName]) -> [Camera] {
    let names = Set(streams.map(\.rawValue))
    return streams.map { stream in
      let short = stream.rawValue.hasSuffix("_image") ? String(stream.rawValue.dropLast("_image".count)) : stream.rawValue
      return Camera(name: short.isEmpty || names.contains(short) ? stream.rawValue : short, stream: stream)
    }
  }

  private mutating func addParts(_ masked: ALOHAExporter.Masked) throws {
    let streams = [.actions] + qpos.map(\.name) + cameras.map(\.stream)
    var problems: [String] = []
    var ends = 0
    for episode in episodes {
      let complete = try CompleteRows(episode, of: streams)
      if complete.endsWithoutAction { ends += 1 }
      if complete.isWhole {
        parts += complete.runs.map { Part(episode: episode, rows: $0) }
        continue
      }
      problems.append("\(episode.id): \(complete.problem)")
      // The first of the longest.
      let longest = complete.runs.max { $0.count < $1.count || $0.count == $1.count && $0.lowerBound > $1.lowerBound }
      let kept = masked == .split ? complete.runs : [longest].compactMap(\.self)
      parts += kept.map { Part(episode: episode, rows: $0) }
      let count = kept.reduce(0) { $0 + $1.count }
      lost.append("\(episode.id): \(episode.rows - count) of \(episode.rows) rows are left out (\(complete.problem)).")
    }
    if ends > 0 { lost.append("The last rows of \(ends) recordings are left out: no action follows them.") }
    guard masked == .refuse || parts.isEmpty, !problems.isEmpty else { return }
    let remedy =
      parts.isEmpty
      ? "no episode is left; leave the streams out with --qpos or the step select"
      : "give --masked longest (the longest complete part of each take) or --masked split (each complete part is an episode)"
    throw ExportRefusal("aloha has no masks, and rows lack values: \(problems.abridged); \(remedy)")
  }

  private mutating func setLength(_ fixed: ALOHAExporter.FixedLength?) throws {
    let lengths = parts.map(\.rows.count)
    guard let shortest = lengths.min(), let longest = lengths.max() else { return }
    length = fixed == .trim ? shortest : longest
    guard shortest < longest else { return }
    switch fixed {
    case nil:
      let groups = Dictionary(grouping: parts, by: \.rows.count).sorted { $0.key < $1.key }
      var shown = groups.prefix(4).map { "\($0.key) rows in \($0.value.map(\.episode.id).abridged)" }
      if let last = groups.last, groups.count > 4 {
        shown.append("\(groups.count - 5) other lengths; \(last.key) rows in \(last.value.map(\.episode.id).abridged)")
      }
      throw ExportRefusal(
        "ACT needs episodes of one length, found \(shown.joined(separator: "; ")); give --fixed-length trim (cut all to \(shortest) rows) "
          + "or --fixed-length pad (repeat the last row up to \(longest) rows)")
    case .trim:
      for index in parts.indices where lengths[index] > shortest {
        let (id, rows) = (parts[index].episode.id, parts[index].rows)
        parts[index].rows = rows.prefix(shortest)
        lost.append("\(id): rows \(rows.lowerBound + shortest) to \(rows.upperBound - 1) are cut off by --fixed-length trim.")
      }
    case .pad: break
    }
  }

  /// Notes what the format has no place for.
  func noteLosses(to directory: ExportDirectory) {
    for sentence in lost { directory.lose(sentence) }
    let kept = Set(qpos.map(\.name) + cameras.map(\.stream))
    let streams = Set(episodes.flatMap { $0.episode.streams.keys + $0.episode.derived.keys.filter { $0 != .actions } })
    directory.lose(streams.subtracting(kept), of: episodes)
    directory.lose("The format has no times: ACT takes rows as evenly spaced.")
    directory.lose("The format has no splits: ACT validates on episodes that it chooses itself.")
    directory.loseFrames(of: episodes)
  }
}
