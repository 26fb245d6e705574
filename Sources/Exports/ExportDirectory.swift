import Datasets
package import Evidence
import Foundation
import Model
import Steps
import Synchronization

/// The directory of an export while it is written: under a temporary name next to its own, so that the name holds a complete export or
/// nothing. Any thread may write files.
///
///     try directory.write(text, to: "take-1/transforms.json")
///     directory.lose("Confidence is not in the export.")
package final class ExportDirectory: Sendable {
  /// The size of an export, and what it could not represent.
  package struct Summary: Sendable {
    package var files: Int
    package var bytes: Int64
    package var lost: [String]
  }

  /// Name of the file that says what was exported.
  package static let record = "takeset-export.json"

  /// Path of the directory that files are written to, until it is complete.
  package let path: String
  package let threads: Int
  private let staged: StagedDirectory
  private let isCancelled: @Sendable () -> Bool
  private let state = Mutex(State())

  private struct State {
    var files = 0
    var bytes: Int64 = 0
    var lost: [String] = []
    var notes: [String: JSONValue] = [:]
    var folders: Set<String> = [""]
  }

  /// Throws `OutputExists`, `UsageError` for a place inside the dataset, `OutputFailure`.
  init(_ given: String, of dataset: Dataset, threads: Int, replacing: Bool, isCancelled: @escaping @Sendable () -> Bool = { false }) throws
  {
    (self.threads, self.isCancelled) = (max(1, threads), isCancelled)
    staged = try StagedDirectory(given, apartFrom: [dataset.directory], replacing: replacing ? Self.kind : nil)
    path = staged.path
  }

  /// An export without other files, which a user may have put there.
  private static let kind = StagedDirectory.Kind(name: "an export") { path in
    var bytes: [UInt8] = []
    let isFile = try Directory.kind(at: path + "/" + record) == .file
    if isFile { try InputFile(path + "/" + record).readAll(limit: 64 << 20, into: &bytes) }
    guard isFile, let written = try? JSONReader(bytes).value(), let files = written["files"]?.integer
    else { return "it is not an export of Takeset" }
    let names = try Directory.files(in: path).filter { $0 != record }
    // Earlier versions recorded no names.
    let isOwn = written["names_sha256"].map { $0 == .string(digest(of: names)) } ?? (names.count <= files)
    return isOwn ? nil : "it has files that the export did not write"
  }

  /// `names_sha256` of the record: the digest of the files' paths, sorted bytewise, a line each.
  private static func digest(of names: [String]) -> String {
    Digest.of(pieces: names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.map { Array("\($0)\n".utf8) }).description
  }

  /// Writes a file at a path relative to the directory; makes the folders on the way.
  package func write(_ bytes: [UInt8], to relative: String) throws {
    try writing(relative) { write in try bytes.withUnsafeBytes(write) }
  }

  /// Writes a text as UTF-8, as it is: no line end is added.
  package func write(_ text: String, to relative: String) throws { try write(Array(text.utf8), to: relative) }

  /// Writes a file in pieces: `body` receives a function that appends bytes.
  package func writing(_ relative: String, _ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void) throws {
    let file = try place(relative)
    let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw FileError("create", file) }
    defer { close(descriptor) }
    var bytes: Int64 = 0
    try body { part in
      try checkCancellation()
      try SealedFile.append(part, to: descriptor, path: file)
      bytes += Int64(part.count)
    }
    state.withLock { [bytes] in ($0.files, $0.bytes) = ($0.files + 1, $0.bytes + bytes) }
  }

  /// The path of a file to be written by other means, such as a library; its folder exists. Call `count` when it is written.
  package func place(_ relative: String) throws -> String {
    try checkCancellation()
    let folder = relative.lastIndex(of: "/").map { String(relative[..<$0]) } ?? ""
    try state.withLock { state in
      guard !state.folders.contains(folder) else { return }
      try FileManager.default.createDirectory(atPath: path + "/" + folder, withIntermediateDirectories: true)
      state.folders.insert(folder)
    }
    return path + "/" + relative
  }

  /// Throws `CancellationError` once the command is to stop.
  func checkCancellation() throws { if isCancelled() { throw CancellationError() } }

  /// Counts a file that was written at `place`.
  package func count(_ relative: String) throws {
    let bytes = try FileStamp.of(path + "/" + relative).bytes
    state.withLock { ($0.files, $0.bytes) = ($0.files + 1, $0.bytes + bytes) }
  }

  /// Notes what the format does not hold, as a sentence; the same sentence once.
  package func lose(_ sentence: String) {
    state.withLock { if !$0.lost.contains(sentence) { $0.lost.append(sentence) } }
  }

  /// Adds a member to `takeset-export.json`.
  package func note(_ key: String, _ value: JSONValue) { state.withLock { $0.notes[key] = value } }

  /// Writes the record and puts the directory in place.
  func finish(_ record: [String: JSONValue]) throws -> Summary {
    let done = state.withLock { $0 }
    // The order of threads does not matter to the record.
    let lost = done.lost.sorted()
    var members = record.merging(done.notes) { own, _ in own }
    members["lost"] = .array(lost.map { .string($0) })
    members["files"] = JSONValue(done.files)
    members["bytes"] = .integer(done.bytes)
    members["names_sha256"] = .string(Self.digest(of: try Directory.files(in: path)))
    try SealedFile.write(path + "/" + Self.record) { write in
      try (JSONValue.object(members).canonicalBytes + [0x0A]).withUnsafeBytes(write)
    }
    try checkCancellation()
    try staged.commit()
    return Summary(files: done.files, bytes: done.bytes, lost: lost)
  }

  /// Removes what was written.
  func discard() { staged.discard() }
}

extension ExportDirectory {
  /// Makes a product of each index on the threads of the export, as the function of the same name does.
  func inOrder<Worker, Product: Sendable>(
    _ count: Int, start: @escaping @Sendable () throws -> Worker,
    make: @escaping @Sendable (_ worker: inout Worker, _ index: Int) throws -> Product,
    store: (_ index: Int, _ product: Product) throws -> Void
  ) throws {
    try Steps.inOrder(
      count, threads: threads, start: start,
      make: { [self] worker, index in
        try checkCancellation()
        return try make(&worker, index)
      }, store: store)
  }

  /// Calls `body` for each index on the threads of the export, each with a worker of its own that `start` makes. Throws the error of the
  /// first index that has one.
  func inParallel<Worker>(
    _ count: Int, start: @escaping @Sendable () throws -> Worker,
    _ body: @escaping @Sendable (_ worker: inout Worker, _ index: Int) throws -> Void
  ) throws {
    try Steps.inOrder(
      count, threads: threads, waiting: count, start: start,
      make: { [self] worker, index in
        try checkCancellation()
        try body(&worker, index)
      }, store: { _, _ in })
  }
}
