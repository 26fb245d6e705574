import Model
import Steps

/// The files of a capture that paths in `transforms.json` name, and why others name none.
struct TransformsPaths {
  /// Folders of smaller copies of images and depth maps, as nerfstudio's importers make them.
  static let copies: Set<String> = ["images_2", "images_4", "images_8", "depths_2", "depths_4", "depths_8"]
  private static let endings = [".jpg", ".jpeg", ".png"]

  private enum Cause: String, CaseIterable {
    case absent = "that no file has"
    case empty = "that are missing or empty"
    case absolute = "that do not begin at transforms.json"
    case outside = "that lead out of the folder of transforms.json"
    case kind = "of files that are neither JPEG nor PNG"
    case copy = "in folders of smaller copies, which are not read"
    case deep = "in a folder within a folder, where nothing is looked for"
    case letters = "that differ from a file in upper and lower case"
  }

  private let inputs: TakeInputs
  private let lowercased: Set<String>
  private var missing: [Cause: (count: Int, first: String)] = [:]

  init(_ inputs: TakeInputs) {
    self.inputs = inputs
    lowercased = Set(inputs.entries.map { $0.path.lowercased() })
  }

  /// The file of a path, which must be inside the capture; one without an ending has one of those of images. Backslashes, as programs write them on
  /// Windows, separate folders where no file has them in its name.
  mutating func entry(_ path: String, of frame: Int) -> Int? {
    let plain = path.replacing("\\", with: "/")
    for candidate in [path, plain].map(Self.withoutDots) {
      for candidate in [candidate] + Self.endings.map({ candidate + $0 }) {
        if let index = inputs.index(of: candidate), [.image, .depth].contains(inputs.entries[index].role) { return index }
      }
    }
    let cause = cause(Self.withoutDots(plain))
    missing[cause] = (count: (missing[cause]?.count ?? 0) + 1, first: missing[cause]?.first ?? "frames[\(frame)]: \"\(path.prefix(100))\"")
    return nil
  }

  private static func withoutDots(_ path: String) -> String {
    var rest = path[...]
    while rest.hasPrefix("./") { rest = rest.dropFirst(2) }
    return String(rest)
  }

  private func cause(_ path: String) -> Cause {
    let parts = path.split(separator: "/")
    guard let name = parts.last else { return .empty }
    if path.hasPrefix("/") || path.dropFirst().hasPrefix(":") || path.contains("://") { return .absolute }
    if parts.contains("..") { return .outside }
    let ending = name.split(separator: ".", omittingEmptySubsequences: false).dropFirst().last.map { "." + $0.lowercased() }
    if let ending, !Self.endings.contains(ending), ending.dropFirst().contains(where: \.isLetter) { return .kind }
    if Self.copies.contains(String(parts[0])) { return .copy }
    if parts.count > 2 { return .deep }
    return ([""] + Self.endings).contains { lowercased.contains(path.lowercased() + $0) } ? .letters : .absent
  }

  /// The number of paths that name no file, and the reason: in parentheses, for messages. Empty where all name one.
  var causes: String {
    let words = Cause.allCases.compactMap { cause in missing[cause].map { "\($0.count) paths \(cause.rawValue), such as \($0.first)" } }
    return words.isEmpty ? "" : " (\(words.joined(separator: "; ")))"
  }
}
