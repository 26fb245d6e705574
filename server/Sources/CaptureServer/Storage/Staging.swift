import Crypto
import Foundation
import NIOCore

/// A folder in which the files of one request arrive. What is not accepted is removed; what a killed server leaves is removed at its start.
struct Staging: Sendable {
  let path: String

  init(in data: DataFolder) throws {
    path = data.staging + "/" + UUID().uuidString.lowercased()
    try DurableFile.makeFolder(path)
  }

  /// A new file in the folder. `name` is ours, never a client's.
  func file(_ name: String) throws -> IncomingFile { try IncomingFile(path: path + "/" + name) }

  /// Writes a small file.
  func write(_ bytes: [UInt8], as name: String) async throws -> CaptureFile {
    let file = try file(name)
    try await file.append(ByteBuffer(bytes: bytes))
    return CaptureFile(capture: "", name: name, bytes: Int64(bytes.count), sha256: Hex.text(try await file.finish()))
  }

  func discard() { DurableFile.removeFolder(path) }
}

enum Hex {
  static func text(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}

/// The folders of `--data`. One server at a time uses them.
struct DataFolder: Sendable {
  let path: String
  var staging: String { path + "/staging" }
  var captures: String { path + "/captures" }
  var uploads: String { path + "/uploads" }
  /// Datasets of single captures, while they are made and until they are merged.
  var conversions: String { path + "/conversions" }
  /// The dataset of each project.
  var datasets: String { path + "/datasets" }
  var database: String { path + "/server.sqlite" }

  /// Makes the folders and, for a server that starts, removes what requests of an earlier process left. Throws `Mistake` if another server
  /// runs on them: it would lose what it is about to accept.
  init(_ path: String, isServing: Bool = true) throws {
    // Absolute: conversions run in folders of their own.
    self.path = URL(fileURLWithPath: path).standardizedFileURL.path
    try DurableFile.makeFolders(path)
    if isServing {
      try lock()
      DurableFile.removeFolder(staging)
    }
    for folder in [staging, captures, uploads, conversions, datasets] { try DurableFile.makeFolder(folder) }
    try DurableFile.syncFolder(path)
  }

  /// Takes the lock of the running server, which the system frees when this process ends, however it does.
  private func lock() throws {
    let file = path + "/server.lock"
    let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o640)
    guard descriptor >= 0 else { throw DurableFile.failure("open", file) }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      close(descriptor)
      throw Mistake("--data \(path): another server uses it")
    }
  }

  /// Whether a server runs on a data folder.
  static func isInUse(_ path: String) -> Bool {
    let descriptor = open(path + "/server.lock", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
  }

  /// Free bytes for us.
  var freeBytes: Int64 { DurableFile.freeBytes(path) }
}
