package import Evidence
import Foundation
package import Media
package import Model
import Synchronization

/// The files of one take: their names, and, once read, their sizes and digests.
///
/// Workers read files at the same time; each file's digest covers exactly the bytes that were used.
///
///     let inputs = TakeInputs(root: folder, entries: [.init(path: "poses.json", role: .poses)])
///     guard let table = inputs.index(of: "poses.json") else { … }
///     let poses = try inputs.readJSON(table, limit: 64 << 20) { try $0.value() }
package final class TakeInputs: Sendable {
  /// The part that a file plays in its take, by which readers find it and the manifest lists it.
  package enum Role: String, Sendable, Codable {
    case metadata, poses, encoders, image, depth, confidence, movie, imu, calibration
    /// A table of a further stream.
    case stream
    case hashChain = "hash-chain"
    /// A zip or tar that contains the take, and a copy of its metadata next to it.
    case archive, sidecar
    /// An upload as it was received, all parts in one file.
    case body

    /// The bytes of a file that are read at most, whatever its reader's own limits, so that a sparse file holds nothing up.
    var limit: Int64 {
      switch self {
      // Archives have limits of their own, which are options.
      case .archive: .max
      case .movie, .body: 64 << 30
      default: 4 << 30
      }
    }
  }

  /// A file of the take, or a member of its archive.
  package struct Entry: Sendable {
    /// Relative to the take, `/`-separated.
    package var path: String
    package var role: Role
    /// Index of the entry in the archive's list of members.
    package var member: Int?

    package init(path: String, role: Role, member: Int? = nil) { (self.path, self.role, self.member) = (path, role, member) }
  }

  package let root: String
  /// Readable entries, sorted bytewise by path.
  package let entries: [Entry]
  /// Files that the manifest lists, in the same order: the entries, or else the archive that contains them and the files next to it.
  private let files: [Entry]
  package let archive: Archive?
  /// The take's folder in the archive.
  let archiveRoot: String
  /// Names in the take's folder that the reader ignores.
  package let ignored: [String]
  /// The members of a joined take. It has no files but theirs, which their readers read.
  package let members: [Member]
  /// What the paths of files begin with in records and messages: the name of the member of a joined take, and a slash.
  private let prefix: String

  /// A member of a joined take.
  package struct Member: Sendable {
    package var name: String
    package var location: TakeLocation
    package var inputs: TakeInputs
    package init(name: String, location: TakeLocation, inputs: TakeInputs) {
      (self.name, self.location, self.inputs) = (name, location, inputs)
    }
  }
  private let known: Mutex<[Known?]>
  /// Stamps of files that are read in any order, taken when they were opened.
  private let opened = Mutex<[Int: FileStamp]>([:])

  /// Members that are read in any order, so that their checksums are compared afterwards.
  private let sliced = Mutex<Set<Int>>([])
  /// Stamp of each file, as `stamp` found it.
  private let listed = Mutex<[FileStamp]>([])

  struct Known: Equatable {
    var digest: Digest
    var bytes: Int64
  }

  /// `archive`: The archive of the entries that are members; it is in `root` with the other entries.
  package convenience init(root: String, entries: [Entry], archive: Archive? = nil, archiveRoot: String = "", ignored: [String] = []) {
    self.init(root, entries, archive, archiveRoot, ignored, prefix: "")
  }

  /// The files of takes that are joined to one, in the order of their names.
  package convenience init(root: String, members: [Member]) {
    let own = members.sorted { $0.name < $1.name }.map { member in
      let inputs = member.inputs
      return Member(
        name: member.name, location: member.location,
        inputs: TakeInputs(
          inputs.root, inputs.entries, inputs.archive, inputs.archiveRoot, inputs.ignored, prefix: member.name + "/"))
    }
    self.init(root, [], nil, "", [], prefix: "", members: own)
  }

  private init(
    _ root: String, _ entries: [Entry], _ archive: Archive?, _ archiveRoot: String, _ ignored: [String], prefix: String,
    members: [Member] = []
  ) {
    (self.root, self.archive, self.archiveRoot) = (root, archive, archiveRoot)
    (self.prefix, self.members) = (prefix, members)
    self.ignored = ignored.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    func sorted(_ entries: [Entry]) -> [Entry] { entries.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) } }
    self.entries = sorted(entries)
    if let archive {
      let file = Entry(path: URL(fileURLWithPath: archive.path).lastPathComponent, role: .archive)
      files = sorted(entries.filter { $0.member == nil } + [file])
      // The list of members belongs to this version of the file.
      if let index = files.firstIndex(where: { $0.role == .archive }) { opened.withLock { $0[index] = archive.stamp } }
    } else {
      files = self.entries
    }
    known = Mutex(Array(repeating: nil, count: files.count))
  }

  /// A take that is one file.
  package convenience init(file: String, role: Role) {
    let url = URL(fileURLWithPath: file)
    self.init(
      root: url.deletingLastPathComponent().path, entries: [Entry(path: url.lastPathComponent, role: role)])
  }

  /// Returns the index of the entry with that path, relative to the take; `nil` without one. A binary search.
  package func index(of path: String) -> Int? {
    var (low, high) = (0, entries.count)
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].path.utf8.lexicographicallyPrecedes(path.utf8) { low = middle + 1 } else { high = middle }
    }
    return low < entries.count && entries[low].path == path ? low : nil
  }

  /// Paths of all files.
  package var paths: [String] { files.indices.map(fullPath) + members.flatMap(\.inputs.paths) }

  /// Path of a file, or of the archive that contains it.
  private func fullPath(_ file: Int) -> String { root + "/" + files[file].path }

  /// The archive member that an entry refers to, or else the file.
  private enum Location {
    case member(Archive, Archive.Member)
    case file(Int)
  }

  private func location(_ index: Int) -> Location {
    let entry = entries[index]
    guard let archive else { return .file(index) }
    if let member = entry.member { return .member(archive, archive.members[member]) }
    return .file(files.firstIndex { $0.path == entry.path } ?? 0)
  }

  /// Replaces `bytes` by all of entry `index`.
  package func read(_ index: Int, limit: Int, hasher: SHA256, into bytes: inout [UInt8]) throws {
    switch location(index) {
    case .file(let file): try withFile(file, hasher: hasher) { try $0.readAll(limit: limit, into: &bytes) }
    case .member(let archive, let member):
      try withMember(index, member, limit: limit) { try archive.read(member, into: &bytes) }
    }
  }

  /// Replaces `bytes` by an entry that is one sample of many. If the archive is damaged there, only the sample is unavailable and the take
  /// continues: `SampleFailure` with this code.
  package func readSample(_ index: Int, limit: Int, hasher: SHA256, as code: FindingCode, into bytes: inout [UInt8]) throws {
    do {
      try read(index, limit: limit, hasher: hasher, into: &bytes)
    } catch let failure as TakeFailure where failure.code == .archiveDamaged {
      throw SampleFailure(finding: Finding(code, failure.message, severity: .warning, file: failure.file))
    }
  }

  /// Entry `index` for reading in any order. A file's digest is taken afterwards; a file that changed since it was opened fails the take.
  package func slice(_ index: Int) throws -> FileSlice {
    switch location(index) {
    case .file(let file): try slice(file: file)
    case .member(let archive, let member):
      try withMember(index, member, limit: .max) {
        _ = sliced.withLock { $0.insert(index) }
        return try archive.slice(member)
      }
    }
  }

  private func slice(file index: Int) throws -> FileSlice {
    do {
      let file = try InputFile(fullPath(index))
      try Self.check(file.stamp.bytes, files[index].role.limit)
      let descriptor = dup(file.descriptor)
      guard descriptor >= 0 else { throw FileError("open", file.path) }
      opened.withLock { $0[index] = file.stamp }
      return FileSlice(descriptor: descriptor, count: file.stamp.bytes)
    } catch {
      throw naming(files[index].path, error)
    }
  }

  /// Reads a JSON file through a window, to its end.
  package func readJSON<Result>(_ index: Int, limit: Int, _ body: (JSONReader) throws -> Result) throws -> Result {
    try stream(index, limit: limit) { read in
      try withoutActuallyEscaping(read) { read in
        do {
          return try body(JSONReader(read))
        } catch let error as JSONError {
          throw TakeFailure(.jsonInvalid, error.message, field: ", " + error.place)
        }
      }
    }
  }

  /// Lets `body` read a file from its start, piece by piece.
  package func stream<Result>(_ index: Int, limit: Int, _ body: (JSONReader.Refill) throws -> Result) throws -> Result {
    switch location(index) {
    case .file(let file):
      return try withFile(file, hasher: SHA256()) { file in
        try Self.check(file.stamp.bytes, limit)
        return try body { try file.read(into: $0) }
      }
    case .member(let archive, let member):
      return try withMember(index, member, limit: limit) {
        let file = try archive.open(member)
        let result = Swift.Result { try body { try file.read(into: $0) } }
        // The contents of a damaged member are never trusted.
        try file.finish()
        return try result.get()
      }
    }
  }

  private static func check(_ bytes: Int64, _ limit: some BinaryInteger) throws {
    if bytes > limit { throw TakeFailure(.inputTooLarge, "\(bytes) bytes are over the limit of \(limit)") }
  }

  /// Lets `body` read a member; errors name it.
  private func withMember<Result>(_ index: Int, _ member: Archive.Member, limit: Int, _ body: () throws -> Result) throws -> Result {
    do {
      try Self.check(member.bytes, limit)
      return try body()
    } catch let error as ArchiveError {
      throw TakeFailure(.archiveDamaged, "the archive's member is damaged: \(error.message)", file: prefix + entries[index].path)
    } catch {
      throw naming(entries[index].path, error)
    }
  }

  /// Opens a file, lets `body` read, and notes the digest; errors name the file.
  private func withFile<Result>(
    _ index: Int, hasher: SHA256, isCancelled: () -> Bool = { false }, _ body: (InputFile) throws -> Result
  ) throws -> Result {
    let path = files[index].path
    do {
      let file = try InputFile(fullPath(index), hasher: hasher)
      try Self.check(file.stamp.bytes, files[index].role.limit)
      if let before = opened.withLock({ $0[index] }), before != file.stamp {
        throw TakeFailure(.changedWhileReading, "the file was changed while it was read")
      }
      let result = Swift.Result { try body(file) }
      // What is over a limit is not read to its end.
      if case .failure(let failure as TakeFailure) = result, failure.code == .inputTooLarge { throw failure }
      try note(index, Known(digest: file.finish(isCancelled: isCancelled), bytes: file.stamp.bytes))
      try file.checkUnchanged()
      return try result.get()
    } catch {
      throw naming(path, error)
    }
  }

  /// The same error with the file's path inside the take.
  private func naming(_ path: String, _ error: any Error) -> any Error {
    let path = prefix + path
    switch error {
    case var failure as TakeFailure:
      failure.file = path
      return failure
    case let error as FileError:
      return error.failure(path)
    default: return error
    }
  }

  private func note(_ index: Int, _ new: Known) throws {
    let old = known.withLock { known in
      defer { known[index] = new }
      return known[index]
    }
    if let old, old != new {
      throw TakeFailure(.changedWhileReading, "its contents changed between two reads", file: prefix + files[index].path)
    }
  }

  /// The bytes of a file that no reader has asked for, in the folder of a take in an archive; `nil` for others. Throws `TakeFailure`.
  package func archived(_ name: String, limit: Int) throws -> [UInt8]? {
    guard let archive else { return nil }
    let path = archiveRoot.isEmpty ? name : "\(archiveRoot)/\(name)"
    guard let member = archive.members.first(where: { $0.path == path }) else { return nil }
    do {
      try Self.check(member.bytes, limit)
      var bytes: [UInt8] = []
      try archive.read(member, into: &bytes)
      return bytes
    } catch let error as ArchiveError {
      throw TakeFailure(.archiveDamaged, "the archive's member is damaged: \(error.message)", file: prefix + name)
    }
  }

  // MARK: Provenance

  /// The place of entry `index`: all of a file, or a member of the archive.
  package func origin(of index: Int) throws -> SampleOrigin {
    switch location(index) {
    case .file(let file): return SampleOrigin(file: prefix + files[file].path, range: 0..<(try stamp(ofFile: file).bytes))
    case .member(let archive, let member):
      let name = prefix + URL(fileURLWithPath: archive.path).lastPathComponent
      return try withMember(index, member, limit: .max) {
        SampleOrigin(file: name, member: try archive.origin(of: member), range: 0..<member.bytes)
      }
    }
  }

  /// Reads the files that have not been read, so that every file has its digest. Throws `CancellationError` soon after it was cancelled.
  package func finishDigests(isCancelled: () -> Bool = { false }) throws {
    let missing = known.withLock { known in known.indices.filter { known[$0] == nil } }
    let hasher = SHA256()
    for index in missing where !isCancelled() { try withFile(index, hasher: hasher, isCancelled: isCancelled) { _ in } }
    for member in members { try member.inputs.finishDigests(isCancelled: isCancelled) }
    try checkMembers(isCancelled: isCancelled)
  }

  /// Compares the checksums of members that were read in any order, because reading in parts does not compare them.
  package func checkMembers(isCancelled: () -> Bool = { false }) throws {
    for index in sliced.withLock({ $0.sorted() }) where !isCancelled() {
      guard case .member(let archive, let member) = location(index) else { continue }
      try withMember(index, member, limit: .max) { try archive.open(member).finish() }
      _ = sliced.withLock { $0.remove(index) }
    }
  }

  /// `input_sha256`: the digest of the lines `<sha256>  <path>`, sorted bytewise, as coreutils' sha256sum prints them.
  package var digest: Digest {
    // The lines start with the digest, so their order is that of the digests, then of the paths, which ascend already.
    let order = digested.enumerated().sorted { a, b in
      a.element.digest != b.element.digest ? a.element.digest < b.element.digest : a.offset < b.offset
    }
    let hasher = SHA256()
    for (_, file) in order { hasher.update(Array("\(file.digest)  \(file.path)\n".utf8)) }
    return hasher.finish()
  }

  /// Every file whose digest is known: its path inside the take, size in bytes, SHA-256 and role.
  package var digested: [(path: String, bytes: Int64, digest: Digest, role: Role)] {
    let known = known.withLock(\.self)
    return zip(files, known).compactMap { file, known in known.map { (prefix + file.path, $0.bytes, $0.digest, file.role) } }
      + members.flatMap(\.inputs.digested)
  }

  /// Details for the take's record: the archive, and names that the reader ignores.
  package var details: [String: JSONValue] {
    var details: [String: JSONValue] = [:]
    if let archive {
      details["archive"] = [
        "format": .string(archive.format.rawValue), "members": JSONValue(archive.members.count), "bytes": .integer(archive.bytes),
        "root": .string(archiveRoot),
      ]
    }
    if !ignored.isEmpty { details["ignored"] = .array(ignored.prefix(Self.listedNames).map { .string($0) }) }
    if ignored.count > Self.listedNames { details["ignored_count"] = JSONValue(ignored.count) }
    return details
  }
  private static let listedNames = 200

  /// A digest of every file's path, size, change time and inode: equal as long as the take is not modified.
  package func stamp() throws -> Digest {
    let stamps = try files.indices.map { try stamp(ofFile: $0) }
    listed.withLock { $0 = stamps }
    let hasher = SHA256()
    for (file, stamp) in zip(files, stamps) { hasher.update(Array("\(file.path)\0\(stamp)\n".utf8)) }
    for member in members { hasher.update(Array("\(member.name)\0\(try member.inputs.stamp())\n".utf8)) }
    return hasher.finish()
  }

  /// Throws `changed-while-reading` when a file differs from what `stamp` found: its contents may then mix two versions of the take.
  package func checkUnchanged() throws {
    for member in members { try member.inputs.checkUnchanged() }
    for (index, before) in listed.withLock(\.self).enumerated() where try stamp(ofFile: index) != before {
      throw TakeFailure(.changedWhileReading, "the file was changed while the take was converted", file: prefix + files[index].path)
    }
  }

  /// The length of entry `index`.
  package func bytes(of index: Int) throws -> Int64 {
    switch location(index) {
    case .file(let file): try stamp(ofFile: file).bytes
    case .member(_, let member): member.bytes
    }
  }

  private func stamp(ofFile index: Int) throws -> FileStamp {
    do {
      return try FileStamp.of(fullPath(index))
    } catch let error as FileError {
      throw error.failure(prefix + files[index].path)
    } catch var failure as TakeFailure {
      failure.file = prefix + files[index].path
      throw failure
    }
  }
}
