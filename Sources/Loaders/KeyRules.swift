import Model
import Steps

/// The contents: episodes, keys, types and shapes.
extension Examined {
  /// One problem about the episodes that `isBad` holds for, or none; `sentence` has them in words and their verb "have".
  func problem(_ isBad: (EpisodeMeasurements) -> Bool, _ sentence: (_ have: String) -> String) -> [Problem] {
    let bad = readable.filter(isBad).map(\.id)
    return bad.isEmpty ? [] : [Problem(sentence: sentence(have(bad)), episodes: bad)]
  }

  /// `a has`, `a, b have`.
  func have(_ ids: [String]) -> String { "\(words(ids)) \(ids.count == 1 ? "has" : "have")" }

  func withoutEpisodes() -> [Problem] { episodes.isEmpty ? [Problem(sentence: "the dataset has no episode", episodes: [])] : [] }

  func unreadable() -> [Problem] {
    let bad = episodes.filter { $0.failure != nil }
    guard let first = bad.first else { return [] }
    let reason = "\(bad.count > 1 ? "the first because " : "")\(first.failure ?? "")"
    return [Problem(sentence: "\(words(bad.map(\.id))) cannot be read: \(reason)", episodes: bad.map(\.id))]
  }

  func withOtherRows() -> [Problem] {
    readable.filter { !$0.otherRows.isEmpty }.map { episode in
      let arrays = episode.otherRows.sorted { $0.key < $1.key }.map { "\($0.key) has \($0.value)" }.joined(separator: ", ")
      let isShort = episode.otherRows.values.contains { $0 < episode.rows }
      return Problem(
        sentence: "\(episode.id) has \(several(episode.rows, "row")), but \(arrays)", episodes: [episode.id],
        severity: isShort ? .breaks : .trainsBadly)
    }
  }

  /// Actions that are no rows of numbers, images that are no bytes of three channels, and numbers that are none.
  func withWrongType() -> [Problem] {
    func isWrong(_ array: ArrayMeasurements) -> Bool {
      if array.name == "actions" { return array.type == nil || array.shape.count != 1 }
      if array.isImage, array.encoding == nil { return array.type != "|u1" || array.shape.count != 3 || array.shape.last != 3 }
      return array.type == nil
    }
    return (keys + ["actions"]).compactMap { key in
      let bad = arrays(key).filter { isWrong($0.array) }
      guard let first = bad.first else { return nil }
      let shape = (["T"] + first.array.shape.map(String.init)).joined(separator: ", ")
      return Problem(
        sentence: "\(key) is \(first.array.type ?? "of an unknown type") of shape (\(shape)) in \(words(bad.map(\.id)))",
        episodes: bad.map(\.id))
    }
  }

  /// Episodes without actions. Those without poses can have actions of their joints, or else of other numbers.
  func withoutActions() -> [Problem] {
    let bad = readable.filter { $0.actions == nil }
    func all(_ isWanted: (ArrayMeasurements) -> Bool) -> [String] {
      keys.filter { key in bad.allSatisfy { $0.observations[key].map(isWanted) ?? false } }
    }
    let (angles, vectors) = (all(\.isAngles), all { $0.isVector && $0.name != StreamName.depthPoint.rawValue })
    let numbers = angles.isEmpty ? vectors : angles
    return lacking("actions") { $0.actions == nil }.map { found in
      var problem = found
      if problem.remedy == nil, !numbers.isEmpty, bad.allSatisfy({ $0.poses == nil }) { problem.remedy = .actions(of: numbers) }
      return problem
    }
  }

  /// Episodes without a task. Where no episode has one, nobody has meant to give them any.
  func withoutTasks() -> [Problem] {
    problem({ $0.task == nil }) { "\($0) no task" }.map { problem in
      var problem = problem
      problem.severity = readable.contains { $0.task != nil } ? .trainsBadly : .info
      return problem
    }
  }

  func withoutImages() -> [Problem] { lacking("images") { $0.images.isEmpty } }
  func withoutPoses() -> [Problem] { lacking("poses") { $0.poses == nil } }

  /// Episodes without poses, unless no episode has any and each has actions, which are then of its joints or other numbers.
  func withoutState() -> [Problem] { readable.allSatisfy { $0.poses == nil && $0.actions != nil } ? [] : withoutPoses() }

  func withoutIntrinsics() -> [Problem] { lacking("intrinsics") { !$0.images.isEmpty && !$0.hasIntrinsics } }

  func withForeignIntrinsics() -> [Problem] {
    problem(\.hasForeignIntrinsics) { "\($0) a principal point outside of the image" }
  }

  /// Episodes that lack something. If others have it, an export can choose these.
  private func lacking(_ what: String, _ isBad: (EpisodeMeasurements) -> Bool) -> [Problem] {
    let good = readable.filter { !isBad($0) }.map(\.id)
    return problem(isBad) { "\($0) no \(what)" }.map { found in
      var problem = found
      if let exportCommand, !good.isEmpty { problem.remedy = .choosing(good, for: exportCommand) }
      return problem
    }
  }

  func withoutGripper() -> [Problem] {
    // Of several hands, each has its own.
    problem({ episode in
      let members = episode.actingMembers.isEmpty ? [nil] : episode.actingMembers.map(Optional.some)
      return members.contains { member in
        !episode.observations.values.contains { array in
          let isOwn = array.member == member || member.map { array.name.hasPrefix($0 + "_") } ?? false
          return isOwn && (array.isAngles || array.name.contains("gripper"))
        }
      }
    }) { "\($0) no joints or gripper\(readable.contains { !$0.actingMembers.isEmpty } ? " of each hand" : "")" }.map { found in
      guard readable.contains(where: { !$0.actingMembers.isEmpty }) else { return found }
      var problem = found
      problem.remedy = Remedy(
        "find the openings by a step in Python, as `takeset init --for umi-bimanual` does",
        command: "takeset export DATASET --to zarr --layout umi --gripper gripper --output OUT")
      return problem
    }
  }

  /// Keys that some episodes have and others do not, with the remedy for them and for those that all episodes have.
  ///
  /// - Parameter ofEveryKind: Whether to report the only images or poses of an episode too, which `withoutImages` and `withoutPoses` report.
  func withoutKeys(ofEveryKind: Bool = false, _ remedy: (_ missing: [String], _ common: [String]) -> Remedy) -> [Problem] {
    let missing = keys.compactMap { key in
      let kind = arrays(key).first?.array
      let without = readable.filter { episode in
        guard episode.observations[key] == nil else { return false }
        return ofEveryKind || !(kind?.isPose ?? false && episode.poses == nil || kind?.isImage ?? false && episode.images.isEmpty)
      }.map(\.id)
      return without.isEmpty ? nil : (key: key, without: without)
    }
    guard !missing.isEmpty else { return [] }
    let parts = missing.map { "\($0.key) (not in \($0.without.abridged))" }.joined(separator: ", ")
    return [
      Problem(
        sentence: "not every episode has \(parts)", episodes: Set(missing.flatMap(\.without)).sorted(),
        remedy: remedy(missing.map(\.key), commonKeys))
    ]
  }

  /// The keys that every episode has, except for these.
  func commonKeys(without names: String...) -> [String] {
    keys.filter { key in !names.contains(key) && readable.allSatisfy { $0.observations[key] != nil } }
  }

  private var commonKeys: [String] { commonKeys() }

  func isImage(_ key: String) -> Bool { arrays(key).contains { $0.array.isImage } }

  func withoutNext() -> [Problem] {
    problem({ episode in episode.observations.keys.contains { !episode.nextKeys.contains($0) } }) {
      "\($0) no next_obs, or not of all keys"
    }
  }

  func masksWithoutEpisode() -> [Problem] {
    guard !emptyMasks.isEmpty, !episodes.isEmpty else { return [] }
    let names = emptyMasks.map { "mask/\($0)" }.joined(separator: " and ")
    let isTrain = emptyMasks.contains("train")
    return [Problem(sentence: "\(names) \(emptyMasks.count == 1 ? "is" : "are") empty", episodes: [], severity: isTrain ? .breaks : nil)]
  }

  /// Episodes that are copies of others, and where they are in several parts of the split.
  func withSameContent() -> [Problem] {
    let copies = Dictionary(grouping: readable.filter { $0.content != nil }, by: { $0.content ?? "" }).values
      .filter { $0.count > 1 }.map { $0.sorted { $0.id < $1.id } }.sorted { $0[0].id < $1[0].id }
    guard !copies.isEmpty else { return [] }
    let words = copies.map { "\($0.dropFirst().map(\.id).joined(separator: ", ")) of \($0[0].id)" }
    let torn = copies.filter { Set($0.map(\.part)).count > 1 }.map { group in
      group.map { "\($0.id) in \($0.part?.rawValue ?? "no part")" }.joined(separator: ", ")
    }
    let leak = torn.isEmpty ? "" : "; so what is learned is also what is tested (\(torn.abridged))"
    return [
      Problem(sentence: "episodes with the content of another one: \(words.abridged)\(leak)", episodes: copies.joined().map(\.id).sorted())
    ]
  }

  func withEncodedImages() -> [Problem] {
    keys.compactMap { key in
      let bad = arrays(key).filter { $0.array.encoding != nil }
      guard let first = bad.first else { return nil }
      return Problem(
        sentence: "\(key) is stored as \((first.array.encoding ?? "").uppercased()) files in \(words(bad.map(\.id)))",
        episodes: bad.map(\.id))
    }
  }

  /// Keys whose shape differs from episode to episode. The rule's own remedy is that for images.
  func withMixedShapes() -> [Problem] {
    (keys + ["actions"]).compactMap { key in
      let all = arrays(key)
      let groups = Dictionary(grouping: all) { $0.array.shape }
      guard groups.count > 1, let kind = all.first?.array else { return nil }
      let parts = groups.sorted { ($1.value.count, $0.value[0].id) < ($0.value.count, $1.value[0].id) }.map { shape, members in
        "\(shape.map(String.init).joined(separator: "x")) in \(members.map(\.id).abridged)"
      }
      let least = groups.keys.min { Self.size($0) < Self.size($1) } ?? []
      let remedy: Remedy? =
        if key == "actions" {
          Remedy("leave joints out of the actions, or the takes with other ones", steps: "actions: {joints: none}")
        } else if kind.isDepth, least.count == 3 {
          Remedy("put all depth maps on one grid", steps: "resample-depth: {width: \(least[1]), height: \(least[0]), method: area}")
        } else if kind.isImage {
          nil
        } else {
          .without(key, keeping: commonKeys(without: key))
        }
      return Problem(
        sentence: "\(key) has several shapes: \(parts.joined(separator: "; "))", episodes: all.map(\.id).sorted(), remedy: remedy)
    }
  }

  /// Returns the number of elements, not as an integer: another program's shape may be of any size.
  private static func size(_ shape: [Int]) -> Double { shape.reduce(1) { $0 * Double($1) } }

  /// Keys that mean different things from episode to episode: their unit, their type, and the axes and bodies of poses.
  ///
  /// - Parameters:
  ///   - ofDepth: Whether units of depth matter.
  ///   - severity: Another severity for keys of several types.
  func withMixedUnits(ofDepth: Bool = true, ifTypes severity: Diagnosis.Severity? = nil) -> [Problem] {
    var problems = keys.compactMap { mixture(of: $0, ofDepth: ofDepth, severity) }
    let axes = Dictionary(grouping: readable.filter { $0.poses != nil }) {
      "\($0.poses?.axes ?? "")\($0.poses?.body == nil ? "" : ", of a body")"
    }
    if axes.count > 1 {
      problems.append(
        Problem(
          sentence: "camera axes differ: " + Self.parts(axes.mapValues { $0.map(\.id) }), episodes: axes.values.joined().map(\.id).sorted(),
          remedy: Remedy("turn all poses to the same axes", steps: "pose-frame: {axes: arkit}")))
    }
    return problems
  }

  private func mixture(of key: String, ofDepth: Bool, _ severity: Diagnosis.Severity?) -> Problem? {
    let all = arrays(key).filter { $0.array.encoding == nil && $0.array.type != nil && (ofDepth || !$0.array.isDepth) }
    // Actions have several units, positions first.
    let claimed = LengthUnit.claimedMeters.rawValue
    let groups = Dictionary(grouping: all) { [$0.array.unit.replacing(claimed, with: LengthUnit.meters.rawValue), $0.array.type ?? ""] }
    guard groups.count > 1 else { return nil }
    let hasTypes = Set(groups.keys.map { $0[1] }).count > 1
    let named = Dictionary(groups.map { ($0.key.filter { !$0.isEmpty }.joined(separator: ", "), $0.value.map(\.id)) }, uniquingKeysWith: +)
    let remedy =
      all[0].array.isDepth
      ? Remedy("convert depth to one unit", steps: "resample-depth: {unit: m}")
      : Remedy("convert the takes of each unit into a dataset of their own")
    return Problem(
      sentence: "\(key) means different things: " + Self.parts(named), episodes: all.map(\.id).sorted(), remedy: remedy,
      severity: hasTypes ? severity : nil)
  }

  private static func parts(_ groups: [String: [String]]) -> String {
    groups.sorted { $0.key < $1.key }.map { "\($0.key) in \($0.value.abridged)" }.joined(separator: "; ")
  }

  // MARK: Image sizes

  /// Images whose size `isBad`, as `what` says.
  func withImages(_ isBad: (ImageSize) -> Bool) -> [Problem] {
    let bad = readable.filter { episode in
      episode.images.contains { $0.shape.count == 3 && isBad(ImageSize(width: $0.shape[1], height: $0.shape[0])) }
    }
    guard let image = bad.first?.images.first else { return [] }
    return [
      Problem(
        sentence: "\(image.name) is \(image.shape[1])x\(image.shape[0]) in \(words(bad.map(\.id)))", episodes: bad.map(\.id))
    ]
  }

  // MARK: Counts

  func withFewerEpisodes(than least: Int) -> [Problem] {
    let count = readable.count
    return (1..<max(1, least)).contains(count)
      ? [Problem(sentence: "there \(count == 1 ? "is" : "are") \(several(count, "episode"))", episodes: [])] : []
  }

  /// The parts that training reads and that have fewer rows than a batch; the whole, in a file without parts.
  func withFewerRows(thanBatch batch: Int) -> [Problem] {
    let all: [SplitPart?] = readable.contains { $0.part != nil } ? [.train, .valid] : [nil]
    let small = all.compactMap { part -> (name: String, episodes: [EpisodeMeasurements], rows: Int)? in
      let episodes = readable.filter { $0.part == part }
      let rows = episodes.reduce(0) { $0 + $1.rows }
      return (1..<max(1, batch)).contains(rows) ? (part?.rawValue ?? "the file", episodes, rows) : nil
    }
    guard let least = small.map(\.rows).min() else { return [] }
    return [
      Problem(
        sentence: small.map { "\($0.name) has \(several($0.rows, "row"))" }.joined(separator: " and "),
        episodes: small.flatMap(\.episodes).map(\.id),
        remedy: Remedy("record more takes, or set train.batch_size, which is \(batch) by default, to at most \(least)"))
    ]
  }
}

extension Remedy {
  /// Leave keys out of the dataset.
  static func without(_ names: String..., keeping others: [String]) -> Remedy { without(names, others) }

  static func without(_ names: [String], _ others: [String]) -> Remedy {
    Remedy(
      "leave \(names.joined(separator: ", ")) out, here or of the keys that you train on",
      steps: "select: {streams: [\(others.joined(separator: ", "))]}")
  }
}
