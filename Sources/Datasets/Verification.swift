package import Evidence
import Foundation
import HDF5
import Model
import Steps

/// A check of written files against the digests recorded when they were written.
///
///     let report = try Verification(directory: "dataset", inputs: true)
///     for difference in report.differences { print("\(difference.path): \(difference.message)") }
package struct Verification: Sendable, Codable {
  /// A place where the files are not what the record says.
  package struct Difference: Sendable, Equatable, Codable {
    /// A file of the dataset, an array or a row in it, or a take's input.
    package var path: String
    package var message: String
  }

  package private(set) var differences: [Difference] = []
  /// Remarks that are not differences.
  package private(set) var notes: [String] = []
  /// Objects and attributes that other programs have added to shards: `episodes/take-1.h5:/data/demo_0/obs/width`.
  package private(set) var added: [String] = []
  package private(set) var files = 0
  package private(set) var datasets = 0
  package private(set) var bytes: Int64 = 0
  /// SHA-256 of complete files, if requested.
  package private(set) var fileDigests: [String: String] = [:]

  /// The number of differing rows of one array that are listed individually.
  package static let rowsNamed = 10

  private enum CodingKeys: String, CodingKey { case differences, notes, added, files, datasets, bytes, fileDigests }

  /// Checks of files that another program has written to; the command runs them in a process of their own.
  package struct ExternalChecks: Sendable {
    package var shard: @Sendable (_ path: String, OutputRecord) throws -> Verification
    package var index: @Sendable (_ path: String, _ directory: String) throws -> Verification

    package init(
      shard: @escaping @Sendable (String, OutputRecord) throws -> Verification,
      index: @escaping @Sendable (String, String) throws -> Verification
    ) {
      (self.shard, self.index) = (shard, index)
    }

    /// Checks nothing: a file that another program has written to, or that is damaged, differs. Used by commands that can make it again.
    package static let none = ExternalChecks(shard: { path, _ in changed(path) }, index: { path, _ in changed(path) })

    private static func changed(_ path: String) -> Verification {
      var report = Verification()
      report.differ(path, "was changed after it was written")
      return report
    }

    /// Checks in this process.
    package static let inProcess = ExternalChecks(shard: ExternalCheck.shard) { path, directory in
      let manifest = try ManifestFile(directory)
      guard let record = manifest.record else { throw UsageError("manifest.json cannot be parsed") }
      return try ExternalCheck.index(path, record, manifest.takes)
    }
  }

  private var externalCheck = ExternalChecks.inProcess
  private var directory = ""
  /// Errors of earlier versions; collected with the takes' records.
  private var recall = Recall()
  /// Files among the shards that the manifest does not name; in a signed dataset they are differences.
  private var unlisted: [String] = []

  package init() {}

  package var isSound: Bool { differences.isEmpty }

  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "sound": .bool(isSound), "files": JSONValue(files), "datasets": JSONValue(datasets), "bytes": .integer(bytes),
      "notes": .array(notes.map { .string($0) }), "added": .array(added.map { .string($0) }),
      "differences": .array(differences.map { ["path": .string($0.path), "message": .string($0.message)] }),
    ]
    if !fileDigests.isEmpty { members["file_sha256"] = .object(fileDigests.mapValues { .string($0) }) }
    return .object(members)
  }

  /// A report of what is yet to be checked in a directory.
  package init(_ external: ExternalChecks, of directory: String) { (externalCheck, self.directory) = (external, directory) }

  // MARK: Reporting

  /// Adds a difference, with control characters escaped: names in files may hold any.
  package mutating func differ(_ path: String, _ message: String) {
    differences.append(Difference(path: path.onOneLine, message: message.onOneLine))
  }
  /// Adds a sentence that is no difference, such as about files that are not checked.
  package mutating func note(_ sentence: String) { notes.append(sentence) }

  /// Lists what another program has added to a shard, and notes it where the recorded contents are sound.
  ///
  /// `additions`: Empty where it has only stored the contents in another way. `bytes`: The size of the file now.
  mutating func add(_ additions: [String], to output: OutputRecord, now bytes: Int64) {
    added += additions.map { "\(output.path):\($0)".onOneLine }
    guard isSound else { return }
    var named = additions.prefix(3).joined(separator: ", ").onOneLine
    if additions.count > 3 { named += " and \(additions.count - 3) more" }
    note(
      "\(output.path): \(abs(bytes - output.bytes)) bytes were \(bytes < output.bytes ? "saved" : "added") by another program\(named.isEmpty ? "" : " (\(named))"); what Takeset wrote is unchanged"
    )
  }

  /// Counts a file whose bytes or arrays were checked.
  package mutating func noteFile() { files += 1 }
  package mutating func noteDataset() { datasets += 1 }
  /// Counts bytes that were hashed.
  package mutating func noteBytes(_ count: Int64) { bytes += count }

  /// Adds the result of another check, after this one.
  package mutating func merge(_ other: Verification) {
    differences += other.differences
    notes += other.notes
    added += other.added
    files += other.files
    datasets += other.datasets
    bytes += other.bytes
    recall.add(other.recall)
  }

  /// Makes files that the manifest does not name differences: a program that reads every shard of the folder would read them, too.
  package mutating func refuseUnlisted() {
    for path in unlisted { differ(path, "is not in the manifest, so no signature covers it") }
    unlisted = []
  }

  /// Runs a check and records an error that it throws as a difference of this path.
  package mutating func catching(_ path: String, _ body: (inout Verification) throws -> Void) {
    do {
      try body(&self)
    } catch let error as FileError {
      differ(path, "cannot be read: \(error.reason)")
    } catch let error as TakeFailure {
      differ(path, error.message)
    } catch let error as HDF5Error {
      differ(path, "cannot be read: \(error.message)")
    } catch {
      differ(path, "\(error)")
    }
  }

  func checkExternalShard(_ path: String, _ output: OutputRecord) throws -> Verification { try externalCheck.shard(path, output) }
  func checkExternalIndex(_ path: String) throws -> Verification { try externalCheck.index(path, directory) }

  // MARK: A file

  /// Checks a standalone Takeset HDF5 file: every dataset against the digest stored with it.
  package init(file path: String) throws {
    let file = try File.open(path)
    defer { try? file.close() }
    guard try file.root.textAttribute("format") == "takeset" else {
      throw UsageError("\(path) is not a Takeset file: it has no attribute format = \"takeset\"")
    }
    try Self.checkVersion(try file.root.textAttribute("format_version"), of: path)
    files = 1
    let name = URL(fileURLWithPath: path).lastPathComponent
    for section in [ShardNames.allData, ShardNames.allMeta] where file.root.contains(section) {
      try check(file.root.group(section), path: "\(name):/\(section)", root: file.root, depth: 0)
    }
  }

  static func checkVersion(_ version: String?, of path: String) throws {
    guard let version, version.hasPrefix("1.") else { return }
    throw UsageError(
      """
      \(path) is in format \(version), written by an earlier version of Takeset, and this version cannot check its digests; \
      rebuild it from its inputs: takeset run INPUT --output DIR --replace
      """)
  }

  private mutating func check(_ group: Group, path: String, root: Group, depth: Int) throws {
    guard depth < 16 else { return differ(path, "groups are nested deeper than in any Takeset file") }
    for (name, kind) in try group.members() {
      let member = "\(path)/\(name)"
      switch kind {
      case .group where name == ShardNames.rowDigests: break
      case .group: try check(group.group(name), path: member, root: root, depth: depth + 1)
      case .dataset: catching(member) { report in try report.check(group.dataset(name), path: member, root: root) }
      case .external: notes.append("\(member) is an external link and was not followed")
      case .other: notes.append("\(member) is neither a group nor a dataset and was not checked")
      }
    }
  }

  private mutating func check(_ dataset: HDF5Array, path: String, root: Group) throws {
    guard let expected = try dataset.textAttribute("sha256"), let scope = try dataset.textAttribute("sha256_of") else {
      notes.append("\(path) has no digest; it was added by another program")
      return
    }
    datasets += 1
    let inside = String(path.drop { $0 != ":" }.dropFirst())
    let found = try scope == "rows" ? rowsDigest(dataset, path: path, inside: inside, root: root) : contentDigest(dataset)
    if found.description != expected { differ(path, "sha256 is \(found), recorded \(expected)") }
  }

  /// Digest of the row-major little-endian bytes, read a few rows at a time.
  private mutating func contentDigest(_ dataset: HDF5Array) throws -> Digest {
    let hasher = SHA256()
    let rows = dataset.dims.first ?? 0
    let step = max(dataset.chunk?.first ?? rows, 1)
    for start in stride(from: 0, to: rows, by: step) {
      let part = try dataset.read(rows: start..<min(start + step, rows))
      bytes += Int64(part.count)
      hasher.update(part)
    }
    return hasher.finish()
  }

  /// Digest of the row digests, each of which is compared with the one stored in the file.
  private mutating func rowsDigest(_ dataset: HDF5Array, path: String, inside: String, root: Group) throws -> Digest {
    let digests = ShardNames.rowDigests(of: inside)
    let carried = digests.isEmpty ? [] : try root.dataset(digests).readAll()
    let hasher = SHA256()
    var named = 0
    for row in 0..<(dataset.dims.first ?? 0) {
      let content = try? dataset.type == .bytes ? dataset.readSequence(row: row) : dataset.read(rows: row..<(row + 1))
      let digest = Digest.of(content ?? [])
      bytes += Int64(content?.count ?? 0)
      hasher.update(digest.bytes)
      let own = carried.count >= 32 * (row + 1) ? Digest(bytes: carried[(32 * row)..<(32 * row + 32)]) : nil
      if content == nil || own != digest {
        named += 1
        if named <= Self.rowsNamed { differ("\(path)[\(row)]", content == nil ? "cannot be read" : "its content has changed") }
      }
    }
    return hasher.finish()
  }

  // MARK: A directory

  /// Checks a dataset directory against its manifest: the manifest against its own digests, every shard, the index and, if requested,
  /// every input file.
  ///
  /// `isQuick`: Whether of each shard only its presence and its size are compared; none is then opened. `digestsFiles`: Whether to compute
  /// digests of complete files too, for publication. `threads`: Number of shards checked concurrently.
  package init(
    directory: String, inputs: Bool, isQuick: Bool = false, digestsFiles: Bool = false, threads: Int = 1,
    external: ExternalChecks = .inProcess
  ) throws {
    (externalCheck, self.directory) = (external, directory)
    DatasetFiles.settleIndex(in: directory)
    let manifest: ManifestFile
    do {
      manifest = try ManifestFile(directory)
    } catch let error as JSONError {
      differ(DatasetFiles.manifest, "is not JSON: \(error)")
      return
    } catch {
      throw UsageError(DatasetFiles.unreadable(directory, error))
    }
    files += 1
    if manifest.isEarlier {
      throw UsageError(
        """
        \(directory) was written by an earlier version of Takeset, in format 1, and this version cannot check its digests; \
        rebuild it from its inputs: takeset run INPUT --output \(directory) --replace
        """)
    }
    do {
      for damage in try manifest.damage() { differ(DatasetFiles.manifest, damage) }
    } catch {
      throw UsageError(DatasetFiles.unreadable(directory, error))
    }
    guard let record = manifest.record else { return }
    guard record.isOfKnownWriter else {
      differ(DatasetFiles.manifest, "names an unknown writer")
      return
    }
    let locations = inputs ? (try? manifest.locations()) ?? [:] : [:]
    let takes = manifest.takes
    for contradiction in record.contradictions(with: takes) { differ(DatasetFiles.manifest, contradiction) }
    // So many at a time that threads rarely wait for the last, and few reports are in memory.
    for start in stride(from: 0, to: takes.count, by: Self.takesAtOnce) {
      let some = takes[start..<min(start + Self.takesAtOnce, takes.count)]
      inParallel(some.count, threads: threads) { [external] index in
        var report = Verification(external, of: directory)
        let entry = some[some.startIndex + index]
        if isQuick { return report.checkSize(of: entry) }
        let take: TakeRecord
        do {
          take = try manifest.record(of: entry)
        } catch {
          report.differ(DatasetFiles.manifest, "its record of \(entry.id) cannot be understood: \(error)")
          return report
        }
        report.checkShard(of: take, pipelineDigests: record.shardDigests)
        report.recall.add(take)
        if inputs { report.checkInputs(take, location: locations[take.id.text]) }
        return report
      }.forEach { merge($0) }
    }
    HDF5Check(directory: directory).checkIndex(record, into: &self)
    notes += recall.sentences.map { "\(DatasetFiles.manifest): \($0)" }
    let known = Set(takes.compactMap { $0.output?.path })
    for member in (try? Directory.members(of: directory + "/" + DatasetFiles.episodes)) ?? []
    where !known.contains("\(DatasetFiles.episodes)/\(member.name)") && !SealedFile.isTemporary(member.name) {
      unlisted.append("\(DatasetFiles.episodes)/\(member.name)")
    }
    notes += unlisted.map { "\($0) is not in the manifest" }
    if digestsFiles {
      for path in known.sorted() + [record.index.path, DatasetFiles.manifest] {
        fileDigests[path] = try? SealedFile.digest(of: directory + "/" + path).digest.description
      }
    }
  }

  /// Compares a take's shard with its record. Even a note says that it has changed.
  ///
  /// - Parameter pipelineDigests: Digests of pipelines of which the shard has one.
  package mutating func checkShard(of take: TakeRecord, pipelineDigests: Set<String>) {
    HDF5Check(directory: directory).check(take, pipelineDigests: pipelineDigests, into: &self)
  }

  private static let takesAtOnce = 1 << 12

  /// A quick check: whether a shard is there with the size that the manifest records.
  private func checkSize(of take: TakeEntry) -> Verification {
    var report = self
    guard let output = take.output else { return report }
    report.noteFile()
    do {
      let bytes = try FileStamp.of(directory + "/" + output.path).bytes
      if bytes != output.bytes { report.differ(output.path, "has \(bytes) bytes, recorded \(output.bytes)") }
    } catch let error as FileError {
      report.differ(output.path, error.code == ENOENT ? "is missing" : "cannot be read: \(error.reason)")
    } catch {
      report.differ(output.path, (error as? TakeFailure)?.message ?? "\(error)")
    }
    return report
  }

  private mutating func checkInputs(_ take: TakeRecord, location: String?) {
    guard let location else { return note("\(take.id): the location of its inputs is not recorded") }
    catching(take.id.text) { report in
      // A take may be a single file, which is then its only input.
      guard let kind = try Directory.kind(at: location, followingLinks: true) else {
        let files = take.inputs.count == 1 ? "its input is" : "its \(take.inputs.count) inputs are"
        return report.differ(take.id.text, "\(files) gone: there is no \(location)")
      }
      for (input, path) in zip(take.inputs, take.inputPaths(at: location, isFile: kind == .file)) {
        guard let file = path else { continue }
        report.noteFile()
        report.catching("\(take.id): \(input.path)") { report in
          // A file of another size is not read: the record may be somebody else's, and name what has no end.
          let found = try FileStamp.of(file).bytes
          guard found == input.bytes else {
            return report.differ("\(take.id): \(input.path)", "has \(found) bytes, recorded \(input.bytes)")
          }
          let (digest, size) = try SealedFile.digest(of: file)
          report.noteBytes(size)
          if digest != input.digest { report.differ("\(take.id): \(input.path)", "sha256 is \(digest), recorded \(input.digest)") }
        }
      }
    }
  }
}
