import Evidence
import Foundation
import HDF5
import Model
import Steps

/// Compares a file's contents with its record through libhdf5, object by object: for files that another program has modified, whose bytes
/// differ from what Takeset wrote. Such a file may crash the library, so the command does this in a separate process.
package enum ExternalCheck {
  /// Checks a shard.
  package static func shard(_ path: String, _ output: OutputRecord) throws -> Verification {
    var report = Verification()
    report.catching(output.path) { report in
      let file = try File.open(path)
      defer { try? file.close() }
      for array in output.arrays {
        let name = "\(output.path):\(array.path)"
        report.noteDataset()
        report.catching(name) { report in try check(array, file.root, name, into: &report) }
      }
      if try attributesDigest(of: output.arrays, in: file.root) != output.attributesDigest {
        report.differ(output.path, "attributes have changed")
      }
      let additions = try additions(to: file.root, output)
      // A run that was killed may have left a later shard of the take than its record.
      let isOwn = try !report.isSound && !additions.isEmpty && isAsWritten(path, additions)
      report.add(isOwn ? [] : additions, to: output, now: try FileStamp.of(path).bytes)
    }
    return report
  }

  /// The digest of the attributes that Takeset has set on a shard with these arrays.
  static func attributesDigest(of arrays: [ArrayRecord], in root: Group) throws -> Digest {
    var attributes = AttributeList()
    for object in ["/", "/data", "/\(ShardNames.data)"] {
      let group = object == "/" ? root : try root.group(String(object.dropFirst()))
      try note(group, object, ours(object), in: &attributes)
    }
    for array in arrays {
      if let dataset = try? root.dataset(String(array.path.dropFirst())) { try note(dataset, array.path, nil, in: &attributes) }
      guard array.digestOf == .rows else { continue }
      let rows = ShardNames.rowDigests(of: array.path)
      if let dataset = try? root.dataset(rows) { try note(dataset, "/" + rows, nil, in: &attributes) }
    }
    return attributes.digest
  }

  /// Whether a shard that is not the recorded one is as Takeset wrote it: each array agrees with the digest that it carries, and there is nothing
  /// beside them.
  private static func isAsWritten(_ path: String, _ additions: [String]) throws -> Bool {
    let carried = try Verification(file: path)
    return carried.isSound && carried.notes.isEmpty && !additions.contains { $0.contains("@") }
  }

  /// Returns the additions to a shard that its record does not name: paths of objects, and of attributes as `/data/demo_0@task`.
  static func additions(to root: Group, _ output: OutputRecord) throws -> [String] {
    var arrays: Set<String> = []
    for array in output.arrays {
      arrays.insert(array.path)
      if array.digestOf == .rows { arrays.insert("/" + ShardNames.rowDigests(of: array.path)) }
    }
    var groups: Set<String> = []
    for array in arrays {
      var path = Substring(array)
      while let slash = path.lastIndex(of: "/"), slash > path.startIndex {
        path = path[..<slash]
        groups.insert(String(path))
      }
    }
    var found: [String] = []
    func visit(_ group: Group, _ path: String) throws {
      found += try group.attributeNames().filter { !ours(path).contains($0) }.map { "\(path)@\($0)" }
      for (name, kind) in try group.members() {
        let member = path == "/" ? path + name : "\(path)/\(name)"
        switch kind {
        case .group where groups.contains(member): try visit(group.group(name), member)
        case .dataset where arrays.contains(member):
          found += try group.dataset(name).attributeNames().filter { !ShardLayout.attributeNames.contains($0) }.map { "\(member)@\($0)" }
        default: found.append(member)
        }
      }
    }
    try visit(root, "/")
    return found
  }

  /// The attributes that Takeset sets on a group; other programs may add theirs.
  private static func ours(_ object: String) -> Set<String> {
    switch object {
    case "/": ["format", "format_version", "pipeline_sha256", "tool_version"]
    case "/data": ["env_args", "total"]
    case "/\(ShardNames.data)":
      [
        "camera_info", HDF5Shard.actionsLack, HDF5Shard.unusedOptions, ShardNames.rowCount, ShardNames.reader, ShardNames.takeID,
      ]
    default: []
    }
  }

  private static func note(_ object: Object, _ path: String, _ names: Set<String>?, in list: inout AttributeList) throws {
    for name in try object.attributeNames() where names?.contains(name) ?? ShardLayout.attributeNames.contains(name) {
      if let text = try object.textAttribute(name) {
        list.note(name, .text(text), path: path)
      } else if let number = try object.integerAttribute(name) {
        list.note(name, .integer(number), path: path)
      }
    }
  }

  private static func check(_ array: ArrayRecord, _ root: Group, _ name: String, into report: inout Verification) throws {
    guard root.isHardLinked(array.path) else { return report.differ(name, "is missing or a link to something else") }
    let dataset = try root.dataset(String(array.path.dropFirst()))
    guard dataset.dims == array.shape, dataset.type?.numpyName == array.dtype else {
      return report.differ(name, "its type or shape has changed")
    }
    if try dataset.textAttribute("sha256") != array.digest?.description { return report.differ(name, "carries another digest") }
    if array.digestOf == .rows {
      if array.dtype == Datatype.bytes.numpyName { return try checkSequences(root, array, name, into: &report) }
      return try checkRows(array, name, root, into: &report) { try dataset.read(rows: $0..<($0 + 1)) }
    }
    let hasher = SHA256()
    let step = max(dataset.chunk?.first ?? dataset.dims.first ?? 1, 1)
    for start in stride(from: 0, to: dataset.dims.first ?? 0, by: step) {
      let part = try dataset.read(rows: start..<min(start + step, dataset.dims[0]))
      report.noteBytes(Int64(part.count))
      hasher.update(part)
    }
    if hasher.finish() != array.digest { report.differ(name, "its content has changed") }
  }

  /// Checks rows that are byte sequences: encoded images.
  static func checkSequences(_ root: Group, _ array: ArrayRecord, _ name: String, into report: inout Verification) throws {
    let dataset = try root.dataset(String(array.path.dropFirst()))
    try checkRows(array, name, root, into: &report) { try dataset.readSequence(row: $0) }
  }

  private static func checkRows(
    _ array: ArrayRecord, _ name: String, _ root: Group, into report: inout Verification, _ read: (Int) throws -> [UInt8]
  ) throws {
    let digests = try root.dataset(ShardNames.rowDigests(of: array.path)).readAll()
    guard Digest.of(digests) == array.digest, digests.count % 32 == 0, digests.count / 32 == array.shape.first ?? 0 else {
      return report.differ(name, "the digests of its rows have changed")
    }
    var named = 0
    for row in 0..<(array.shape.first ?? 0) {
      let bytes = try? read(row)
      report.noteBytes(Int64(bytes?.count ?? 0))
      if let bytes, Digest.of(bytes) == Digest(bytes: digests[(32 * row)..<(32 * row + 32)]) { continue }
      named += 1
      if named <= Verification.rowsNamed {
        report.differ("\(name)[\(row)]", bytes == nil ? "cannot be read" : "its content has changed")
      }
    }
  }

  // MARK: The index

  static func index(_ path: String, _ manifest: ManifestRecord, _ takes: [TakeEntry]) throws -> Verification {
    var report = Verification()
    report.catching(DatasetFiles.index) { report in
      let file = try File.open(path)
      defer { try? file.close() }
      func compare(_ what: String, _ found: String?, _ expected: String?) {
        if found != expected {
          report.differ("\(DatasetFiles.index):\(what)", "is \(found ?? "missing"), expected \(expected ?? "nothing")")
        }
      }
      compare("/@format", try file.root.textAttribute("format"), "takeset")
      compare("/@format_version", try file.root.textAttribute("format_version"), HDF5Writer.formatVersion)
      compare("/@pipeline_sha256", try file.root.textAttribute("pipeline_sha256"), manifest.pipelineDigest)
      compare("/@tool_version", try file.root.textAttribute("tool_version"), manifest.tool["version"]?.string)
      let written = takes.filter { $0.output != nil }
      let data = try file.root.group(ShardNames.allData)
      compare("/data@total", try data.integerAttribute("total").map { "\($0)" }, "\(written.reduce(0) { $0 + $1.framesOut })")
      let readers = Set(written.map { $0.reader ?? "" })
      compare(
        "/data@env_args", try data.textAttribute("env_args"),
        DatasetIndex.environmentArguments(readers.count == 1 ? readers.first ?? "" : "takeset"))
      try checkLinks(file, written, into: &report)
      try checkMasks(file, manifest, written, into: &report)
      try checkStatistics(file, manifest, into: &report)
      for group in [ShardNames.masks, ShardNames.totals] { try file.root.checkIsWhole(group) }
    }
    return report
  }

  private static func checkLinks(_ file: File, _ written: [TakeEntry], into report: inout Verification) throws {
    for section in [ShardNames.allData, ShardNames.allMeta] {
      let group = try file.root.group(section)
      let names = try group.members().map(\.name)
      if names != written.indices.map(ShardNames.demo(_:)) {
        report.differ(
          "\(DatasetFiles.index):/\(section)",
          "has \(names.count) members, expected \(ShardNames.demo(0)) and so on for \(written.count) takes")
        continue
      }
      for (name, take) in zip(names, written) {
        let target = try? group.externalTarget(name)
        if target?.file != take.output?.path || target?.object != "/\(section)/\(ShardNames.demo)" {
          report.differ(
            "\(DatasetFiles.index):/\(section)/\(name)",
            "does not link to /\(section)/\(ShardNames.demo) of \(take.output?.path ?? "its shard")")
        }
      }
    }
  }

  private static func checkMasks(
    _ file: File, _ manifest: ManifestRecord, _ written: [TakeEntry], into report: inout Verification
  ) throws {
    for part in SplitPart.allCases {
      let name = "\(DatasetFiles.index):/mask/\(part.rawValue)"
      let dataset = try file.root.dataset("mask/\(part.rawValue)")
      guard let width = dataset.type?.textWidth, width > 0 else {
        report.differ(name, "is not a list of names")
        continue
      }
      let bytes = try dataset.readAll()
      let names = stride(from: 0, to: bytes.count, by: width).map { start in
        String(decoding: bytes[start..<(start + width)].prefix { $0 != 0 }, as: UTF8.self)
      }
      let ids = Set((manifest.splits[part.rawValue]?.array ?? []).compactMap(\.string))
      let expected = written.indices.filter { ids.contains(written[$0].id.text) }.map(ShardNames.demo(_:))
      if names != expected { report.differ(name, "differs from the split in the manifest") }
    }
  }

  private static func checkStatistics(_ file: File, _ manifest: ManifestRecord, into report: inout Verification) throws {
    for (key, recorded) in manifest.statistics.sorted(by: { $0.key < $1.key }) {
      let group = try file.root.group("stats/\(key)")
      if try group.textAttribute("normalization") != recorded["normalization"]?.string {
        report.differ("\(DatasetFiles.index):/stats/\(key)@normalization", "differs from the manifest")
      }
      for (name, values) in (recorded.object ?? [:]).sorted(by: { $0.key < $1.key }) where values.array != nil {
        let path = "stats/\(key)/\(name)"
        let expected = (values.array ?? []).map { $0.double ?? .nan }
        let dataset = try file.root.dataset(path)
        let found = name == "count" ? try dataset.readAll(as: Int64.self).map { Double($0) } : try dataset.readAll(as: Double.self)
        if found.count != expected.count || zip(found, expected).contains(where: { $0 != $1 && !($0.isNaN && $1.isNaN) }) {
          report.differ("\(DatasetFiles.index):/\(path)", "differs from the manifest")
        }
      }
    }
  }
}
