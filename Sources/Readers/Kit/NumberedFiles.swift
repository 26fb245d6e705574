import Model
import Steps

/// Files named by a frame number: `rgb/000017.jpg`.
package enum NumberedFiles {
  /// The entries of a role, by the number in their names.
  static func entries(_ role: TakeInputs.Role, in inputs: TakeInputs) -> [Int64: Int] {
    var files: [Int64: Int] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.role == role {
      if let number = number(in: entry.path.drop { $0 != "/" }.dropFirst()) { files[number] = index }
    }
    return files
  }

  /// Whether a path is a numbered file with this extension in a folder.
  static func matches(_ path: String, folder: String, ending: String) -> Bool {
    path.hasPrefix(folder + "/") && path.hasSuffix(ending) && number(in: path.dropFirst(folder.count + 1)) != nil
  }

  /// The number of a file name of six digits or more, zero-padded to six; `nil` for other names.
  package static func number(in name: Substring) -> Int64? {
    let digits = name.utf8.prefix { $0 != UInt8(ascii: ".") }
    // 000003.small.jpg was made by another tool.
    guard !name.utf8[digits.endIndex...].dropFirst().contains(UInt8(ascii: ".")) else { return nil }
    guard (6...18).contains(digits.count), digits.allSatisfy({ (48...57).contains($0) }), digits.count == 6 || digits.first != 48
    else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
  }
}
