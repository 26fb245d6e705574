/// Names in the order of people: numbers in them count as numbers.
struct NaturalName: Comparable {
  private enum Part: Equatable {
    case text([UInt8])
    /// Digits without leading zeros.
    case number([UInt8])
  }

  private let parts: [Part]
  private let name: String

  init(_ name: String) {
    self.name = name
    var parts: [Part] = []
    var rest = Array(name.utf8)[...]
    while let first = rest.first {
      let isDigit = (48...57).contains(first)
      let run = rest.prefix { (48...57).contains($0) == isDigit }
      parts.append(isDigit ? .number(Array(run.drop { $0 == 48 })) : .text(Array(run)))
      rest = rest.dropFirst(run.count)
    }
    self.parts = parts
  }

  static func < (a: NaturalName, b: NaturalName) -> Bool {
    for (one, other) in zip(a.parts, b.parts) where one != other {
      switch (one, other) {
      case (.number(let x), .number(let y)): return x.count != y.count ? x.count < y.count : x.lexicographicallyPrecedes(y)
      case (.text(let x), .text(let y)): return x.lexicographicallyPrecedes(y)
      case (.number, .text): return true
      case (.text, .number): return false
      }
    }
    return a.parts.count != b.parts.count ? a.parts.count < b.parts.count : a.name.utf8.lexicographicallyPrecedes(b.name.utf8)
  }
}
