import Model

/// A JSON document in memory, for small documents: metadata, options, a take's record.
public enum JSONValue: Hashable, Sendable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  public subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { members[key] } else { nil }
  }

  public var string: String? { if case .string(let value) = self { value } else { nil } }
  public var integer: Int64? {
    switch self {
    case .integer(let value): value
    case .number(let value): Int64(exactly: value)
    default: nil
    }
  }
  public var double: Double? {
    switch self {
    case .integer(let value): Double(value)
    case .number(let value): value
    default: nil
    }
  }
  public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
  public var array: [JSONValue]? { if case .array(let value) = self { value } else { nil } }
  public var object: [String: JSONValue]? { if case .object(let value) = self { value } else { nil } }

  /// Type of the value in words, without the value.
  package var type: String {
    switch self {
    case .null: "null"
    case .bool: "true or false"
    case .integer, .number: "a number"
    case .string: "text"
    case .array: "a list"
    case .object: "an object"
    }
  }

  /// Type and value in words, for messages: `the number 5`, `the text "abc"`.
  package var kind: String {
    switch self {
    case .null: "null"
    case .bool(let value): "\(value)"
    case .integer(let value): "the number \(value)"
    case .number(let value): "the number \(value)"
    case .string(let value): "the text \"\(value)\""
    case .array: "a list"
    case .object: "an object"
    }
  }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral, ExpressibleByNilLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(integerLiteral value: Int64) { self = .integer(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(nilLiteral: ()) { self = .null }
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(Dictionary(elements) { _, last in last })
  }
  package init(_ value: Int) { self = .integer(Int64(value)) }
  package init(_ value: String?) { self = value.map { .string($0) } ?? .null }
}

// MARK: - Canonical form

extension JSONValue {
  /// The only serialization of RFC 8785: members sorted by UTF-16 units, no white space, numbers as ECMAScript prints them.
  package var canonicalBytes: [UInt8] {
    var output: [UInt8] = []
    appendCanonical(to: &output)
    return output
  }

  package var canonicalText: String { String(decoding: canonicalBytes, as: UTF8.self) }

  /// Appends the value in the canonical form of RFC 8785: members sorted, no white space, numbers as ECMAScript writes them.
  package func appendCanonical(to output: inout [UInt8]) {
    switch self {
    case .null: output += "null".utf8
    case .bool(let value): output += (value ? "true" : "false").utf8
    case .integer(let value): output += String(value).utf8
    case .number(let value): output += Self.ecmaScript(value).utf8
    case .string(let value): Self.appendQuoted(value, to: &output)
    case .array(let elements):
      output.append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        element.appendCanonical(to: &output)
      }
      output.append(UInt8(ascii: "]"))
    case .object(let members): Self.appendObject(members.keys, to: &output) { members[$0]?.appendCanonical(to: &$1) }
    }
  }

  /// Appends an object whose members `appendMember` writes, key by key: for contents that are too long to hold as values.
  package static func appendObject(_ keys: some Sequence<String>, to output: inout [UInt8], _ appendMember: (String, inout [UInt8]) -> Void)
  {
    output.append(UInt8(ascii: "{"))
    let keys = keys.sorted { $0.utf16.lexicographicallyPrecedes($1.utf16) }
    for (index, key) in keys.enumerated() {
      if index > 0 { output.append(UInt8(ascii: ",")) }
      appendQuoted(key, to: &output)
      output.append(UInt8(ascii: ":"))
      appendMember(key, &output)
    }
    output.append(UInt8(ascii: "}"))
  }

  /// RFC 8785, section 3.2.2.2: the two-character escapes, \u00xx for other controls, everything else unchanged.
  package static func appendQuoted(_ text: String, to output: inout [UInt8]) {
    output.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""): output += "\\\"".utf8
      case UInt8(ascii: "\\"): output += "\\\\".utf8
      case 0x08: output += "\\b".utf8
      case 0x09: output += "\\t".utf8
      case 0x0A: output += "\\n".utf8
      case 0x0C: output += "\\f".utf8
      case 0x0D: output += "\\r".utf8
      case 0..<0x20:
        output += "\\u\(byte.padded(to: 4, radix: 16))".utf8
      default: output.append(byte)
      }
    }
    output.append(UInt8(ascii: "\""))
  }

  /// A finite double as ECMAScript's Number::toString prints it; others become null, because JSON has none.
  static func ecmaScript(_ value: Double) -> String {
    guard value.isFinite else { return "null" }
    if value == 0 { return "0" }
    // Swift prints the same shortest digits; only the layout of the exponent differs.
    var text = "\(abs(value))"
    var exponent = 0
    if let e = text.firstIndex(where: { $0 == "e" }) {
      exponent = Int(text[text.index(after: e)...]) ?? 0
      text = String(text[..<e])
    }
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    let whole = String(parts[0])
    let fraction = parts.count > 1 && parts[1] != "0" ? String(parts[1]) : ""
    var digits = whole + fraction
    var point = whole.count + exponent  // the decimal point is before digits[point]
    while digits.hasPrefix("0") && digits.count > 1 {
      digits.removeFirst()
      point -= 1
    }
    while digits.hasSuffix("0") && digits.count > 1 { digits.removeLast() }
    let sign = value < 0 ? "-" : ""
    let count = digits.count
    if count <= point, point <= 21 { return sign + digits + String(repeating: "0", count: point - count) }
    if 0 < point, point <= 21 { return sign + digits.prefix(point) + "." + digits.dropFirst(point) }
    if -6 < point, point <= 0 { return sign + "0." + String(repeating: "0", count: -point) + digits }
    let power = point - 1
    let mantissa = count == 1 ? digits : digits.prefix(1) + "." + digits.dropFirst()
    return sign + mantissa + "e" + (power < 0 ? "-" : "+") + "\(abs(power))"
  }
}

// MARK: - Codable

extension JSONValue: Codable {
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let flag = try? container.decode(Bool.self) {
      self = .bool(flag)
    } else if let whole = try? container.decode(Int64.self) {
      self = .integer(whole)
    } else if let number = try? container.decode(Double.self) {
      self = .number(number)
    } else if let text = try? container.decode(String.self) {
      self = .string(text)
    } else if let elements = try? container.decode([JSONValue].self) {
      self = .array(elements)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  /// Encodes the bare value, without the name of its case.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }
}
