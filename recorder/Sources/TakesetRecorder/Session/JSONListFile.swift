/// A JSON file of a list that grows, and is valid after every write: one write replaces the closing bracket by an entry and a new one.
final class JSONListFile {
  private static let end = Array("\n]\n".utf8)

  private let file: AppendedFile
  private var isEmpty = true

  /// Creates the file with an empty list.
  init(creating path: String) throws {
    file = try AppendedFile(creating: path)
    try file.append(Array("[]\n".utf8))
  }

  var path: String { file.path }
  var descriptor: FileDescriptor { file.descriptor }

  /// Adds an entry: JSON text, indented by two. A write that fails leaves the list as it was.
  func append(_ entry: String) throws {
    // An empty list is `[]`, so its first entry comes after the bracket.
    try file.append(Array((isEmpty ? "\n" : ",\n").utf8) + Array(entry.utf8) + Self.end, over: isEmpty ? Self.end.suffix(2) : Self.end)
    isEmpty = false
  }
}
