import Model
import Steps

/// The numbers: missing, constant, out of range.
extension Examined {
  /// Observations and actions that are NaN or infinite; with another severity if no row of any episode is complete.
  ///
  /// - Parameters:
  ///   - remedy: The remedy for single rows, instead of dropping them in the pipeline.
  ///   - actions: Whether actions are looked at, too.
  func withoutNumbers(ifAll severity: Diagnosis.Severity? = nil, _ remedy: Remedy? = nil, actions: Bool = true) -> [Problem] {
    (keys + (actions ? ["actions"] : [])).compactMap { key in
      let bad = arrays(key).filter { $0.array.notFinite > 0 }
      guard let kind = bad.first?.array else { return nil }
      let (count, rows) = (bad.reduce(0) { $0 + $1.array.notFinite }, bad.reduce(0) { $0 + $1.array.rows })
      // A number that is missing throughout leaves no row.
      let isThroughout = bad.contains { $0.array.notFinite == $0.array.rows }
      let areAngles = bad.allSatisfy { $0.array.isAngles && $0.array.notFinite <= $0.array.masked }
      // Another phone of a joined take begins later, or ends earlier.
      let isUnreached = kind.isPose && kind.member != nil && bad.allSatisfy { $0.array.notFinite <= $0.array.masked }
      let without: Remedy =
        if isUnreached {
          .wholeEpisode
        } else if key == "actions" || kind.isPose {
          .again
        } else if kind.isVector, readable.contains(where: { $0.isActing(kind) }) {
          Remedy("the actions need it: find its value in more rows, or leave it out of both")
        } else {
          .without(key, keeping: commonKeys(without: key))
        }
      return Problem(
        sentence: "\(key) is NaN or infinite in \(count) of \(several(rows, "row")) of \(words(bad.map(\.id)))", episodes: bad.map(\.id),
        remedy: isThroughout ? without : remedy ?? (areAngles ? .dropping("joints-missing") : without),
        severity: count == readable.reduce(0) { $0 + $1.rows } ? severity : nil)
    }
  }

  /// Masked rows of depth and of actions, and those for which a camera has no image; those of vectors are NaN, other images undecodable.
  ///
  /// - Parameters:
  ///   - remedy: The remedy for them, instead of dropping them in the pipeline.
  ///   - actions: Whether actions are looked at, too.
  func withMaskedRows(_ remedy: Remedy? = nil, actions: Bool = true) -> [Problem] {
    (keys + (actions ? ["actions"] : [])).compactMap { key in
      func missing(_ array: ArrayMeasurements) -> Int {
        array.isDepth || key == "actions" ? array.masked : array.isImage && actions ? array.unpaired : 0
      }
      let bad = arrays(key).filter { missing($0.array) > 0 }
      guard let kind = bad.first?.array else { return nil }
      let (count, rows) = (bad.reduce(0) { $0 + missing($1.array) }, bad.reduce(0) { $0 + $1.array.rows })
      let what = key == "actions" ? "actions are unknown, and 0," : "\(key) is missing, and 0,"
      return Problem(
        sentence: "\(what) in \(count) of \(several(rows, "row")) of \(words(bad.map(\.id)))", episodes: bad.map(\.id),
        remedy: remedy ?? self.remedy(for: kind))
    }
  }

  /// The remedy for masked rows.
  private func remedy(for array: ArrayMeasurements) -> Remedy {
    if array.isImage || array.member != nil && 2 * array.unpaired > array.masked {
      return array.member == nil ? .without(array.name, keeping: commonKeys(without: array.name)) : .wholeEpisode
    }
    if array.isDepth { return .dropping("depth-missing") }
    if readable.contains(where: { $0.times.gaps > 0 && ($0.actions?.masked ?? 0) > 0 }) { return .atGaps }
    let numbers = readable.flatMap { episode in episode.observations.values.filter { $0.isVector && episode.isActing($0) } }
    return numbers.contains { $0.notFinite > 0 }
      ? Remedy("find the numbers that actions need in more rows, or leave them out of the actions") : .dropping("joints-missing")
  }

  func withUndecodableImages() -> [Problem] {
    func undecodable(_ episode: EpisodeMeasurements) -> Int { episode.images.map { $0.masked - $0.unpaired }.max() ?? 0 }
    let bad = readable.filter { undecodable($0) > 0 }
    guard !bad.isEmpty else { return [] }
    let (count, rows) = (bad.reduce(0) { $0 + undecodable($1) }, bad.reduce(0) { $0 + $1.rows })
    return [
      Problem(
        sentence:
          "\(count) of \(several(rows, "image")) of \(words(bad.map(\.id))) could not be decoded (\(percent(Double(count) / Double(max(1, rows)))))",
        episodes: bad.map(\.id))
    ]
  }

  // MARK: Columns

  /// Whether actions have a part that is made of poses.
  private var areOfPoses: Bool {
    arrays("actions").contains { $0.array.columnNames.contains { $0.contains("position") || $0.contains("rotation") } }
  }

  /// Columns of the actions, over all episodes; none if these differ in width.
  private func columns(_ key: String) -> [(name: String, moments: Moments)] {
    let all = arrays(key).map(\.array)
    guard let first = all.first, all.allSatisfy({ $0.columns.count == first.columns.count }) else { return [] }
    return first.columns.indices.map { column in
      var merged = Moments()
      for array in all { merged.merge(array.columns[column]) }
      return (first.columnNames[column], merged)
    }
  }

  func withConstantColumns() -> [Problem] {
    let constant = columns("actions").filter { $0.moments.count < 1 || $0.moments.max - $0.moments.min < 1e-6 }.map(\.name)
    guard !constant.isEmpty, readable.reduce(0, { $0 + $1.rows }) > 1 else { return [] }
    let areJoints = constant.allSatisfy { $0.hasPrefix("joints") }
    return [
      Problem(
        sentence:
          "\(several(constant.count, "column")) of the actions never \(constant.count == 1 ? "changes" : "change"): \(constant.abridged)",
        episodes: [],
        remedy: areJoints && areOfPoses ? Remedy("leave joints out of the actions", steps: "actions: {joints: none}") : nil)
    ]
  }

  func withDeadJoints() -> [Problem] {
    keys.compactMap { key in
      var dead: [String: [String]] = [:]
      for (id, array) in arrays(key) where array.isAngles && array.rows > 1 {
        for (name, moments) in zip(array.columnNames, array.columns) where moments.count == 0 || moments.min == moments.max {
          dead[name, default: []].append(id)
        }
      }
      guard !dead.isEmpty else { return nil }
      let ids = Set(dead.values.joined()).sorted()
      return Problem(
        sentence: dead.sorted { $0.key < $1.key }.map { "\($0.key) of \(key) has no angle, or always the same one, in \(words($0.value))" }
          .joined(separator: "; "), episodes: ids, remedy: .without(key, keeping: commonKeys(without: key)))
    }
  }

  /// Actions below -1 or above 1.
  func withActionsOutOfRange() -> [Problem] {
    let bad = arrays("actions").filter { $0.array.columns.contains { $0.min < -1 || $0.max > 1 } }
    guard !bad.isEmpty else { return [] }
    var (worst, name) = (0.0, "")
    var parts: Set<String> = []
    for (_, array) in bad {
      for (column, moments) in zip(array.columnNames, array.columns) where moments.min < -1 || moments.max > 1 {
        let extreme = abs(moments.min) > abs(moments.max) ? moments.min : moments.max
        if abs(extreme) > abs(worst) { (worst, name) = (extreme, column) }
        parts.insert(String(column.prefix { $0 != " " }))
      }
    }
    let jumping = readable.filter { $0.allPoses.contains { $0.poses.jumps > 0 } }
    let remedy: Remedy? =
      if parts.contains(where: { $0.hasPrefix("absolute") }) {
        Remedy("use motions instead of positions", steps: "actions: {kind: relative-6d}")
      } else if parts.contains("joints"), areOfPoses {
        Remedy("leave joints out of the actions", steps: "actions: {joints: none}")
      } else if !jumping.isEmpty {
        Remedy("begin an episode at each jump of the camera", steps: "split-episodes: {at: jumps}")
      } else {
        nil
      }
    return [
      Problem(
        sentence: "actions are beyond -1 to 1, up to \(short(worst)) (\(name)), in \(words(bad.map(\.id)))", episodes: bad.map(\.id),
        remedy: remedy)
    ]
  }

  /// Columns of the actions and of the state whose standard deviation is outside a range, in which a loader clips it. Not those of
  /// rotations, of which some hardly change where others do.
  func withSpread(outside range: ClosedRange<Double>) -> [Problem] {
    (["actions"] + keys).compactMap { key in
      let clipped = columns(key).filter { column in
        let spread = column.moments.standardDeviation
        let isRotation = column.name.contains("rotation") || ["qx", "qy", "qz", "qw"].contains(column.name)
        return !isRotation && column.moments.count > 1 && spread > 1e-6 && !range.contains(spread)
      }
      guard let least = clipped.map(\.moments.standardDeviation).min(), let greatest = clipped.map(\.moments.standardDeviation).max() else {
        return nil
      }
      let spread = clipped.count == 1 ? short(least) : "\(short(least)) to \(short(greatest))"
      return Problem(
        sentence: "\(clipped.map(\.name).abridged) of \(key) \(clipped.count == 1 ? "has" : "have") a standard deviation of \(spread)",
        episodes: [], remedy: spreadRemedy(key, clipped.map(\.name), isSmall: least < range.lowerBound))
    }
  }

  /// `nil` where the rule's own remedy, absolute actions, applies.
  private func spreadRemedy(_ key: String, _ columns: [String], isSmall: Bool) -> Remedy? {
    let clipping = Remedy("clip less in get_norm_stats of ACT's utils.py")
    // The steps below are for actions of poses, and qpos needs something.
    guard readable.contains(where: { $0.poses != nil }) else { return clipping }
    if key == "actions", isSmall, !columns.contains(where: { $0.hasPrefix("absolute") }) { return nil }
    if key == "actions", columns.contains(where: { $0.hasPrefix("joints") }) {
      return Remedy("store angles of actions in radians", steps: "actions: {angle: radian}")
    }
    if arrays(key).contains(where: \.array.isAngles) {
      return Remedy("leave the angles out of qpos", command: "takeset export DATASET --to aloha --qpos pose --output OUT")
    }
    return clipping
  }

  // MARK: Depth and images

  /// Depth of which a loader that clips to 0..1 loses values.
  func withDepthAboveOne() -> [Problem] {
    keys.compactMap { key in
      let bad = arrays(key).filter { ($0.array.shareAboveOne ?? 0) > 0 }
      guard let worst = bad.max(by: { $0.array.shareAboveOne ?? 0 < $1.array.shareAboveOne ?? 0 })?.array else { return nil }
      return Problem(
        sentence:
          "\(key) is up to \(short(worst.greatest ?? 0)) \(worst.unit), with up to \(percent(worst.shareAboveOne ?? 0)) of the values above 1, in \(words(bad.map(\.id)))",
        episodes: bad.map(\.id), remedy: .without(key, keeping: commonKeys(without: key)))
    }
  }

  /// Images that equal the one before in a hundredth of the rows, or three or more in a row.
  func withRepeatedImages() -> [Problem] {
    keys.compactMap { key in
      let bad = arrays(key).filter { $0.array.isImage && (100 * $0.array.repeats > $0.array.rows || $0.array.longestRepeat > 2) }
      guard !bad.isEmpty else { return nil }
      let (count, rows) = (bad.reduce(0) { $0 + $1.array.repeats }, bad.reduce(0) { $0 + $1.array.rows })
      return Problem(
        sentence:
          "\(count) of \(several(rows, "row")) of \(words(bad.map(\.id))) have the same \(key) as the row before, up to \(bad.map(\.array.longestRepeat).max() ?? 0) in a row",
        episodes: bad.map(\.id))
    }
  }

  func withBlurredImages() -> [Problem] {
    let bad = readable.filter { 10 * ($0.sharpness?.blurred ?? 0) > ($0.sharpness?.images ?? 0) }
    guard let worst = bad.max(by: { $0.sharpness?.blurred ?? 0 < $1.sharpness?.blurred ?? 0 }), let sharpness = worst.sharpness else {
      return []
    }
    return [
      Problem(
        sentence:
          "\(sharpness.blurred) of \(several(sharpness.images, "image")) of \(worst.id)\(bad.count > 1 ? ", and as many in \(several(bad.count - 1, "other episode"))," : "") have less than a quarter of the usual sharpness",
        episodes: bad.map(\.id), remedy: Remedy("drop blurred images", steps: "drop-frames: {blur: \(short(sharpness.threshold))}"))
    ]
  }
}
