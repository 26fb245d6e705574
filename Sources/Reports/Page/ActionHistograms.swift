import Foundation
import Model

/// Histograms of the valid actions of an episode, column by column; those of episodes are merged into those of a dataset.
struct ActionHistograms: Sendable {
  struct Column: Hashable, Sendable {
    /// `relative_position[0]`.
    var name: String
    var unit: String
  }

  /// The meaning of an action; only actions of one meaning are counted together.
  struct Meaning: Hashable, Sendable {
    var columns: [Column]
    var axes: String?
    var rotationLayout: String?
  }

  let meaning: Meaning
  private(set) var columns: [BinnedValues]
  private(set) var episodes = 1

  private static let columnLimit = 32

  /// Reads the actions of an opened episode, which are in memory; `nil` without actions.
  init?(_ episode: Episode, _ rows: inout RowReader) throws {
    guard let spec = episode.derived[.actions]?.spec, (1...Self.columnLimit).contains(spec.elementCount) else { return nil }
    meaning = Meaning(
      columns: Self.columns(of: spec, in: episode), axes: spec.actionFrame?.cameraAxes.rawValue, rotationLayout: spec.rotationLayout)
    var values = [[Float]](repeating: [], count: spec.elementCount)
    for row in 0..<rows.count {
      for (column, value) in try rows.values(of: .actions, at: row).enumerated() { values[column].append(value) }
    }
    columns = values.map { BinnedValues($0) }
  }

  private static func columns(of spec: StreamSpec, in episode: Episode) -> [Column] {
    let limit = 1...spec.elementCount
    guard spec.parts.allSatisfy({ limit.contains($0.columns) }), spec.parts.reduce(0, { $0 + $1.columns }) == spec.elementCount else {
      return (0..<spec.elementCount).map { Column(name: "actions[\($0)]", unit: "") }
    }
    return spec.parts.flatMap { part in
      let unit = episode.derived[.actionPart(part.name)]?.spec.unit ?? ""
      return (0..<part.columns).map { Column(name: part.columns == 1 ? part.name : "\(part.name)[\($0)]", unit: unit) }
    }
  }

  /// Those of a dataset: one for each meaning, that of most episodes first.
  static func merged(_ all: some Sequence<ActionHistograms>) -> [ActionHistograms] {
    var merged: [Meaning: ActionHistograms] = [:]
    for next in all {
      guard var known = merged[next.meaning] else {
        merged[next.meaning] = next
        continue
      }
      for column in known.columns.indices { known.columns[column].merge(next.columns[column]) }
      known.episodes += next.episodes
      merged[next.meaning] = known
    }
    return merged.values.sorted {
      ($1.episodes, $0.meaning.axes ?? "", $0.columns.count) < ($0.episodes, $1.meaning.axes ?? "", $1.columns.count)
    }
  }
}

/// Counts of values in at most 40 bins. Their width is a power of two, so that those of two episodes can be brought to the same bins, and
/// the result does not depend on the order.
struct BinnedValues: Sendable, Equatable {
  private static let binLimit = 40
  /// Bins are 2^exponent wide, and one of them begins at 0.
  private var exponent = -30
  /// Number of the first bin, and the counts from it to the last one: each episode of a report keeps them.
  private var first = 0
  private var counts: [Int] = []
  private(set) var least = Float.infinity
  private(set) var greatest = -Float.infinity

  /// Values that are not finite are not counted.
  init(_ values: [Float]) {
    let finite = values.filter(\.isFinite)
    guard let least = finite.min(), let greatest = finite.max() else { return }
    (self.least, self.greatest) = (least, greatest)
    let magnitude = max(abs(least), abs(greatest))
    // Numbers of bins are then small enough for an integer.
    if magnitude > 0 { exponent = max(exponent, Int(magnitude.exponent) - 40) }
    while bin(of: greatest) - bin(of: least) >= Self.binLimit { exponent += 1 }
    first = bin(of: least)
    counts = [Int](repeating: 0, count: bin(of: greatest) - first + 1)
    for value in finite { counts[bin(of: value) - first] += 1 }
  }

  private func bin(of value: Float) -> Int { Int((Double(value) / width).rounded(.down)) }

  private var width: Double { Double(sign: .plus, exponent: exponent, significand: 1) }

  private var range: Range<Int> { first..<first + counts.count }

  mutating func merge(_ other: BinnedValues) {
    guard !other.counts.isEmpty else { return }
    guard !counts.isEmpty else {
      self = other
      return
    }
    var other = other
    let exponent = max(exponent, other.exponent)
    widen(by: exponent - self.exponent)
    other.widen(by: exponent - other.exponent)
    while max(range.upperBound, other.range.upperBound) - min(first, other.first) > Self.binLimit {
      widen(by: 1)
      other.widen(by: 1)
    }
    let both = min(first, other.first)..<max(range.upperBound, other.range.upperBound)
    counts = both.map { count(in: $0) + other.count(in: $0) }
    first = both.lowerBound
    (least, greatest) = (min(least, other.least), max(greatest, other.greatest))
  }

  private func count(in bin: Int) -> Int { range.contains(bin) ? counts[bin - first] : 0 }

  private mutating func widen(by steps: Int) {
    guard steps > 0 else { return }
    let wide = (range.lowerBound >> steps)...((range.upperBound - 1) >> steps)
    var sums = [Int](repeating: 0, count: wide.count)
    for bin in range { sums[(bin >> steps) - wide.lowerBound] += counts[bin - first] }
    (first, counts) = (wide.lowerBound, sums)
    exponent += steps
  }

  /// `nil` without values.
  var bins: HistogramDrawing.Bins? {
    counts.isEmpty ? nil : HistogramDrawing.Bins(start: Double(first) * width, width: width, counts: counts)
  }
}

extension ActionHistograms {
  /// A small histogram of each column.
  var markup: Markup {
    let figures = zip(meaning.columns, columns).map { column, values -> Markup in
      let unit = column.unit == "1" ? "" : column.unit
      let caption = unit.isEmpty ? column.name : "\(column.name) (\(unit))"
      if let bins = values.bins, let drawing = HistogramDrawing.drawing(column.name, bins, unit: unit) {
        return "<figure><figcaption>\(caption)</figcaption>\(drawing.markup)</figure>"
      }
      let words = values.bins == nil ? "no value" : "\(Figures.short(Double(values.least))) in every row"
      return "<figure><figcaption>\(caption)</figcaption><p class=\"note\">\(words)</p></figure>"
    }
    let facts = [meaning.axes.map { "camera axes \($0)" }, meaning.rotationLayout.map { "rotations by \($0)" }].compactMap(\.self)
    let words = (["Valid actions of \(counted(episodes, "episode"))"] + facts).joined(separator: "; ")
    return "<p class=\"note\">\(words).</p><div class=\"curves\">\(figures.joined())</div>"
  }
}
