import Evidence
import Foundation
package import HDF5
import Model
import Steps

/// `dataset.h5`: links to every shard's episode, masks and statistics, so that the directory opens as one file.
package struct DatasetIndex {
  /// Members sorted by take id; numbered from 0 in that order.
  let members: [DatasetMember]
  let directory: String
  let identity: ShardIdentity
  var normalization: (any NormalizationRule)?
  /// The index whose statistics stay, where only labels change: no shard is opened then.
  var earlier: String?

  /// Environment arguments that robomimic requires; type 2 is its "gym", of which it requires nothing more.
  static func environmentArguments(_ reader: String) -> String {
    JSONValue.object(["env_name": .string(reader), "type": 2, "env_kwargs": [:]]).canonicalText
  }

  func write() throws -> PublishedIndex {
    let (statistics, findings) = earlier == nil ? try trainingStatistics() : ([:], [])
    let path = directory + "/" + (earlier == nil ? DatasetFiles.index : DatasetFiles.pendingIndex)
    let temporary = SealedFile.temporaryPath(for: path)
    unlink(temporary)
    do {
      let file = try File.create(at: temporary, cacheBytes: 1 << 22)
      try fill(file.root, statistics)
      try file.close()
      try SealedFile.seal(temporary, as: path)
    } catch {
      let failure = OutputFailure(error, writing: directory, needing: 100_000 + 2000 * Double(members.count))
      unlink(temporary)
      throw failure
    }
    let (digest, bytes) = try SealedFile.digest(of: path)
    var index = PublishedIndex(
      path: DatasetFiles.index, bytes: bytes, digest: digest, statistics: statistics.mapValues(\.statistics), findings: findings)
    index.normalizations = statistics.compactMapValues(\.normalization)
    return index
  }

  private func fill(_ root: Group, _ statistics: [String: Key]) throws {
    var attributes = AttributeList()
    try attributes.set(
      [
        "format": .text("takeset"), "format_version": .text(HDF5Writer.formatVersion), "tool_version": .text(identity.toolVersion),
        "pipeline_sha256": .text(identity.pipelineDigest),
      ], on: root, path: "/")
    let data = try root.createGroup(ShardNames.allData, isSmall: false)
    let meta = try root.createGroup(ShardNames.allMeta, isSmall: false)
    for (number, member) in members.enumerated() {
      // A file name in a link is relative to the file that holds the link.
      try data.link(ShardNames.demo(number), toFile: DatasetFiles.shard(of: member.id), object: "/\(ShardNames.data)")
      try meta.link(ShardNames.demo(number), toFile: DatasetFiles.shard(of: member.id), object: "/\(ShardNames.meta)")
    }
    try attributes.set(
      [
        "total": .integer(Int64(members.reduce(0) { $0 + $1.samples })),
        "env_args": .text(Self.environmentArguments(identity.reader)),
      ], on: data, path: "/data")
    try writeMasks(to: root)
    try Self.write(zip(0..., members).map { (ShardNames.demo($0), $1.labels) }, to: root)
    guard let earlier else { return try write(statistics, to: root.createGroup(ShardNames.totals), &attributes) }
    let file = try File.open(earlier)
    defer { try? file.close() }
    try root.copy(ShardNames.totals, from: file.root, as: ShardNames.totals)
  }

  /// Writes a group for each key; a key with slashes (`action_dict/joints`) is in groups of groups.
  private func write(_ statistics: [String: Key], to stats: Group, _ attributes: inout AttributeList) throws {
    var groups: [String: Group] = [:]
    func group(_ path: String) throws -> Group {
      if let known = groups[path] { return known }
      let end = path.lastIndex(of: "/")
      let parent = try end.map { try group(String(path[..<$0])) } ?? stats
      let created = try parent.createGroup(end.map { String(path[path.index(after: $0)...]) } ?? path)
      groups[path] = created
      return created
    }
    for (name, key) in statistics.sorted(by: { $0.key < $1.key }) {
      let group = try group(name)
      try key.statistics.write(to: group)
      try attributes.set(["unit": .text(key.meaning.unit)], on: group, path: "/stats/\(name)")
      guard let normalization = key.normalization else { continue }
      try attributes.set(["normalization": .text(normalization.method)], on: group, path: "/stats/\(name)")
      for (member, values) in [("scale", normalization.scale), ("offset", normalization.offset)] {
        let dataset = try group.createDataset(member, Layout(type: .float64, dims: [values.count], isCompact: true))
        try values.withUnsafeBytes { try dataset.write($0) }
      }
    }
  }

  /// Writes demo names as byte strings of one length, as robomimic requires.
  private func writeMasks(to root: Group) throws {
    let mask = try root.createGroup(ShardNames.masks)
    let demos = members.indices.map(ShardNames.demo(_:))
    let width = demos.map(\.utf8.count).max() ?? 11
    var masks = SplitPart.allCases.map { part in (part.rawValue, members.indices.filter { members[$0].part == part }) }
    for (name, success) in [("failure", false), ("success", true)] {
      let chosen = members.indices.filter { members[$0].labels?.success == success }
      if !chosen.isEmpty { masks.append((name, chosen)) }
    }
    for (name, chosen) in masks {
      let names = chosen.map { demos[$0] }
      let dataset = try mask.createDataset(name, Layout(type: .string(width), dims: [names.count]))
      let bytes = names.flatMap { Array($0.utf8) + [UInt8](repeating: 0, count: width - $0.utf8.count) }
      try bytes.withUnsafeBytes { try dataset.write($0) }
    }
  }

  /// Writes a group for each episode with labels; no group at all where none has any.
  package static func write(_ labels: [(demo: String, labels: Labels?)], to root: Group) throws {
    guard labels.contains(where: { $0.labels?.isEmpty == false }) else { return }
    let all = try root.createGroup(ShardNames.labels, isSmall: false)
    for (demo, labels) in labels {
      guard let labels, !labels.isEmpty else { continue }
      let group = try all.createGroup(demo)
      for (name, value) in labels.values.sorted(by: { $0.key < $1.key }) {
        switch value {
        case .string(let text): try group.setAttribute(name, text)
        case .bool(let flag): try group.setAttribute(name, byte: flag ? 1 : 0)
        case .integer(let number): try group.setAttribute(name, number)
        case .number(let number): try group.setAttribute(name, number)
        case .array where name == "tags": try group.setAttribute(name, value.canonicalText)
        case .array, .object, .null: break
        }
      }
      let segments = labels.segments
      if segments.isEmpty { continue }
      for (name, rows) in [("segment_start", segments.map(\.rows.lowerBound)), ("segment_end", segments.map(\.rows.upperBound))] {
        let dataset = try group.createDataset(name, Layout(type: .int64, dims: [rows.count]))
        try rows.map { Int64($0) }.withUnsafeBytes { try dataset.write($0) }
      }
      let width = segments.map(\.text.utf8.count).max() ?? 1
      let texts = segments.flatMap { Array($0.text.utf8) + [UInt8](repeating: 0, count: width - $0.text.utf8.count) }
      let dataset = try group.createDataset("segment_text", Layout(type: .text(width), dims: [segments.count]))
      try texts.withUnsafeBytes { try dataset.write($0) }
    }
  }

  // MARK: Statistics

  struct Key {
    var meaning: ShardStatistics.Meaning
    var statistics: Statistics
    var normalization: Normalization?
  }

  /// Statistics of the training takes. If one name has several meanings, each has its own statistics, and findings name them.
  private func trainingStatistics() throws -> (keys: [String: Key], findings: [Finding]) {
    var merged: [String: [ShardStatistics.Meaning: Statistics]] = [:]
    /// Numbers of takes by name and meaning, and by name and size of the images.
    var meanings: [String: [ShardStatistics.Meaning: [Int32]]] = [:]
    var sizes: [String: [[Int]: [Int32]]] = [:]
    var unused = UnusedOptions()
    /// Ids of takes without actions, by what they lack.
    var inactive: [String: [String]] = [:]
    for (number, member) in zip(Int32(0)..., members) {
      let file = try File.open(directory + "/" + DatasetFiles.shard(of: member.id))
      defer { try? file.close() }
      try unused.add(file.root)
      if let lacking = try file.root.group(ShardNames.data).textAttribute(HDF5Shard.actionsLack) {
        inactive[lacking, default: []].append(member.id)
      }
      let added = try member.added.map { try ShardStatistics.Entry(added: $0, in: file.root) }
      for entry in try ShardStatistics(from: file.root).entries + added {
        meanings[entry.name, default: [:]][entry.meaning, default: []].append(number)
        sizes[entry.name, default: [:]][entry.shape, default: []].append(number)
        guard member.part == .train else { continue }
        var own = entry.statistics
        if merged[entry.name]?[entry.meaning] == nil {
          own.values = try Self.values(of: entry, in: file.root)
          merged[entry.name, default: [:]][entry.meaning] = own
        } else {
          if merged[entry.name]?[entry.meaning]?.values != nil { own.values = try Self.values(of: entry, in: file.root) }
          merged[entry.name]?[entry.meaning]?.merge(own)
        }
      }
    }
    let missing = inactive.sorted { $0.key < $1.key }.map { lacking, ids in
      Finding(.actionsMissing, "takes without \(lacking) have no actions: \(ids.abridged)", field: "actions", count: ids.count)
    }
    var keys: [String: Key] = [:]
    for (name, all) in merged {
      for (meaning, statistics) in all {
        keys[label(name, meaning, among: meanings[name] ?? [:])] = Key(
          meaning: meaning, statistics: statistics, normalization: normalization?.parameters(of: statistics))
      }
    }
    return (keys, missing + unused.findings(streams: sizes.keys) + mixed(meanings) + mixed(sizes))
  }

  /// The valid values of an array, by channel; `nil` where they are many, or whole numbers, of which a histogram says all.
  private static func values(of entry: ShardStatistics.Entry, in root: Group) throws -> [[Float]]? {
    let (all, channels) = (entry.statistics, entry.statistics.channels)
    guard all.histograms.first?.buckets == .floats, all.moments.allSatisfy({ $0.count < Statistics.few }) else { return nil }
    let stored = try StoredEpisode(root)
    let (data, meta) = (stored.data, stored.meta)
    let isAction = data.contains(entry.name)
    let dataset = try data.dataset(isAction ? entry.name : "\(ShardNames.observations)/\(entry.name)")
    guard dataset.type == .float32, dataset.dims.reduce(1, *) < mostElements else { return nil }
    // Programs take every member of action_dict for an action, so their masks are elsewhere.
    let mask = "\(entry.name)_valid"
    let masks: (group: Group, name: String) =
      entry.name.hasPrefix(StreamName.actionFolder + "/") ? (meta, mask) : (data, isAction ? mask : "\(ShardNames.observations)/\(mask)")
    let valid = masks.group.contains(masks.name) ? try masks.group.dataset(masks.name).readAll() : []
    let numbers = try dataset.readAll(as: Float.self)
    var values = [[Float]](repeating: [], count: channels)
    for (index, number) in numbers.enumerated() where number.isFinite {
      if valid.isEmpty || valid[index * valid.count / numbers.count] != 0 { values[index % channels].append(number) }
    }
    // Another program may have changed the array since it was written.
    return zip(values, all.moments).allSatisfy { $0.count == Int($1.count) } ? values : nil
  }

  /// Elements of an array with few valid ones, beyond which it is not read for them.
  private static let mostElements = 1 << 22

  /// Options of the pipeline that name a stream which no take so far has.
  private struct UnusedOptions {
    private var paths: Set<String>?

    mutating func add(_ shard: Group) throws {
      if paths?.isEmpty == true { return }
      let text = try shard.group(ShardNames.data).textAttribute(HDF5Shard.unusedOptions) ?? "[]"
      let own = Set((try? JSONReader(Array(text.utf8)).value())?.array?.compactMap(\.string) ?? [])
      paths = paths?.intersection(own) ?? own
    }

    func findings(streams: some Collection<String>) -> [Finding] {
      (paths ?? []).sorted().map { path in
        // Steps and options have no dots in their names.
        let words = path.split(separator: ".", maxSplits: 2).map(String.init)
        let meant = Spelling.hint(for: words.last ?? "", among: streams.sorted())
        return Finding(
          .optionUnused, "\(words.dropLast().joined(separator: ": ")) names \(words.last ?? ""), which no take of the dataset has\(meant)",
          severity: .warning, field: words.last)
      }
    }
  }

  /// The key, with the unit where several meanings share it, and with further distinctions where the unit is the same.
  private func label(_ name: String, _ meaning: ShardStatistics.Meaning, among all: [ShardStatistics.Meaning: [Int32]]) -> String {
    guard all.count > 1 else { return name }
    var label = "\(name)@\(meaning.unit)"
    let same = all.keys.filter { $0.unit == meaning.unit }
    if Set(same.map(\.axes)).count > 1, let axes = meaning.axes { label += " (\(axes))" }
    if Set(same.map(\.channels)).count > 1 { label += " (\(meaning.channels))" }
    if Set(same.map(\.type)).count > 1 { label += " (\(meaning.type))" }
    return label
  }

  private func mixed(_ meanings: [String: [ShardStatistics.Meaning: [Int32]]]) -> [Finding] {
    /// Names of arrays that differ only in the unit of their lengths, by the takes that have each: poses, and the actions made of them.
    var lengths: [[String: [Int32]]: [String]] = [:]
    let others = meanings.sorted { $0.key < $1.key }.compactMap { name, all -> Finding? in
      // Those that differ in width are of several shapes, which is reported as such, even if a wider one has another unit.
      guard Dictionary(grouping: all.keys, by: \.channels).values.contains(where: { $0.count > 1 }) else { return nil }
      func takes(by words: (ShardStatistics.Meaning) -> [String?]) -> [String: [Int32]] {
        Dictionary(
          all.map { (words($0).compactMap(\.self).joined(separator: ", "), $1) }, uniquingKeysWith: { ($0 + $1).sorted() })
      }
      let parts = takes { [$0.unit, $0.axes, $0.type] }
      guard parts.count > 1 else { return nil }
      if takes(by: { [$0.otherUnits, $0.axes, $0.type] }).count == 1 {
        lengths[takes { [$0.length?.rawValue] }, default: []].append(name)
        return nil
      }
      let words = sentence(name, "means different things", parts.map { ($0.key, $0.value) })
      return Finding(.mixedUnits, words + "; statistics are kept apart", field: name)
    }
    return others + lengths.map(mixedLengths).sorted { $0.message < $1.message }
  }

  /// One finding for all arrays: which takes are in another unit than most.
  private func mixedLengths(_ takes: [String: [Int32]], _ arrays: [String]) -> Finding {
    // The parts and chunks of actions are in the unit of the actions.
    let observations = arrays.filter { !$0.hasPrefix("action") }
    let names = observations + (observations.count < arrays.count ? [StreamName.actions.rawValue] : [])
    func unit(_ word: String) -> String { word == LengthUnit.arbitrary.rawValue ? "in an arbitrary unit" : "in \(word)" }
    let parts = takes.sorted { ($0.value.count, $1.key) < ($1.value.count, $0.key) }
    let words = parts.dropLast().map { word, numbers in
      "\(numbers.map { members[Int($0)].id }.abridged) \(numbers.count == 1 ? "is" : "are") \(unit(word))"
    }
    let most = parts.last.map { ", the others \(unit($0.key))" } ?? ""
    return Finding(
      .mixedUnits, "\(names.joined(separator: ", ")): \(words.joined(separator: ", "))\(most); statistics are kept apart",
      field: names.first)
  }

  private func mixed(_ sizes: [String: [[Int]: [Int32]]]) -> [Finding] {
    sizes.sorted { $0.key < $1.key }.flatMap { name, all -> [Finding] in
      guard all.count > 1 else { return [] }
      let parts = all.map { shape, takes in (shape.map(String.init).joined(separator: "x"), takes) }
      let sizes = Finding(
        .mixedSizes, sentence(name, "has several shapes", parts) + "; only takes of one shape batch together", field: name)
      return [sizes] + (mixedOrientation(name, all).map { [$0] } ?? [])
    }
  }

  /// Images in portrait in some takes and in landscape in others: the same motion of the hand looks different in them.
  private func mixedOrientation(_ name: String, _ shapes: [[Int]: [Int32]]) -> Finding? {
    let images = shapes.filter { $0.key.count == 3 && $0.key[2] == 3 && $0.key[0] != $0.key[1] }
    let parts = Dictionary(grouping: images) { $0.key[0] > $0.key[1] ? "portrait" : "landscape" }.map { orientation, shapes in
      (orientation, shapes.flatMap(\.value).sorted())
    }
    guard parts.count == 2 else { return nil }
    return Finding(
      .mixedOrientation, sentence(name, "has both orientations", parts) + "; - rotate: {degrees: upright} gives all that of the world",
      field: name)
  }

  private func sentence(_ name: String, _ what: String, _ parts: [(String, [Int32])]) -> String {
    "\(name) \(what): "
      + parts.sorted { $0.0 < $1.0 }.map { part, takes in
        "\(part) in \(takes.map { members[Int($0)].id }.abridged)"
      }.joined(separator: "; ")
  }
}
