import Foundation
import Steps

/// The numbers in the names of files that are alike but for them: `color_000017_1718000000.25.png` has a count and a time.
struct NameNumbers {
  /// Decimal numbers as they are written, without leading zeros, for each name, at the places where they differ between names.
  private let columns: [[String]]

  /// `nil` where the names differ in more than their numbers, or have none that differ.
  init?(_ names: [String]) {
    if names.isEmpty { return nil }
    var skeleton: [String]?
    var all: [[String]] = []
    for name in names {
      let (text, numbers) = Self.split(name)
      if skeleton == nil { skeleton = text }
      guard text == skeleton else { return nil }
      all.append(numbers)
    }
    let places = (0..<all[0].count).filter { place in names.count == 1 || all.contains { $0[place] != all[0][place] } }
    columns = places.map { place in all.map { $0[place] } }
    if columns.isEmpty { return nil }
  }

  /// The texts around the numbers of a name without its ending, and the numbers.
  private static func split(_ name: String) -> (text: [String], numbers: [String]) {
    let stem = Array(PathParts.stem(of: name).utf8)
    var (text, numbers, place): ([String], [String], Int) = ([], [], 0)
    var letters: [UInt8] = []
    func isDigit(_ place: Int) -> Bool { place < stem.count && (48...57).contains(stem[place]) }
    while place < stem.count {
      guard isDigit(place) else {
        letters.append(stem[place])
        place += 1
        continue
      }
      var digits: [UInt8] = []
      while isDigit(place) { (digits, place) = (digits + [stem[place]], place + 1) }
      var number = String(decoding: digits, as: UTF8.self).drop { $0 == "0" }
      if number.isEmpty { number = "0" }
      if place < stem.count, stem[place] == UInt8(ascii: "."), isDigit(place + 1) {
        var fraction: [UInt8] = []
        place += 1
        while isDigit(place) { (fraction, place) = (fraction + [stem[place]], place + 1) }
        number += "." + String(decoding: fraction, as: UTF8.self)
      }
      text.append(String(decoding: letters, as: UTF8.self))
      letters = []
      numbers.append(String(number))
    }
    return (text + [String(decoding: letters, as: UTF8.self)], numbers)
  }

  /// The times of the names, where their numbers do not count files: 000017 is no time that a table would have for it.
  var exactTimes: [String]? { times.flatMap { Self.isCount($0) ? nil : $0 } }

  /// Whether numbers count files, of which some may be missing.
  private static func isCount(_ column: [String]) -> Bool {
    let numbers = column.compactMap { $0.utf8.count < 16 ? Int64($0) : nil }.sorted()
    guard numbers.count == column.count, let first = numbers.first, let last = numbers.last else { return false }
    return zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 } && last - first < 4 * Int64(numbers.count) + 8
  }

  /// The count of each file; `nil` where no number, or more than one, counts them.
  var counts: [Int64]? {
    let counting = columns.filter(Self.isCount)
    return counting.count == 1 ? counting[0].compactMap { Int64($0) } : nil
  }

  /// The number of each name that is a time: the only one that differs, or the only one that does not count. `nil` where several could be.
  var times: [String]? {
    if columns.count == 1 { return columns[0] }
    let others = columns.filter { !Self.isCount($0) }
    return others.count == 1 ? others[0] : nil
  }
}
