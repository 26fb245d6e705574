import Foundation

/// The names in a directory, and the kind of item at a path.
package enum Directory {
  /// A name in a directory, with the kind of its item.
  package struct Member: Sendable, Equatable {
    package var name: String
    package var kind: Kind
  }
  /// The kind of an item; `link` only where links are not followed.
  package enum Kind: Sendable {
    case file, directory, link, other
    /// A name that is not UTF-8; it is shown with replacement characters.
    case unnameable
  }

  /// The members in bytewise order of their names; links are not followed.
  package static func members(of path: String) throws -> [Member] {
    guard let handle = opendir(path) else { throw FileError("list", path) }
    defer { closedir(handle) }
    var members: [Member] = []
    while true {
      errno = 0
      guard let entry = readdir(handle) else {
        if errno != 0 { throw FileError("list", path) }
        break
      }
      let bytes = withUnsafeBytes(of: entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
      guard let name = String(validating: bytes, as: UTF8.self) else {
        members.append(Member(name: String(decoding: bytes, as: UTF8.self), kind: .unnameable))
        continue
      }
      guard name != ".", name != ".." else { continue }
      let kind: Kind =
        switch Int(entry.pointee.d_type) {
        case Int(DT_REG): .file
        case Int(DT_DIR): .directory
        case Int(DT_LNK): .link
        case Int(DT_UNKNOWN): try Self.kind(at: path + "/" + name) ?? .other
        default: .other
        }
      members.append(Member(name: name, kind: kind))
    }
    return members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }

  /// Kind of the item at a path; `nil` where absent. Any other error is thrown as `FileError`: a disk that fails to answer does not prove
  /// absence. No other code in this module asks the system whether a file exists.
  package static func kind(at path: String, followingLinks: Bool = false) throws -> Kind? {
    var status = stat()
    if (followingLinks ? stat(path, &status) : lstat(path, &status)) == 0 { return kind(mode: status.st_mode) }
    guard errno == ENOENT || errno == ENOTDIR else { throw FileError("look at", path) }
    return nil
  }

  /// Paths, relative to a directory, of what is in it at any depth and is no directory.
  package static func files(in path: String) throws -> [String] {
    try members(of: path).flatMap { member in
      member.kind == .directory ? try files(in: path + "/" + member.name).map { "\(member.name)/\($0)" } : [member.name]
    }
  }

  /// The item that a path leads to, the same by whichever links: device and inode.
  package struct Identity: Hashable {
    private let device: dev_t
    private let inode: ino_t

    /// `nil` where nothing can be looked at.
    package init?(of path: String) {
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      (device, inode) = (status.st_dev, status.st_ino)
    }
  }

  /// Whether a path leads to the directory that a descriptor has open.
  package static func isOpen(_ descriptor: Int32, at path: String) -> Bool {
    var (open, named) = (stat(), stat())
    guard fstat(descriptor, &open) == 0, lstat(path, &named) == 0 else { return false }
    return open.st_dev == named.st_dev && open.st_ino == named.st_ino
  }

  private static func kind(mode: mode_t) -> Kind {
    switch mode & S_IFMT {
    case S_IFREG: .file
    case S_IFDIR: .directory
    case S_IFLNK: .link
    default: .other
    }
  }

  /// The absolute path, with links resolved as far as it exists.
  package static func absolute(_ given: String) -> String {
    var url = URL(fileURLWithPath: given).standardizedFileURL
    var missing: [String] = []
    while true {
      if let real = realpath(url.path, nil) {
        defer { free(real) }
        let base = String(cString: real)
        return ([base == "/" ? "" : base] + missing.reversed()).joined(separator: "/")
      }
      guard url.path != "/" else { return given }
      missing.append(url.lastPathComponent)
      url = url.deletingLastPathComponent()
    }
  }

  /// Creates a directory and its missing parents.
  package static func create(_ path: String) throws {
    if try kind(at: path) == .directory { return }
    let parent = URL(fileURLWithPath: path).deletingLastPathComponent().path
    if parent != path { try create(parent) }
    if mkdir(path, 0o777) == 0 { return }
    let error = FileError("create", path)
    guard error.code == EEXIST else { throw error }
    switch try kind(at: path) {
    case .directory: return
    case .link:
      throw OutputFailure("cannot write into \(path.onOneLine): it is a symbolic link, and no link is written through", code: error.code)
    default: throw OutputFailure("cannot write into \(path.onOneLine): it is no folder", code: error.code)
    }
  }
}

extension URL {
  /// A name, to be divided at its dot. Given only a path, Foundation asks the system whether it is a directory, and where a relative one is:
  /// two calls, several times for each take.
  package init(name: String) { self.init(fileURLWithPath: "/" + name, isDirectory: false) }
}
