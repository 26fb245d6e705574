import Foundation
package import Media
import Synchronization

/// The files of one take: their names, and, as they are read, their sizes and digests.
///
/// Workers read files at the same time; each file's digest is that of the bytes that were used.
package final class TakeInputs: Sendable {
  package enum Role: String, Sendable {
    case metadata, poses, encoders, image, depth, movie, imu, calibration
    case hashChain = "hash-chain"
    /// An upload as it was received, all parts in one file.
    case body
  }

  package struct Entry: Sendable {
    /// Relative to the take, `/`-separated.
    package var path: String
    package var role: Role
  }

  package let root: String
  /// Sorted by path, bytewise.
  package let entries: [Entry]
  private let known: Mutex<[Known?]>
  /// Files that are read in any order, as they were when they were opened.
  private let opened = Mutex<[Int: FileStamp]>([:])

  struct Known: Equatable {
    var digest: Digest
    var bytes: Int64
  }

  package init(root: String, entries: [Entry]) {
    self.root = root
    self.entries = entries.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    known = Mutex(Array(repeating: nil, count: entries.count))
  }

  /// A take that is one file.
  package convenience init(file: String, role: Role) {
    let url = URL(fileURLWithPath: file)
    self.init(
      root: url.deletingLastPathComponent().path, entries: [Entry(path: url.lastPathComponent, role: role)])
  }

  package func index(of path: String) -> Int? {
    var (low, high) = (0, entries.count)
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].path.utf8.lexicographicallyPrecedes(path.utf8) { low = middle + 1 } else { high = middle }
    }
    return low < entries.count && entries[low].path == path ? low : nil
  }

  func fullPath(_ index: Int) -> String { root + "/" + entries[index].path }

  /// Replaces `bytes` by the whole of file `index`.
  package func read(_ index: Int, limit: Int, hasher: SHA256, into bytes: inout [UInt8]) throws {
    try withFile(index, hasher: hasher) { try $0.readAll(limit: limit, into: &bytes) }
  }

  /// File `index` for reading in any order. Its digest is taken afterwards, and a file that is no longer as it was opened fails
  /// the take.
  package func slice(_ index: Int) throws -> FileSlice {
    do {
      let file = try InputFile(fullPath(index))
      let descriptor = dup(file.descriptor)
      guard descriptor >= 0 else { throw FileError("open", file.path) }
      opened.withLock { $0[index] = file.stamp }
      return FileSlice(descriptor: descriptor, count: file.stamp.bytes)
    } catch {
      throw Self.naming(entries[index].path, error)
    }
  }

  /// Reads a JSON file through a window, to its end.
  package func readJSON<Result>(_ index: Int, limit: Int, _ body: (JSONReader) throws -> Result) throws -> Result {
    try withFile(index, hasher: SHA256()) { file in
      guard file.stamp.bytes <= limit else {
        throw TakeFailure("input-too-large", "\(file.stamp.bytes) bytes are over the limit of \(limit)")
      }
      let reader = JSONReader { try file.read(into: $0) }
      do {
        return try body(reader)
      } catch let error as JSONError {
        throw TakeFailure("json-invalid", error.message, field: ", " + error.place)
      }
    }
  }

  /// Opens a file, lets `body` read, and notes the digest; errors come out naming the file.
  private func withFile<Result>(_ index: Int, hasher: SHA256, _ body: (InputFile) throws -> Result) throws -> Result {
    let path = entries[index].path
    do {
      let file = try InputFile(fullPath(index), hasher: hasher)
      if let before = opened.withLock({ $0[index] }), before != file.stamp {
        throw TakeFailure("changed-while-reading", "the file was changed while it was read")
      }
      let result = Swift.Result { try body(file) }
      try note(index, Known(digest: file.finish(), bytes: file.stamp.bytes))
      return try result.get()
    } catch {
      throw Self.naming(path, error)
    }
  }

  /// The same error, naming the file by its path inside the take.
  private static func naming(_ path: String, _ error: any Error) -> any Error {
    switch error {
    case var failure as TakeFailure:
      failure.file = path
      return failure
    case let error as FileError:
      return TakeFailure(error.code == EACCES ? "permission" : "unreadable", "cannot \(error.action): \(error.reason)", file: path)
    default: return error
    }
  }

  private func note(_ index: Int, _ new: Known) throws {
    let old = known.withLock { known in
      defer { known[index] = new }
      return known[index]
    }
    if let old, old != new {
      throw TakeFailure("changed-while-reading", "its contents changed between two readings", file: entries[index].path)
    }
  }

  // MARK: Provenance

  /// Reads what has not been read, so that every file has its digest.
  package func finishDigests(isCancelled: () -> Bool = { false }) throws {
    let missing = known.withLock { known in known.indices.filter { known[$0] == nil } }
    let hasher = SHA256()
    for index in missing where !isCancelled() { try withFile(index, hasher: hasher) { _ in } }
  }

  /// `input_sha256`: the digest of the lines `<sha256>  <path>`, sorted bytewise, as coreutils' sha256sum prints them.
  package var digest: Digest {
    let known = known.withLock(\.self)
    // The lines start with the digest, so their order is that of the digests, then of the paths, which ascend already.
    let order = known.indices.filter { known[$0] != nil }.sorted { a, b in
      guard let first = known[a]?.digest, let second = known[b]?.digest, first != second else { return a < b }
      return first < second
    }
    let hasher = SHA256()
    for index in order {
      if let digest = known[index]?.digest { hasher.update(Array("\(digest)  \(entries[index].path)\n".utf8)) }
    }
    return hasher.finish()
  }

  /// The manifest's `inputs`, as canonical JSON: a long take has tens of thousands of files.
  package var canonicalJSON: [UInt8] {
    let known = known.withLock(\.self)
    var output: [UInt8] = [UInt8(ascii: "[")]
    output.reserveCapacity(entries.count * 136)
    for (entry, known) in zip(entries, known) {
      guard let known else { continue }
      if output.count > 1 { output.append(UInt8(ascii: ",")) }
      output += "{\"bytes\":\(known.bytes),\"path\":".utf8
      JSONValue.appendQuoted(entry.path, to: &output)
      output += ",\"role\":\"\(entry.role.rawValue)\",\"sha256\":\"\(known.digest)\"}".utf8
    }
    output.append(UInt8(ascii: "]"))
    return output
  }

  /// A digest of every file's path, size, time of change and inode: equal as long as nobody touched the take.
  package func stamp() throws -> Digest {
    let hasher = SHA256()
    for (index, entry) in entries.enumerated() {
      let stamp = try stamp(of: index)
      hasher.update(Array("\(entry.path)\0\(stamp)\n".utf8))
    }
    return hasher.finish()
  }

  /// Size, time and inode of one file.
  func stamp(of index: Int) throws -> FileStamp {
    do {
      return try FileStamp.of(fullPath(index))
    } catch let error as FileError {
      throw TakeFailure("unreadable", "cannot \(error.action): \(error.reason)", file: entries[index].path)
    } catch var failure as TakeFailure {
      failure.file = entries[index].path
      throw failure
    }
  }
}
