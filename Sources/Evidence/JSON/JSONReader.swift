import Foundation
package import Model

/// Place and cause of an error in a JSON text.
package struct JSONError: Error, Equatable, CustomStringConvertible {
  package var message: String
  package var line: Int
  package var column: Int
  /// True where the text ends too early but is otherwise valid.
  package var isTruncation = false

  package var place: String { "line \(line), column \(column)" }
  package var description: String { "\(place): \(message.onOneLine)" }
}

/// Reads a JSON text of any length value by value, holding a window of it.
///
/// Capture apps write pose files of tens of megabytes. This reader exists because no library offers all three of these: seconds converted
/// to exact nanoseconds from their digits, the bare `NaN` tokens that Python writes, and the leading entries of a file that was cut off,
/// with line and column of the cut. Memory use is limited to the window, whatever the size of the file.
///
///     let reader = JSONReader(bytes)
///     var isFirst = true
///     try reader.beginArray()
///     while try reader.nextElement(isFirst: &isFirst) { entries.append(try reader.value()) }
package final class JSONReader {
  /// Fills the start of a buffer and returns the number of bytes; 0 at the end.
  package typealias Refill = (UnsafeMutableRawBufferPointer) throws -> Int

  private static let windowSize = 1 << 18
  /// Longest string or number that is read, in bytes.
  private static let tokenLimit = 1 << 16
  private static let depthLimit = 64

  private let window: UnsafeMutableBufferPointer<UInt8>
  private let refill: Refill
  private var position = 0
  private var end = 0
  private var isAtEnd = false
  /// Number of lines, and of bytes in the last of them, that have left the window.
  private var linesGone = 0
  private var columnsGone = 0
  /// Whether the first bytes, which may be a mark of the encoding, were looked at.
  private var knowsEncoding = false
  /// Number of bytes that have left the window.
  private var bytesGone: Int64 = 0

  /// Number of bytes before the next unread one: after `nextElement` the place of the value, after `nextKey` that of the white space before
  /// it, or of the value.
  package var offset: Int64 { bytesGone + Int64(position) }

  package convenience init(_ refill: @escaping Refill) { self.init(window: Self.windowSize, refill) }

  /// - Parameter bytes: Window size, which bounds the length of a token.
  private init(window bytes: Int, _ refill: @escaping Refill) {
    // Not `allocate`, for the reason given at `withBuffer`.
    window = UnsafeMutableBufferPointer(start: malloc(bytes)?.bindMemory(to: UInt8.self, capacity: bytes), count: bytes)
    self.refill = refill
  }

  /// A reader of a text in memory.
  package convenience init(_ text: [UInt8]) {
    var rest = text[...]
    self.init(window: min(Self.windowSize, max(text.count, 1))) { buffer in
      let piece = rest.prefix(buffer.count)
      buffer.copyBytes(from: piece)
      rest = rest.dropFirst(piece.count)
      return piece.count
    }
  }

  deinit { free(window.baseAddress) }

  // MARK: Structure

  /// Steps into a list.
  package func beginArray() throws { try expect(UInt8(ascii: "["), "a list") }

  /// True when another element follows; false once the list is closed.
  package func nextElement(isFirst: inout Bool) throws -> Bool {
    defer { isFirst = false }
    return try separator(isFirst: isFirst, closing: UInt8(ascii: "]"))
  }

  /// Steps into an object.
  package func beginObject() throws { try expect(UInt8(ascii: "{"), "an object") }

  /// The next key, with its colon consumed, or `nil` once the object is closed.
  package func nextKey(isFirst: inout Bool) throws -> String? {
    defer { isFirst = false }
    guard try separator(isFirst: isFirst, closing: UInt8(ascii: "}")) else { return nil }
    let key = try string()
    try expect(UInt8(ascii: ":"), "a colon after the key \"\(key)\"")
    return key
  }

  /// Reads the value that is next, with nothing but white space after it.
  package func document() throws -> JSONValue {
    let value = try value()
    try expectEnd()
    return value
  }

  /// Throws if anything but white space is left.
  package func expectEnd() throws {
    if try peek() != nil { throw error("text after the end of the JSON value") }
  }

  /// The next value's type in words, for messages.
  package func describeNext() throws -> String {
    switch try peek() {
    case UInt8(ascii: "["): "a list"
    case UInt8(ascii: "{"): "an object"
    case UInt8(ascii: "\""): "text"
    case UInt8(ascii: "t"), UInt8(ascii: "f"): "true or false"
    case UInt8(ascii: "n"): "null"
    case nil: "the end of the file"
    default: startsNumber ? "a number" : "an unexpected character"
    }
  }

  /// Whether the next value is null, which is then consumed.
  package func skipNull() throws -> Bool {
    guard try peek() == UInt8(ascii: "n") else { return false }
    try literal("null")
    return true
  }

  /// Type of the next value. These throw a truncation error when nothing follows.
  package var nextIsArray: Bool { get throws { try peekValue() == UInt8(ascii: "[") } }
  package var nextIsObject: Bool { get throws { try peekValue() == UInt8(ascii: "{") } }
  /// True before a number, `NaN` and infinities included.
  package var nextIsNumber: Bool {
    get throws {
      let next = try peekValue()
      return startsNumber || next == UInt8(ascii: "N") || next == UInt8(ascii: "I")
    }
  }

  private func peekValue() throws -> UInt8 {
    guard let next = try peek() else { throw truncation("the file ends where a value is expected") }
    return next
  }

  // MARK: Values

  /// A number; `NaN`, `Infinity` and `-Infinity`, which Python writes and JSON forbids, are accepted.
  package func number() throws -> Double {
    let text = try numberText()
    if let value = Self.exact(text) { return value }
    return strtod(String(decoding: text, as: UTF8.self), nil)
  }

  /// A number of seconds as an exact timestamp; `nil` for NaN, infinities and times beyond 292 years.
  package func seconds() throws -> Timestamp? { Timestamp(decimalSeconds: try numberText()) }

  /// Reads a text, with its escapes resolved.
  package func string() throws -> String {
    try expect(UInt8(ascii: "\""), "text")
    fill()
    var cursor = position
    var hasEscape = false
    while cursor < end, window[cursor] != UInt8(ascii: "\"") {
      if window[cursor] < 0x20 { throw error("a control character inside text", at: cursor) }
      if window[cursor] == UInt8(ascii: "\\") {
        hasEscape = true
        cursor += 1
      }
      cursor += 1
    }
    if cursor >= end {
      throw isAtEnd ? truncation("the file ends inside text") : error("text longer than \(Self.tokenLimit) bytes")
    }
    let raw = UnsafeBufferPointer(rebasing: window[position..<cursor])
    let text = hasEscape ? try unescape(raw) : String(validating: raw, as: UTF8.self)
    guard let text else { throw error("text that is not UTF-8") }
    position = cursor + 1
    return text
  }

  /// Any complete value. Objects with duplicate keys are refused.
  package func value(depth: Int = 0) throws -> JSONValue {
    if depth > Self.depthLimit { throw error("values nested deeper than \(Self.depthLimit)") }
    switch try peek() {
    case UInt8(ascii: "{"): return .object(try object(depth: depth) { _ in nil })
    case UInt8(ascii: "["):
      try beginArray()
      var elements: [JSONValue] = []
      var isFirst = true
      while try nextElement(isFirst: &isFirst) { elements.append(try value(depth: depth + 1)) }
      return .array(elements)
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"):
      try literal("true")
      return .bool(true)
    case UInt8(ascii: "f"):
      try literal("false")
      return .bool(false)
    case UInt8(ascii: "n"):
      try literal("null")
      return .null
    default:
      let text = try numberText()
      if let whole = Int64(String(decoding: text, as: UTF8.self)) { return .integer(whole) }
      return .number(strtod(String(decoding: text, as: UTF8.self), nil))
    }
  }

  /// An object, of which `read` may read the values of some keys by itself and return what stands for them; the others, for which it
  /// returns `nil`, are read whole. Duplicate keys are refused.
  package func object(depth: Int = 0, _ read: (_ key: String) throws -> JSONValue?) throws -> [String: JSONValue] {
    try beginObject()
    var members: [String: JSONValue] = [:]
    var isFirst = true
    while let key = try nextKey(isFirst: &isFirst) {
      if members[key] != nil { throw error("the key \"\(key)\" twice in one object") }
      members[key] = try read(key) ?? value(depth: depth + 1)
    }
    return members
  }

  /// Skips any value.
  package func skip(depth: Int = 0) throws {
    if depth > Self.depthLimit { throw error("values nested deeper than \(Self.depthLimit)") }
    var isFirst = true
    switch try peek() {
    case UInt8(ascii: "{"):
      try beginObject()
      while try separator(isFirst: isFirst, closing: UInt8(ascii: "}")) {
        isFirst = false
        try skipString()
        try expect(UInt8(ascii: ":"), "a colon after a key")
        try skip(depth: depth + 1)
      }
    case UInt8(ascii: "["):
      try beginArray()
      while try nextElement(isFirst: &isFirst) { try skip(depth: depth + 1) }
    case UInt8(ascii: "\""): try skipString()
    case UInt8(ascii: "t"): try literal("true")
    case UInt8(ascii: "f"): try literal("false")
    case UInt8(ascii: "n"): try literal("null")
    default: _ = try numberText()
    }
  }

  /// Skips text, of which only the rare kinds have to be looked at more closely: with escapes, beyond ASCII, or not valid.
  private func skipString() throws {
    if try peek() == UInt8(ascii: "\"") {
      var cursor = position + 1
      while cursor < end, window[cursor] >= 0x20, window[cursor] < 0x80, window[cursor] != UInt8(ascii: "\\") {
        if window[cursor] == UInt8(ascii: "\"") {
          position = cursor + 1
          return
        }
        cursor += 1
      }
    }
    _ = try string()
  }

  // MARK: Tokens

  private func numberText() throws -> UnsafeBufferPointer<UInt8> {
    guard let first = try peek() else { throw truncation("the file ends where a number is expected") }
    var cursor = position
    if first == UInt8(ascii: "N") || first == UInt8(ascii: "I")
      || (first == UInt8(ascii: "-") && cursor + 1 < end && window[cursor + 1] == UInt8(ascii: "I"))
    {
      for word in ["NaN", "Infinity", "-Infinity"] where matches(word, at: position) {
        position += word.utf8.count
        return UnsafeBufferPointer(rebasing: window[cursor..<position])
      }
    }
    guard startsNumber else { throw error("expected a number, found \(try describeNext())") }
    while cursor < end, Self.isNumberByte(window[cursor]) { cursor += 1 }
    if cursor - position > 400 { throw error("a number of more than 400 characters") }
    let text = UnsafeBufferPointer(rebasing: window[position..<cursor])
    guard Self.isNumber(text) else {
      throw cursor == end && isAtEnd
        ? truncation("the file ends inside a number") : error("a number that is not written as JSON requires")
    }
    position = cursor
    return text
  }

  private var startsNumber: Bool {
    guard position < end else { return false }
    let byte = window[position]
    return byte == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }

  private static func isNumberByte(_ byte: UInt8) -> Bool {
    (byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")) || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-")
      || byte == UInt8(ascii: "e") || byte == UInt8(ascii: "E") || byte == UInt8(ascii: "+")
  }

  /// Whether the text matches RFC 8259's grammar: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
  package static func isNumber(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
    var index = 0
    func digits() -> Int {
      let start = index
      while index < text.count, text[index] &- UInt8(ascii: "0") < 10 { index += 1 }
      return index - start
    }
    if index < text.count, text[index] == UInt8(ascii: "-") { index += 1 }
    let leadsWithZero = index < text.count && text[index] == UInt8(ascii: "0")
    let whole = digits()
    guard whole > 0, !(leadsWithZero && whole > 1) else { return false }
    if index < text.count, text[index] == UInt8(ascii: ".") {
      index += 1
      guard digits() > 0 else { return false }
    }
    if index < text.count, text[index] | 0x20 == UInt8(ascii: "e") {
      index += 1
      if index < text.count, text[index] == UInt8(ascii: "+") || text[index] == UInt8(ascii: "-") { index += 1 }
      guard digits() > 0 else { return false }
    }
    return index == text.count
  }

  /// The double nearest to a decimal, where both its digits and its power of ten are exact doubles (Clinger 1990).
  private static func exact(_ text: UnsafeBufferPointer<UInt8>) -> Double? {
    var digits: UInt64 = 0
    var power = 0
    var isFraction = false
    var isNegative = false
    for byte in text {
      let digit = byte &- UInt8(ascii: "0")
      if digit < 10 {
        guard digits < 900_719_925_474_099 else { return nil }
        digits = digits &* 10 &+ UInt64(digit)
        if isFraction { power += 1 }
      } else if byte == UInt8(ascii: ".") {
        isFraction = true
      } else if byte == UInt8(ascii: "-") {
        isNegative = true
      } else {
        return nil
      }
    }
    guard power <= 22 else { return nil }
    let value = Double(digits) / powersOfTen[power]
    return isNegative ? -value : value
  }

  private static let powersOfTen: [Double] = (0...22).map { pow(10, Double($0)) }

  private func literal(_ word: String) throws {
    guard matches(word, at: position) else {
      throw end - position < word.utf8.count && isAtEnd
        ? truncation("the file ends inside a word") : error("expected \(word)")
    }
    position += word.utf8.count
  }

  private func matches(_ word: String, at start: Int) -> Bool {
    start + word.utf8.count <= end && zip(word.utf8, window[start...]).allSatisfy { $0 == $1 }
  }

  private func separator(isFirst: Bool, closing: UInt8) throws -> Bool {
    guard let next = try peek() else { throw truncation("the file ends inside a list or object") }
    if next == closing {
      position += 1
      return false
    }
    if isFirst { return true }
    guard next == UInt8(ascii: ",") else {
      throw error("expected a comma or \"\(Character(UnicodeScalar(closing)))\", found \(try describeNext())")
    }
    position += 1
    guard let after = try peek() else { throw truncation("the file ends after a comma") }
    if after == closing { throw error("a comma before \"\(Character(UnicodeScalar(closing)))\"") }
    return true
  }

  private func expect(_ byte: UInt8, _ what: String) throws {
    guard let next = try peek() else { throw truncation("the file ends where \(what) is expected") }
    guard next == byte else { throw error("expected \(what), found \(try describeNext())") }
    position += 1
  }

  /// The next byte that is not white space; the complete token after it is then in the window.
  private func peek() throws -> UInt8? {
    while true {
      while position < end {
        let byte = window[position]
        if byte > 0x20 {
          if end - position < Self.tokenLimit { fill() }
          if let failure { throw failure }
          return window[position]
        }
        guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { throw error("a control character") }
        position += 1
      }
      if isAtEnd { return nil }
      fill()
      if let failure { throw failure }
    }
  }

  private var failure: (any Error)?

  /// Moves the unread bytes to the front and reads until the window is full or the text ends.
  private func fill() {
    guard !isAtEnd, end - position < Self.tokenLimit else { return }
    for index in 0..<position {
      if window[index] == 0x0A {
        linesGone += 1
        columnsGone = 0
      } else {
        columnsGone += 1
      }
    }
    bytesGone += Int64(position)
    let unread = end - position
    if unread > 0, position > 0, let base = window.baseAddress { base.update(from: base + position, count: unread) }
    position = 0
    end = unread
    do {
      while end < window.count {
        let count = try refill(UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(window)[end...]))
        if count == 0 {
          isAtEnd = true
          break
        }
        end += count
      }
      if !knowsEncoding { try checkEncoding() }
    } catch {
      failure = error
      isAtEnd = true
    }
  }

  /// Skips the mark that editors on Windows put before UTF-8, and names other encodings: their text would be called damaged.
  private func checkEncoding() throws {
    knowsEncoding = true
    let start = window[..<end]
    if start.starts(with: [0xEF, 0xBB, 0xBF]) {
      (position, columnsGone) = (3, -3)
    } else if start.starts(with: [0xFF, 0xFE]) || start.starts(with: [0xFE, 0xFF]) || start.prefix(2).count(where: { $0 == 0 }) == 1 {
      throw error("the text is UTF-16 or UTF-32; expected UTF-8", at: 0)
    }
  }

  private func unescape(_ raw: UnsafeBufferPointer<UInt8>) throws -> String? {
    // Foundation decodes all escapes, including surrogate pairs; strings with escapes are rare in captures.
    let quoted = Data([UInt8(ascii: "\"")] + raw + [UInt8(ascii: "\"")])
    guard let text = try? JSONDecoder().decode(String.self, from: quoted) else {
      throw error("text with an escape that is not valid JSON")
    }
    return text
  }

  // MARK: Errors

  private func error(_ message: String, at index: Int? = nil) -> JSONError {
    var (line, column) = (linesGone + 1, columnsGone + 1)
    for byte in window[0..<min(index ?? position, end)] {
      if byte == 0x0A {
        line += 1
        column = 1
      } else {
        column += 1
      }
    }
    return JSONError(message: message, line: line, column: column)
  }

  private func truncation(_ message: String) -> JSONError {
    var error = error(message, at: end)
    error.isTruncation = true
    return error
  }
}
