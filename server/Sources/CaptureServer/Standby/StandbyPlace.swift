import Foundation
import NIOPosix

/// The place of the database's copies: small files in a folder, or objects of an S3-compatible server. Names have one slash.
enum StandbyPlace: Sendable {
  case folder(String)
  case bucket(S3Client)

  /// Throws `Mistake` where it cannot be used.
  init(_ text: String) async throws {
    if S3Location.isAddress(text) {
      let client = try S3Client(S3Location(text))
      try await client.check()
      self = .bucket(client)
    } else {
      try DurableFile.makeFolders(text)
      self = .folder(text)
    }
  }

  /// Most bytes in a file.
  static let pieceSize: Int64 = 8 << 20

  /// A file that is there, whole, when it returns.
  func write(_ bytes: Data, as name: String) async throws {
    switch self {
    case .bucket(let client): _ = try await client.put(name) { bytes }
    case .folder(let root):
      try await NIOThreadPool.singleton.runIfActive {
        let path = root + "/" + name
        let folder = (path as NSString).deletingLastPathComponent
        try DurableFile.makeFolders(folder)
        let descriptor = open(path + ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o640)
        guard descriptor >= 0 else { throw DurableFile.failure("create", path) }
        defer { close(descriptor) }
        try bytes.withUnsafeBytes { try DurableFile.write($0, to: descriptor, path) }
        guard fsync(descriptor) == 0 else { throw DurableFile.failure("sync", path) }
        try DurableFile.rename(path + ".new", to: path)
        try DurableFile.syncFolder(folder)
      }
    }
  }

  func read(_ name: String) async throws -> Data {
    switch self {
    case .bucket(let client): return try await client.send("GET", name).body
    case .folder(let root):
      guard let data = FileManager.default.contents(atPath: root + "/" + name) else { throw DurableFile.failure("read", root + "/" + name) }
      return data
    }
  }

  /// Returns the time at which a file was written; `nil` where that is not known.
  func time(of name: String) async throws -> Date? {
    switch self {
    case .bucket(let client):
      let words = DateFormatter()
      (words.locale, words.timeZone, words.dateFormat) = (Locale(identifier: "en_US_POSIX"), .gmt, "EEE, dd MMM yyyy HH:mm:ss zzz")
      return try await client.send("HEAD", name).headers["last-modified"].flatMap { words.date(from: $0) }
    case .folder(let root):
      return try FileManager.default.attributesOfItem(atPath: root + "/" + name)[.modificationDate] as? Date
    }
  }

  /// The names of all files, sorted.
  func names() async throws -> [String] {
    switch self {
    case .bucket(let client): return try await client.list("").filter { $0.hasPrefix(Generation.prefix) }.sorted()
    case .folder(let root):
      return try FileManager.default.contentsOfDirectory(atPath: root).filter { $0.hasPrefix(Generation.prefix) }.flatMap { folder in
        try FileManager.default.contentsOfDirectory(atPath: root + "/" + folder).filter { !$0.hasSuffix(".new") }.map { folder + "/" + $0 }
      }.sorted()
    }
  }

  func remove(_ names: [String]) async throws {
    for name in names {
      switch self {
      case .bucket(let client): try await client.send("DELETE", name)
      case .folder(let root): unlink(root + "/" + name)
      }
    }
    if case .folder(let root) = self { for folder in Set(names.map(Generation.init(of:))) { rmdir(root + "/" + folder.name) } }
  }
}

/// A copy of the database, in pieces, and of the log from then on: `generation-N-TIME/snapshot-OFFSET`, `…/wal-OFFSET`, and
/// `…/snapshot.json` once all pieces of the database are there.
struct Generation: Hashable {
  static let prefix = "generation-"
  let name: String

  init(number: Int, at time: Date) {
    let stamp = time.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
    name = Self.prefix + String(format: "%09d", number) + "-" + stamp
  }

  /// Makes the generation of a file.
  init(of file: String) { name = String(file.prefix { $0 != "/" }) }

  /// Generations are numbered; a higher number is a later one.
  var number: Int { Int(name.dropFirst(Self.prefix.count).prefix { $0 != "-" }) ?? 0 }

  struct Description: Codable {
    /// `application_id` of the database.
    var database: Int
    var bytes: Int64
    var sha256: String
    /// Version of the server that made it.
    var version: String
    var time: String
  }
  var description: String { name + "/snapshot.json" }

  /// The generations whose database is there as a whole, oldest first.
  static func complete(among names: [String]) -> [Generation] {
    names.filter { $0.hasSuffix("/snapshot.json") }.map(Generation.init(of:)).sorted { $0.number < $1.number }
  }

  func piece(_ kind: Kind, at offset: Int64) -> String { "\(name)/\(kind.rawValue)-" + String(format: "%015lld", offset) }

  enum Kind: String { case snapshot, wal }

  /// The pieces of a kind among all names, by their offsets.
  func pieces(_ kind: Kind, among names: [String]) -> [(name: String, offset: Int64)] {
    let start = "\(name)/\(kind.rawValue)-"
    return names.filter { $0.hasPrefix(start) }.compactMap { name in Int64(name.dropFirst(start.count)).map { (name, $0) } }
      .sorted { $0.1 < $1.1 }
  }
}
