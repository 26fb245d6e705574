import Evidence
import Foundation

/// The regular files below a folder, or one file, as they were when they were listed.
struct FileTree: Sendable {
  struct File: Sendable, Equatable {
    /// Relative to the root, `/`-separated; empty where the root is the file.
    var path: String
    var bytes: Int64
    /// Nanoseconds since 1970.
    var modifiedAt: Int64
  }

  /// A tree that cannot be sent as it is.
  struct Problem: Error, CustomStringConvertible {
    var description: String
  }

  let root: String
  let isFolder: Bool
  /// The files in bytewise order of their paths.
  let files: [File]

  /// Most files in a folder.
  static let limit = 1_000_000

  /// Lists a path, which may be a link. Throws `Problem` where something cannot be listed, or is neither a file nor a folder: a copy
  /// without it would not be the capture.
  init(_ root: String) throws {
    self.root = root
    guard let status = Self.status(root, followsLinks: true) else { throw Self.problem("cannot be read", root) }
    if status.st_mode & S_IFMT == S_IFREG {
      isFolder = false
      files = [Self.file("", status)]
      return
    }
    guard status.st_mode & S_IFMT == S_IFDIR else { throw Problem(description: "\(root): it is neither a file nor a folder") }
    isFolder = true
    var files: [File] = []
    try Self.list(root, below: "", into: &files)
    self.files = files.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
  }

  /// A digest of all names, lengths and times; another one shows that something was changed.
  var fingerprint: String {
    Digest.of(pieces: files.lazy.map { Array("\($0.path)\0\($0.bytes)\0\($0.modifiedAt)\0".utf8) }).description
  }

  /// Time of the last change, in nanoseconds since 1970.
  var modifiedAt: Int64 { files.map(\.modifiedAt).max() ?? 0 }

  private static func list(_ root: String, below prefix: String, into files: inout [File]) throws {
    let folder = prefix.isEmpty ? root : "\(root)/\(prefix)"
    for name in try names(in: folder) {
      let path = prefix.isEmpty ? name : "\(prefix)/\(name)"
      guard let status = status("\(root)/\(path)", followsLinks: false) else { throw problem("cannot be read", "\(root)/\(path)") }
      switch status.st_mode & S_IFMT {
      case S_IFREG:
        if isClutter(name) { continue }
        files.append(file(path, status))
        guard files.count <= limit else { throw Problem(description: "\(root): it has more than \(limit) files") }
      case S_IFDIR: try list(root, below: path, into: &files)
      case S_IFLNK:
        throw Problem(description: "\(root)/\(path): it is a link, which is not followed; put the file in its place")
      default: throw Problem(description: "\(root)/\(path): it is neither a file nor a folder")
      }
    }
  }

  /// Files that desktops leave in folders.
  private static func isClutter(_ name: String) -> Bool { name == ".DS_Store" || name == "Thumbs.db" || name.hasPrefix("._") }

  /// The names in a folder, unsorted. Throws `Problem` for one that is not UTF-8, unless those are skipped.
  static func names(in folder: String, skipsOthers: Bool = false) throws -> [String] {
    guard let stream = opendir(folder) else { throw problem("cannot be listed", folder) }
    defer { closedir(stream) }
    var names: [String] = []
    errno = 0
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(validating: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if let name {
        if name != ".", name != ".." { names.append(name) }
      } else if !skipsOthers {
        throw Problem(description: "\(folder): it holds a file whose name is not UTF-8")
      }
      errno = 0
    }
    guard errno == 0 else { throw problem("cannot be listed", folder) }
    return names
  }

  static func status(_ path: String, followsLinks: Bool) -> stat? {
    var status = stat()
    return (followsLinks ? stat(path, &status) : lstat(path, &status)) == 0 ? status : nil
  }

  private static func file(_ path: String, _ status: stat) -> File {
    File(path: path, bytes: Int64(status.st_size), modifiedAt: nanoseconds(status))
  }

  static func nanoseconds(_ status: stat) -> Int64 {
    Int64(status.st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000).partialValue &+ Int64(status.st_mtim.tv_nsec)
  }

  private static func problem(_ what: String, _ path: String) -> Problem {
    Problem(description: "\(path): it \(what): \(String(cString: strerror(errno)))")
  }
}
