/// Suggestions for misspelled names.
package enum Spelling {
  /// The likely intended name for a misspelled one: the one that begins or ends with it (`resize` for `resize-image`), or the
  /// nearest by optimal string alignment distance, at most a third of its length and no tie; `nil` when there is none.
  package static func nearest(to word: String, among names: [String]) -> String? {
    guard word.count > 2 else { return nil }
    let extended = names.filter { $0.hasPrefix(word + "-") || $0.hasSuffix("-" + word) }
    if extended.count == 1 { return extended[0] }
    let ranked = names.map { (distance(Array(word.lowercased()), Array($0)), $0) }.sorted { $0 < $1 }
    guard let (best, name) = ranked.first, best <= max(1, name.count / 3) else { return nil }
    return ranked.dropFirst().first?.0 == best ? nil : name
  }

  /// `; did you mean NAME?` for the end of a sentence, or nothing.
  package static func hint(for word: String, among names: [String], inQuotes: Bool = false) -> String {
    nearest(to: word, among: names).map { inQuotes ? "; did you mean \"\($0)\"?" : "; did you mean \($0)?" } ?? ""
  }

  /// The least number of insertions, deletions, substitutions and swaps of adjacent letters that change one word into the other.
  static func distance(_ a: [Character], _ b: [Character]) -> Int {
    guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
    var rows = [Array(0...b.count)]
    for i in 1...a.count {
      var row = [i]
      for j in 1...b.count {
        var least = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
        if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { least = min(least, rows[i - 2][j - 2] + 1) }
        row.append(least)
      }
      rows.append(row)
    }
    return rows[a.count][b.count]
  }
}
