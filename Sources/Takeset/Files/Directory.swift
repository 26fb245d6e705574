import Foundation

/// The names in a directory.
package enum Directory {
  package struct Member: Sendable, Equatable {
    package var name: String
    package var kind: Kind
  }
  package enum Kind: Sendable {
    case file, directory, link, other
    /// Its name is not UTF-8; what is given for it is a likeness.
    case unnameable
  }

  /// The members in bytewise order of their names, links not followed.
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
        case Int(DT_UNKNOWN): Self.kind(of: path + "/" + name)
        default: .other
        }
      members.append(Member(name: name, kind: kind))
    }
    return members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }

  /// What stands at a path; `nil` for nothing.
  package static func existingKind(of path: String, followingLinks: Bool = false) -> Kind? {
    var status = stat()
    return (followingLinks ? stat(path, &status) : lstat(path, &status)) == 0 ? kind(mode: status.st_mode) : nil
  }

  private static func kind(of path: String) -> Kind { existingKind(of: path) ?? .other }

  private static func kind(mode: mode_t) -> Kind {
    switch mode & S_IFMT {
    case S_IFREG: .file
    case S_IFDIR: .directory
    case S_IFLNK: .link
    default: .other
    }
  }
}
