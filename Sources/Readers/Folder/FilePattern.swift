import Model
import Steps

/// Files of a folder by their names: `rgb/*.png`. `*` stands for any part of the name, `?` for one character.
struct FilePattern: Equatable {
  /// The folder, relative to the take; empty for its own.
  let folder: String
  private let name: [Character]
  let text: String

  /// Throws `PipelineFileError` for a path out of the take, and for one with wildcards in a folder.
  init(_ text: String, at path: String) throws {
    try Self.check(text, path)
    folder = PathParts.folder(of: text)
    name = Array(PathParts.name(of: text))
    self.text = text
    if folder.contains(where: { "*?".contains($0) }) {
      throw PipelineFileError(path, "* and ? stand for parts of a file's name, not of its folders; found \"\(text)\"")
    }
  }

  private static let longest = 1024, deepest = 32

  /// Throws `PipelineFileError` unless the text is the path of a file in the take.
  static func check(_ text: String, _ path: String) throws {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard text.utf8.count <= longest, parts.count <= deepest, !text.contains("\\"), !text.contains("\0"),
      parts.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." })
    else {
      throw PipelineFileError(path, "expected a path in the folder of the take, such as rgb/*.png, found \"\(text.prefix(100))\"")
    }
  }

  func matches(_ path: String) -> Bool {
    guard PathParts.folder(of: path) == folder else { return false }
    let last = PathParts.name(of: path)
    // Some systems put hidden files beside others: ._000017.png.
    if last.hasPrefix("."), name.first != "." { return false }
    // The last star takes as little as it can, and one character more each time that the rest does not match.
    let letters = Array(last)
    var (place, next) = (0, 0)
    var star: (place: Int, next: Int)?
    while next < letters.count {
      if place < name.count, name[place] == "*" {
        star = (place, next)
        place += 1
      } else if place < name.count, name[place] == "?" || name[place] == letters[next] {
        (place, next) = (place + 1, next + 1)
      } else if let last = star {
        star = (last.place, last.next + 1)
        (place, next) = (last.place + 1, last.next + 1)
      } else {
        return false
      }
    }
    return name[place...].allSatisfy { $0 == "*" }
  }
}

/// The parts of a path with slashes.
enum PathParts {
  /// `rgb` for `rgb/1.png`; empty for a file at the top.
  static func folder(of path: String) -> String { path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "" }
  /// `1.png` for `rgb/1.png`.
  static func name(of path: String) -> String { path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path }
  /// `1` for `1.png`.
  static func stem(of name: String) -> String { name.lastIndex(of: ".").map { String(name[..<$0]) } ?? name }
}
