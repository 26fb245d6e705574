/// Text of a page. What is interpolated into a literal is escaped, so that no name or message of a take can become markup.
struct Markup: ExpressibleByStringInterpolation {
  private(set) var text: String

  init(stringLiteral value: String) { text = value }
  init(stringInterpolation: Interpolation) { text = stringInterpolation.text }

  /// Text that is markup already: the page's own style sheet and script.
  init(verbatim text: String) { self.text = text }

  static func += (markup: inout Markup, more: Markup) { markup.text += more.text }

  struct Interpolation: StringInterpolationProtocol {
    fileprivate var text = ""

    init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

    mutating func appendLiteral(_ literal: String) { text += literal }
    mutating func appendInterpolation(_ value: String) { text += Markup.escaped(value) }
    mutating func appendInterpolation(_ value: Int) { text += String(value) }
    mutating func appendInterpolation(_ markup: Markup) { text += markup.text }
  }

  /// Text in which no character is markup, within elements and quoted attributes. Control characters, which HTML does not allow, become
  /// the replacement character.
  static func escaped(_ text: String) -> String {
    var output = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": output += "&amp;"
      case "<": output += "&lt;"
      case ">": output += "&gt;"
      case "\"": output += "&quot;"
      case "'": output += "&#39;"
      case "\t", "\n": output.unicodeScalars.append(scalar)
      case "\u{0}"..<"\u{20}", "\u{7F}"..<"\u{A0}": output += "\u{FFFD}"
      default: output.unicodeScalars.append(scalar)
      }
    }
    return output
  }
}

extension [Markup] {
  func joined() -> Markup { reduce(into: "") { $0 += $1 } }
}
