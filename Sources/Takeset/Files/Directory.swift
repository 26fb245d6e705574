import Foundation

/// The names in a directory.
package enum Directory {
  package struct Member: Sendable, Equatable {
    package var name: String
    package var kind: Kind
  }
  package enum Kind: Sendable { case file, directory, link, other }

  /// The members in bytewise order of their names, links not followed; names that are not UTF-8 are left out.
  package static func members(of path: String) throws -> [Member] {
    guard let handle = opendir(path) else { throw FileError("list", path) }
    defer { closedir(handle) }
    var members: [Member] = []
    while let entry = readdir(handle) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) {
        String(validating: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard let name, name != ".", name != ".." else { continue }
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

  /// What stands at a path, links not followed; `nil` for nothing.
  package static func existingKind(of path: String) -> Kind? {
    var status = stat()
    return lstat(path, &status) == 0 ? kind(mode: status.st_mode) : nil
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
