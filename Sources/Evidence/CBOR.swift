/// A value in CBOR (RFC 8949), as App Attest writes assertions and attestations: definite lengths, at most 64 members, nested 8 deep.
public enum CBOR: Sendable, Equatable {
  case unsigned(UInt64)
  /// -1 - the number.
  case negative(UInt64)
  case bytes([UInt8])
  case text(String)
  case array([CBOR])
  /// Keys and values in the order in which they are written.
  case map([Member])
  /// A tag is dropped; `false`, `null` and fractions are only skipped.
  case other

  /// One pair of a map. Pairs keep the order of the encoding, and keys may be of any type.
  public struct Member: Sendable, Equatable {
    public var key: CBOR
    public var value: CBOR
  }

  /// An encoding that is damaged, or uses a form that this decoder refuses, with the reason as the end of a sentence.
  public struct Malformed: Error, Equatable, CustomStringConvertible {
    public var description: String
    init(_ description: String) { self.description = description }
  }

  /// Reads the only value of `bytes`. Throws `Malformed`.
  public init(_ bytes: [UInt8]) throws {
    var reader = Reader(rest: bytes[...])
    self = try reader.value(depth: 0)
    guard reader.rest.isEmpty else { throw Malformed("bytes follow the value") }
  }

  /// Reads the value that `bytes` begin with; the rest is dropped. Throws `Malformed`.
  public init(startOf bytes: [UInt8]) throws {
    var reader = Reader(rest: bytes[...])
    self = try reader.value(depth: 0)
  }

  /// The value of a text key; `nil` for values that are no map.
  public subscript(key: String) -> CBOR? { self[.text(key)] }

  /// The value of a whole-number key.
  public subscript(key: Int) -> CBOR? { self[key < 0 ? .negative(UInt64(-1 - key)) : .unsigned(UInt64(key))] }

  private subscript(key: CBOR) -> CBOR? {
    guard case .map(let members) = self else { return nil }
    return members.last { $0.key == key }?.value
  }

  public var byteString: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
  public var string: String? { if case .text(let text) = self { text } else { nil } }
  public var elements: [CBOR]? { if case .array(let elements) = self { elements } else { nil } }
  public var isMap: Bool { if case .map = self { true } else { false } }
  public var integer: Int64? {
    switch self {
    case .unsigned(let number): Int64(exactly: number)
    case .negative(let number): Int64(exactly: number).map { -1 - $0 }
    default: nil
    }
  }

  private struct Reader {
    var rest: ArraySlice<UInt8>

    mutating func value(depth: Int) throws -> CBOR {
      guard depth < 8 else { throw Malformed("nested too deeply") }
      let (type, argument) = try head()
      switch type {
      case 0: return .unsigned(argument)
      case 1: return .negative(argument)
      case 2: return .bytes(Array(try take(argument)))
      case 3:
        guard let text = String(validating: try take(argument), as: UTF8.self) else { throw Malformed("text that is not UTF-8") }
        return .text(text)
      case 4: return .array(try (0..<members(argument)).map { _ in try value(depth: depth + 1) })
      case 5:
        return .map(
          try (0..<members(argument)).map { _ in Member(key: try value(depth: depth + 1), value: try value(depth: depth + 1)) })
      case 6: return try value(depth: depth + 1)
      default: return .other
      }
    }

    private func members(_ count: UInt64) throws -> Int {
      guard count <= 64 else { throw Malformed("more than 64 members") }
      return Int(count)
    }

    private mutating func take(_ count: UInt64) throws -> ArraySlice<UInt8> {
      guard count <= UInt64(rest.count) else { throw Malformed("it ends within a value") }
      defer { rest = rest.dropFirst(Int(count)) }
      return rest.prefix(Int(count))
    }

    /// Major type and argument of the next value.
    private mutating func head() throws -> (type: UInt8, argument: UInt64) {
      guard let first = rest.popFirst() else { throw Malformed("it ends too early") }
      let (type, short) = (first >> 5, first & 31)
      guard short >= 24 else { return (type, UInt64(short)) }
      guard short <= 27 else { throw Malformed("a value without a length") }
      return (type, try take(1 << UInt64(short - 24)).reduce(0) { $0 << 8 | UInt64($1) })
    }
  }
}
