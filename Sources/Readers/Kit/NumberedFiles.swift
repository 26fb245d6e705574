import Foundation
import Model
import Steps

/// Files named by a frame number: `rgb/000017.jpg`.
package enum NumberedFiles {
  /// The entries of a role, by the number in their names.
  ///
  /// - Parameter isPadded: Whether names have `digits` digits or more; otherwise numbers have no leading zeros.
  static func entries(_ role: TakeInputs.Role, in inputs: TakeInputs, isPadded: Bool = true, digits: Int = 6) -> [Int64: Int] {
    entries(role, in: inputs, isPadded: isPadded, digits: digits).mapValues { $0[0] }
  }

  /// The entries of images, which may have several endings. If two have one number, `0.jpg` and `0.png`, the one with the more frequent
  /// ending is taken.
  static func images(in inputs: TakeInputs, isPadded: Bool = true, _ notes: FindingCollector) -> [Int64: Int] {
    one(of: entries(.image, in: inputs, isPadded: isPadded), in: inputs, notes)
  }

  /// One of the images of each number, which is noted where there are several.
  static func one(of files: [Int64: [Int]], in inputs: TakeInputs, _ notes: FindingCollector) -> [Int64: Int] {
    func ending(_ entry: Int) -> String { URL(name: inputs.entries[entry].path).pathExtension }
    var counts: [String: Int] = [:]
    for entry in files.values.joined() { counts[ending(entry), default: 0] += 1 }
    var doubled: [String] = []
    let chosen = files.sorted { $0.key < $1.key }.map { number, several in
      // The first of several equally frequent ones.
      let entry = several.dropFirst().reduce(several[0]) { counts[ending($1), default: 0] > counts[ending($0), default: 0] ? $1 : $0 }
      if several.count > 1 { doubled.append(several.map { inputs.entries[$0].path }.joined(separator: " and ")) }
      return (number, entry)
    }
    if let first = doubled.first {
      notes.add(
        .imagesDuplicate, "\(first) have the same number; of such images, the one with the more frequent ending is used",
        count: doubled.count)
    }
    return Dictionary(uniqueKeysWithValues: chosen)
  }

  private static func entries(_ role: TakeInputs.Role, in inputs: TakeInputs, isPadded: Bool, digits: Int = 6) -> [Int64: [Int]] {
    var files: [Int64: [Int]] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.role == role {
      let name = entry.path.drop { $0 != "/" }.dropFirst()
      if let number = isPadded ? number(in: name, digits: digits) : plainNumber(in: name) { files[number, default: []].append(index) }
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
