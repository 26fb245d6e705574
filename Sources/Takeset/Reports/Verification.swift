import Foundation
import HDF5

/// A check of what was written against the digests it was written with.
package struct Verification: Sendable {
  package struct Difference: Sendable, Equatable {
    /// A file of the dataset, a dataset in it, or a take's input.
    package var path: String
    package var message: String
  }

  package private(set) var differences: [Difference] = []
  /// What is worth knowing but is no difference.
  package private(set) var notes: [String] = []
  package private(set) var files = 0
  package private(set) var datasets = 0
  package private(set) var bytes: Int64 = 0

  package var isSound: Bool { differences.isEmpty }

  package var json: JSONValue {
    [
      "sound": .bool(isSound), "files": JSONValue(files), "datasets": JSONValue(datasets), "bytes": .integer(bytes),
      "notes": .array(notes.map { .string($0) }),
      "differences": .array(differences.map { ["path": .string($0.path), "message": .string($0.message)] }),
    ]
  }

  private mutating func differ(_ path: String, _ message: String) {
    differences.append(Difference(path: path, message: message))
  }

  // MARK: A file

  /// Checks a Takeset HDF5 file by itself: every dataset against the digest it carries.
  package init(file path: String) throws {
    let file = try File.open(path)
    defer { try? file.close() }
    guard try file.root.textAttribute("format") == "takeset" else {
      throw UsageError("\(path) is not a Takeset file: it has no attribute format = \"takeset\"")
    }
    files = 1
    try check(file, name: URL(fileURLWithPath: path).lastPathComponent)
  }

  private mutating func check(_ file: File, name: String) throws {
    for section in ["data", "meta"] where file.root.contains(section) {
      try check(file.root.group(section), path: "\(name):/\(section)", depth: 0)
    }
  }

  private mutating func check(_ group: Group, path: String, depth: Int) throws {
    guard depth < 16 else { return differ(path, "groups are nested deeper than any Takeset file") }
    for (name, kind) in try group.members() {
      let member = "\(path)/\(name)"
      switch kind {
      case .group: try check(group.group(name), path: member, depth: depth + 1)
      case .dataset: try check(group.dataset(name), path: member)
      case .external: notes.append("\(member) is a link to another file and was not followed")
      case .other: notes.append("\(member) is no group or dataset and was not checked")
      }
    }
  }

  private mutating func check(_ dataset: Dataset, path: String) throws {
    guard let expected = try dataset.textAttribute("sha256") else {
      notes.append("\(path) carries no digest; it was added by another program")
      return
    }
    if dataset.hasForeignStorage { return differ(path, "its bytes lie in another file") }
    datasets += 1
    do {
      let found = try Self.digest(of: dataset, counting: &bytes)
      if found.description != expected { differ(path, "sha256 is \(found), recorded \(expected)") }
    } catch let error as HDF5Error {
      differ(path, "cannot be read: \(error.message)")
    }
  }

  /// Of the row-major little-endian bytes, a few rows at a time.
  private static func digest(of dataset: Dataset, counting bytes: inout Int64) throws -> Digest {
    let hasher = SHA256()
    let rows = dataset.dims.first ?? 0
    if dataset.type == .bytes {
      for row in 0..<rows {
        let sequence = try dataset.readSequence(row: row)
        bytes += Int64(sequence.count)
        hasher.update(sequence)
      }
      return hasher.finish()
    }
    let step = max(dataset.chunk?.first ?? rows, 1)
    for start in stride(from: 0, to: rows, by: step) {
      let part = try dataset.read(rows: start..<min(start + step, rows))
      bytes += Int64(part.count)
      hasher.update(part)
    }
    return hasher.finish()
  }

  // MARK: A directory

  /// Checks a dataset directory against its manifest: the manifest against its own digest, every shard, the index, and,
  /// where asked, every input file.
  package init(directory: String, inputs: Bool) throws {
    let manifest: JSONValue
    do {
      let file = try InputFile(directory + "/manifest.json")
      manifest = try JSONReader { try file.read(into: $0) }.value()
    } catch let error as JSONError {
      differ("manifest.json", "is not JSON: \(error)")
      return
    } catch {
      throw UsageError("\(directory) is not a Takeset dataset: manifest.json cannot be read (\(error))")
    }
    guard let record = manifest["record"], let takes = record["takes"]?.array else {
      differ("manifest.json", "has no record of takes")
      return
    }
    files += 1
    let found = Digest.of(record.canonicalBytes).description
    if manifest["record_sha256"]?.string != found {
      differ("manifest.json", "its record's sha256 is \(found), recorded \(manifest["record_sha256"]?.string ?? "nothing")")
    }
    for take in takes {
      if let output = take["output"], output != .null { try checkShard(output, in: directory) }
      if inputs { try checkInputs(take, location: manifest["run"]?["takes"]?[take["id"]?.string ?? ""]?["location"]?.string) }
    }
    try checkIndex(directory, record: record)
    let known = Set(takes.compactMap { $0["output"]?["path"]?.string })
    for member in (try? Directory.members(of: directory + "/episodes")) ?? []
    where !known.contains("episodes/\(member.name)") && !SealedFile.isTemporary(member.name) {
      notes.append("episodes/\(member.name) is not in the manifest")
    }
  }

  private mutating func checkShard(_ output: JSONValue, in directory: String) throws {
    guard let path = output["path"]?.string, !path.hasPrefix("/"), !path.split(separator: "/").contains("..") else {
      return differ("manifest.json", "an output path leaves the dataset: \(output["path"]?.string ?? "none")")
    }
    let full = directory + "/" + path
    files += 1
    do {
      let (digest, size) = try SealedFile.digest(of: full)
      bytes += size
      if digest.description == output["sha256"]?.string {
        datasets += output["datasets"]?.array?.count ?? 0
        return
      }
      // The bytes differ: a tool may have added to the file, or the data may be damaged. The datasets tell.
      let before = differences.count
      let file = try File.open(full)
      defer { try? file.close() }
      try check(file, name: path)
      try checkRecorded(output["datasets"]?.array ?? [], in: file, name: path)
      if differences.count == before {
        notes.append("\(path): its bytes have changed since, its datasets have not")
      }
    } catch let error as FileError {
      differ(path, "cannot be read: \(error.reason)")
    } catch let error as TakeFailure {
      differ(path, error.message)
    } catch let error as HDF5Error {
      differ(path, "cannot be opened: \(error.message)")
    }
  }

  /// The digests that datasets carry could have been changed with them; the manifest's are the ones that count.
  private mutating func checkRecorded(_ recorded: [JSONValue], in file: File, name: String) throws {
    for entry in recorded {
      guard let path = entry["path"]?.string, let expected = entry["sha256"]?.string else { continue }
      guard file.root.isHardLinked(path) else {
        differ("\(name):\(path)", "is missing or a link to something else")
        continue
      }
      let found = try? file.root.dataset(String(path.dropFirst())).textAttribute("sha256")
      if found == nil {
        differ("\(name):\(path)", "is missing or carries no digest")
      } else if found != expected {
        differ("\(name):\(path)", "carries the digest \(found ?? "none"), the manifest says \(expected)")
      }
    }
  }

  /// The index by its bytes, or, when a tool has added to it, by what it says: links, masks, statistics.
  private mutating func checkIndex(_ directory: String, record: JSONValue) throws {
    files += 1
    do {
      if try SealedFile.digest(of: directory + "/dataset.h5").digest.description == record["index"]?["sha256"]?.string { return }
      let before = differences.count
      let file = try File.open(directory + "/dataset.h5")
      defer { try? file.close() }
      try checkLinks(file, record)
      try checkMasks(file, record)
      try checkStatistics(file, record)
      if differences.count == before { notes.append("dataset.h5: its bytes have changed since, what it says has not") }
    } catch let error as HDF5Error {
      differ("dataset.h5", "cannot be read: \(error.message)")
    } catch let error as FileError {
      differ("dataset.h5", "cannot be read: \(error.reason)")
    } catch let error as TakeFailure {
      differ("dataset.h5", error.message)
    }
  }

  private mutating func checkLinks(_ file: File, _ record: JSONValue) throws {
    let paths = (record["takes"]?.array ?? []).compactMap { $0["output"]?["path"]?.string }
    for section in ["data", "meta"] {
      let group = try file.root.group(section)
      let names = try group.members().map(\.name)
      if names != paths.indices.map(DatasetIndex.demoName) {
        differ("dataset.h5:/\(section)", "has \(names.count) members, expected demo_000000 and so on for \(paths.count) takes")
        continue
      }
      for (name, path) in zip(names, paths) {
        let target = try? group.externalTarget(name)
        if target?.file != path || target?.object != "/\(section)/demo_0" {
          differ("dataset.h5:/\(section)/\(name)", "does not lead to /\(section)/demo_0 of \(path)")
        }
      }
    }
  }

  private mutating func checkMasks(_ file: File, _ record: JSONValue) throws {
    let written = (record["takes"]?.array ?? []).filter { $0["output"]?["path"] != nil }.compactMap { $0["id"]?.string }
    for part in Split.Part.allCases {
      let dataset = try file.root.dataset("mask/\(part.rawValue)")
      guard case .string(let width)? = dataset.type else { return differ("dataset.h5:/mask/\(part.rawValue)", "is no list of names") }
      let bytes = try dataset.readAll()
      let names = stride(from: 0, to: bytes.count, by: width).map { start in
        String(decoding: bytes[start..<(start + width)].prefix { $0 != 0 }, as: UTF8.self)
      }
      let ids = Set((record["splits"]?[part.rawValue]?.array ?? []).compactMap(\.string))
      let expected = written.indices.filter { ids.contains(written[$0]) }.map(DatasetIndex.demoName)
      if names != expected { differ("dataset.h5:/mask/\(part.rawValue)", "is not the split of the manifest") }
    }
  }

  private mutating func checkStatistics(_ file: File, _ record: JSONValue) throws {
    for (key, recorded) in (record["statistics"]?.object ?? [:]).sorted(by: { $0.key < $1.key }) {
      for (name, values) in (recorded.object ?? [:]).sorted(by: { $0.key < $1.key }) where name != "count" {
        let found = try file.root.dataset("stats/\(key)/\(name)").readAll(as: Double.self)
        let expected = (values.array ?? []).map { $0.double ?? .nan }
        if found.count != expected.count || zip(found, expected).contains(where: { $0 != $1 && !($0.isNaN && $1.isNaN) }) {
          differ("dataset.h5:/stats/\(key)/\(name)", "is not what the manifest says")
        }
      }
    }
  }

  private mutating func checkInputs(_ take: JSONValue, location: String?) throws {
    let id = take["id"]?.string ?? ""
    guard let location else { return notes.append("\(id): where its inputs were is not recorded") }
    // A take may be one file, which is then its only input.
    let isFile = Directory.existingKind(of: location, followingLinks: true) == .file
    let root = isFile ? URL(fileURLWithPath: location).deletingLastPathComponent().path : location
    for input in take["inputs"]?.array ?? [] {
      guard let path = input["path"]?.string, !path.split(separator: "/").contains("..") else { continue }
      files += 1
      do {
        let (digest, size) = try SealedFile.digest(of: root + "/" + path)
        bytes += size
        if digest.description != input["sha256"]?.string {
          differ("\(id): \(path)", "sha256 is \(digest), recorded \(input["sha256"]?.string ?? "none")")
        }
      } catch let error as FileError {
        differ("\(id): \(path)", "cannot be read: \(error.reason)")
      } catch let error as TakeFailure {
        differ("\(id): \(path)", error.message)
      }
    }
  }
}
