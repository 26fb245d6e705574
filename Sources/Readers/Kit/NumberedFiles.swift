import Model
import Steps

/// Files named by a frame number: `rgb/000017.jpg`.
package enum NumberedFiles {
  /// The entries of a role, by the number in their names.
  ///
  /// - Parameter isPadded: Whether names have `digits` digits or more; otherwise numbers have no leading zeros.
  static func entries(_ role: TakeInputs.Role, in inputs: TakeInputs, isPadded: Bool = true, digits: Int = 6) -> [Int64: Int] {
    var files: [Int64: Int] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.role == role {
      let name = entry.path.drop { $0 != "/" }.dropFirst()
      if let number = isPadded ? number(in: name, digits: digits) : plainNumber(in: name) { files[number] = index }
    }
    return files
  }

  /// Whether a path is a numbered file with this extension in a folder.
  static func matches(_ path: String, folder: String, ending: String, digits: Int = 6) -> Bool {
    path.hasPrefix(folder + "/") && path.hasSuffix(ending) && number(in: path.dropFirst(folder.count + 1), digits: digits) != nil
  }

  /// The number of a file name such as `17.jpg`, without leading zeros; `nil` for other names.
  static func plainNumber(in name: Substring) -> Int64? {
    let digits = name.utf8.prefix { $0 != UInt8(ascii: ".") }
    guard !name.utf8[digits.endIndex...].dropFirst().contains(UInt8(ascii: ".")), (1...18).contains(digits.count),
      digits.allSatisfy({ (48...57).contains($0) }), digits.count == 1 || digits.first != 48
    else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
  }

  /// The number of a file name of six digits or more, zero-padded to six, or to another width; `nil` for other names.
  package static func number(in name: Substring, digits width: Int = 6) -> Int64? {
    let digits = name.utf8.prefix { $0 != UInt8(ascii: ".") }
    // 000003.small.jpg was made by another tool.
    guard !name.utf8[digits.endIndex...].dropFirst().contains(UInt8(ascii: ".")) else { return nil }
    guard (width...18).contains(digits.count), digits.allSatisfy({ (48...57).contains($0) }), digits.count == width || digits.first != 48
    else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
  }
}
