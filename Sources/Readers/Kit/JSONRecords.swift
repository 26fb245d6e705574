import Evidence
import Model
import Steps

/// One object of a list in a JSON file. Errors carry its path in the file: `[412].timestamp`.
struct JSONRecord {
  let reader: JSONReader
  let index: Int
  /// Number of keys that are compared.
  private static let keys = 64

  /// Lets `body` read the objects of a list one by one, to the end of the file. Throws `TakeFailure`.
  ///
  /// - Parameter what: Name of the objects, for messages: `readings`.
  static func forEach(in inputs: TakeInputs, _ file: Int, limit: Int, _ what: String, _ body: (JSONRecord) throws -> Void) throws {
    try inputs.readJSON(file, limit: limit) { try forEach(in: $0, what, body) }
  }

  static func forEach(in reader: JSONReader, _ what: String, _ body: (JSONRecord) throws -> Void) throws {
    guard try reader.nextIsArray else {
      throw TakeFailure(.jsonType, "expected a list of \(what), found \(try reader.describeNext())")
    }
    try reader.beginArray()
    var (isFirst, index) = (true, 0)
    while try reader.nextElement(isFirst: &isFirst) {
      try body(JSONRecord(reader: reader, index: index))
      index += 1
    }
    try reader.expectEnd()
  }

  /// Lets `body` read the value of each key. A key twice is refused: nothing says which value is right.
  func forEachKey(_ body: (String) throws -> Void) throws {
    guard try reader.nextIsObject else { throw mismatch("", "an object") }
    try reader.beginObject()
    var (isFirst, known): (Bool, [String]) = (true, [])
    while let key = try reader.nextKey(isFirst: &isFirst) {
      // Records have some ten keys; of a hostile one with more, the first are enough.
      if known.contains(key) { throw failure(key, "the key is there twice") }
      if known.count < Self.keys { known.append(key) }
      try body(key)
    }
  }

  func number(_ key: String) throws -> Double {
    guard try reader.nextIsNumber else { throw mismatch(key, "a number") }
    return try reader.number()
  }

  /// A number of seconds, exact to the nanosecond; `nil` for values that cannot be a time, such as NaN.
  func seconds(_ key: String) throws -> Timestamp? {
    guard try reader.nextIsNumber else { throw mismatch(key, "a number") }
    return try reader.seconds()
  }

  /// An integer from 0, below 2^53.
  func wholeNumber(_ key: String) throws -> Int64 {
    guard try reader.nextIsNumber else { throw mismatch(key, "a whole number") }
    let value = try reader.number()
    guard value >= 0, let whole = Int64(exactly: value), whole < 1 << 53 else {
      throw failure(key, "expected a whole number from 0, found \(value)")
    }
    return whole
  }

  /// A list of `count` numbers.
  func numbers(_ key: String, count: Int, _ words: String) throws -> [Double] {
    guard try reader.nextIsArray else { throw mismatch(key, words) }
    var numbers: [Double] = []
    var isFirst = true
    try reader.beginArray()
    while try reader.nextElement(isFirst: &isFirst) {
      guard try reader.nextIsNumber, numbers.count < count else { throw mismatch(key, words) }
      numbers.append(try reader.number())
    }
    guard numbers.count == count else { throw failure(key, "expected \(words), found \(numbers.count)") }
    return numbers
  }

  /// The value; throws where the key was missing.
  func required<Value>(_ value: Value?, _ key: String, _ message: String = "the key is missing") throws -> Value {
    guard let value else { throw failure(key, message) }
    return value
  }

  func mismatch(_ key: String, _ expected: String) -> TakeFailure {
    failure(key, "expected \(expected), found \((try? reader.describeNext()) ?? "something else")")
  }

  func failure(_ key: String, _ message: String) -> TakeFailure {
    TakeFailure(.jsonType, message, field: "[\(index)]" + (key.isEmpty ? "" : ".\(key)"))
  }
}
