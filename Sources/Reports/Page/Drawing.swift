import Evidence
import Foundation
import Model

/// Lines, areas and words in a box, in CSS pixels, from which the page's script makes an SVG image.
///
/// Styles are names of classes, so that the colors are those of the page, light or dark.
struct Drawing: Sendable, Equatable {
  enum Style: String, Sendable {
    case axis, grid, curve, other, bridge, bar, zero, present, gap, mark, start, end
  }

  struct Line: Sendable, Equatable {
    var style: Style
    var path: PathData
  }

  struct Label: Sendable, Equatable {
    enum Anchor: String, Sendable { case start, middle, end }

    var x: Double
    /// Vertical position of the baseline.
    var y: Double
    var text: String
    var anchor: Anchor
  }

  let width: Double
  let height: Double
  /// The content in words, for readers who do not see it.
  let title: String
  private(set) var lines: [Line] = []
  private(set) var labels: [Label] = []

  init(width: Double, height: Double, title: String) { (self.width, self.height, self.title) = (width, height, title) }

  /// Adds a path, unless it is empty.
  mutating func add(_ style: Style, _ path: PathData) {
    if !path.isEmpty { lines.append(Line(style: style, path: path)) }
  }

  mutating func write(_ text: String, at x: Double, _ y: Double, _ anchor: Label.Anchor = .start) {
    labels.append(Label(x: x, y: y, text: text, anchor: anchor))
  }

  /// The same image without the script.
  var markup: Markup {
    func pixels(_ number: Double) -> String { String(format: "%g", (number * 10).rounded() / 10) }
    let paths = lines.map { line -> Markup in "<path class=\"\(line.style.rawValue)\" d=\"\(line.path.text)\"/>" }
    let texts = labels.map { label -> Markup in
      "<text x=\"\(pixels(label.x))\" y=\"\(pixels(label.y))\" text-anchor=\"\(label.anchor.rawValue)\">\(label.text)</text>"
    }
    return
      "<svg class=\"drawing\" viewBox=\"0 0 \(pixels(width)) \(pixels(height))\" width=\"\(pixels(width))\" height=\"\(pixels(height))\" role=\"img\" aria-label=\"\(title)\">\(paths.joined())\(texts.joined())</svg>"
  }

  var json: JSONValue {
    [
      "w": .number(width), "h": .number(height), "title": .string(title),
      "lines": .array(lines.map { [.string($0.style.rawValue), .string($0.path.text)] }),
      "labels": .array(
        labels.map {
          [.number(($0.x * 10).rounded() / 10), .number(($0.y * 10).rounded() / 10), .string($0.text), .string($0.anchor.rawValue)]
        }),
    ]
  }
}

/// The `d` of an SVG path (SVG 2, section 9.3), in tenths of a pixel, with relative lines, which are shortest.
struct PathData: Sendable, Equatable {
  private(set) var text = ""
  /// The current point, in tenths, so that rounding does not add up.
  private var x = 0, y = 0

  init() {}

  var isEmpty: Bool { text.isEmpty }

  mutating func move(to point: SIMD2<Double>) {
    (x, y) = (Self.tenths(point.x), Self.tenths(point.y))
    text += "M" + Self.number(x) + Self.separated(y)
  }

  mutating func line(to point: SIMD2<Double>) {
    let (newX, newY) = (Self.tenths(point.x), Self.tenths(point.y))
    if newY == y {
      if newX == x { return }
      text += "h" + Self.number(newX - x)
    } else if newX == x {
      text += "v" + Self.number(newY - y)
    } else {
      text += "l" + Self.number(newX - x) + Self.separated(newY - y)
    }
    (x, y) = (newX, newY)
  }

  /// Adds a line through the points; a single one becomes a dot.
  mutating func polyline(_ points: [SIMD2<Double>]) {
    guard let first = points.first else { return }
    move(to: first)
    if points.count == 1 { text += "h0" }
    for point in points.dropFirst() { line(to: point) }
  }

  mutating func box(_ left: Double, _ top: Double, _ right: Double, _ bottom: Double) {
    move(to: [left, top])
    line(to: [right, top])
    line(to: [right, bottom])
    line(to: [left, bottom])
    text += "z"
  }

  /// Adds a circle, as two arcs.
  mutating func circle(_ center: SIMD2<Double>, radius: Double) {
    move(to: [center.x - radius, center.y])
    let (r, d) = (Self.number(Self.tenths(radius)), Self.tenths(2 * radius))
    text += "a\(r) \(r) 0 1 0 \(Self.number(d)) 0a\(r) \(r) 0 1 0 \(Self.number(-d)) 0z"
  }

  /// A number of pixels in tenths; what lies far outside of any drawing is moved nearer.
  private static func tenths(_ pixels: Double) -> Int { pixels.isNaN ? 0 : Int((min(max(pixels, -1e5), 1e5) * 10).rounded()) }

  /// `12`, `.5`, `-3.1`.
  private static func number(_ tenths: Int) -> String {
    let (whole, tenth) = abs(tenths).quotientAndRemainder(dividingBy: 10)
    let digits = tenth == 0 ? "\(whole)" : whole == 0 ? ".\(tenth)" : "\(whole).\(tenth)"
    return (tenths < 0 ? "-" : "") + digits
  }

  /// A number after another one: a minus sign separates them.
  private static func separated(_ tenths: Int) -> String { (tenths < 0 ? "" : " ") + number(tenths) }
}

/// A linear scale from values to pixels.
struct Scale {
  let range: ClosedRange<Double>
  private let start: Double
  private let factor: Double

  /// `start`: The pixel of the lowest value. `length`: Pixels to that of the highest; may be negative.
  init(_ range: ClosedRange<Double>, from start: Double, length: Double) {
    (self.range, self.start) = (range, start)
    let span = range.upperBound - range.lowerBound
    factor = span > 0 && span.isFinite ? length / span : 0
  }

  func callAsFunction(_ value: Double) -> Double { start + (value - range.lowerBound) * factor }

  /// Round values in the range, at least `least` apart and no more than `count` of them.
  func ticks(_ count: Int, least: Double = 0) -> [Double] {
    let step = Self.step(range.upperBound - range.lowerBound, count, least: least)
    guard step > 0 else { return [] }
    let first = (range.lowerBound / step).rounded(.up)
    return (0...max(1, count)).map { (first + Double($0)) * step }.filter { $0 <= range.upperBound * (1 + 1e-9) + step * 1e-6 }
  }

  /// The smallest of 1, 2, 5, 10, … times a power of ten that divides a span into no more than `count` steps.
  static func step(_ span: Double, _ count: Int, least: Double = 0) -> Double {
    guard span > 0, span.isFinite, count > 0 else { return 0 }
    let rough = max(span / Double(count), least)
    let power = pow(10, log10(rough).rounded(.down))
    return ([1, 2, 5].first { $0 * power >= rough * (1 - 1e-9) } ?? 10) * power
  }
}

/// Numbers in words, as people read them.
enum Figures {
  /// A number to about three digits: `0.0123`, `1.5`, `240`.
  static func short(_ value: Double) -> String {
    guard value.isFinite else { return "-" }
    if value == 0 { return "0" }
    let digits = max(0, 2 - Int(log10(abs(value)).rounded(.down)))
    guard digits < 9 else { return String(format: "%.2g", value) }
    return trimmed(String(format: "%.\(digits)f", value))
  }

  /// A tick of an axis with this step: as many decimals as the step has.
  static func tick(_ value: Double, step: Double) -> String {
    let digits = step > 0 ? max(0, -Int(log10(step * (1 + 1e-9)).rounded(.down))) : 0
    return trimmed(String(format: "%.\(min(digits, 9))f", value == 0 ? 0 : value))
  }

  private static func trimmed(_ text: String) -> String {
    guard text.contains(".") else { return text }
    let digits = text.reversed().drop { $0 == "0" }.drop { $0 == "." }
    let number = String(digits.reversed())
    return number == "-0" ? "0" : number
  }

  /// `3.2 GB`; decimal units.
  static func bytes(_ count: Int64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"]
    var (value, unit) = (Double(count), 0)
    while value >= 999.5, unit < units.count - 1 { (value, unit) = (value / 1000, unit + 1) }
    return "\(unit == 0 ? "\(count)" : short(value)) \(units[unit])"
  }

  /// `12.3 s`, `4 min 5 s`, `2 h 3 min`.
  static func duration(_ seconds: Double) -> String {
    guard seconds.isFinite else { return "-" }
    if seconds < 99.95 { return short(seconds) + " s" }
    let whole = Int(min(seconds, 1e12).rounded())
    if whole < 3600 { return "\(whole / 60) min \(whole % 60) s" }
    let minutes = Int((min(seconds, 1e12) / 60).rounded())
    return "\((minutes / 60).grouped) h \(minutes % 60) min"
  }
}
