import Foundation

/// Reads the body of a `multipart/form-data` request (RFC 7578) as it arrives, in pieces of any size. Memory is a piece and a header.
///
///     parser.append(piece)
///     while let event = try parser.next() { … }      // nil: the next piece is needed
public struct MultipartParser: Sendable {
  /// The name, file name and type in the header of a part.
  public struct Header: Sendable, Equatable {
    public var name: String?
    public var filename: String?
    public var contentType: String?
  }

  /// A piece of a body that was parsed, in the order of the body.
  public enum Event: Sendable, Equatable {
    case part(Header)
    /// Bytes of the part.
    case data(ArraySlice<UInt8>)
    case endOfPart
    /// The closing boundary. What follows it is ignored.
    case end
  }

  /// A body that is no form, with the reason as the end of a sentence. Nothing more can be parsed after it.
  public struct Malformed: Error, Equatable, CustomStringConvertible {
    public var description: String
    init(_ description: String) { self.description = description }
  }

  private enum State: Equatable { case start, boundary, header, data, end }

  private static let headerLimit = 8 << 10
  private static let partLimit = 64
  /// RFC 2046, section 5.1.1.
  public static let boundaryLimit = 70

  /// CRLF, two hyphens, the boundary.
  private let delimiter: [UInt8]
  private var state = State.start
  private var buffer: [UInt8] = []
  private var position = 0
  private var parts = 0
  private var isAtEnd = false
  /// Offset of the next byte in the body.
  public private(set) var offset: Int64 = 0
  /// Whether the data of a part are being read.
  public var isInData: Bool { state == .data }
  /// Offset in the body at which the current part's data begin.
  public private(set) var dataStart: Int64 = 0

  /// - Parameter boundary: Without the hyphens before it. The result is `nil` unless it has 1 to 70 bytes.
  public init?(boundary: String) {
    guard (1...Self.boundaryLimit).contains(boundary.utf8.count) else { return nil }
    delimiter = Array("\r\n--".utf8) + boundary.utf8
  }

  /// - Parameter contentType: The request's header; the result is `nil` if it is not that of a form or has no boundary.
  public init?(contentType: String) {
    let parts = Self.parameters(contentType)
    guard parts.value.lowercased() == "multipart/form-data", let boundary = parts.parameters["boundary"] else { return nil }
    self.init(boundary: boundary)
  }

  /// Adds the next bytes of the body, which may end anywhere, also within a boundary.
  public mutating func append(_ piece: some Collection<UInt8>) {
    if position > 0 {
      buffer.removeFirst(position)
      position = 0
    }
    buffer.append(contentsOf: piece)
  }

  /// The body has ended. Whatever is incomplete now stays so: `next` throws `Malformed` unless the closing boundary has come.
  public mutating func end() { isAtEnd = true }

  /// The next event, or `nil` if another piece is needed. Throws `Malformed`, with a sentence for the sender.
  public mutating func next() throws -> Event? {
    while true {
      switch state {
      case .start:
        let first = delimiter.dropFirst(2)
        guard buffer.count >= first.count else {
          if isAtEnd { throw Malformed("the body ends before its first boundary") }
          return nil
        }
        if buffer.starts(with: first) {
          advance(to: first.count)
        } else if let found = find(delimiter, from: position), found <= Self.headerLimit {
          // What stands before it is for readers without forms.
          advance(to: found + delimiter.count)
        } else {
          if isAtEnd || buffer.count > Self.headerLimit + delimiter.count { throw Malformed("the body does not start with its boundary") }
          return nil
        }
        state = .boundary
      case .boundary:
        guard let ending = try taken(2, "the body ends at a boundary") else { return nil }
        if ending.elementsEqual("--".utf8) {
          state = .end
          return .end
        }
        guard ending.elementsEqual("\r\n".utf8) else {
          throw Malformed("at byte \(offset - 2) a boundary is followed by neither a line end nor --")
        }
        parts += 1
        guard parts <= Self.partLimit else { throw Malformed("the body has more than \(Self.partLimit) parts") }
        state = .header
      case .header:
        guard let length = find(Array("\r\n\r\n".utf8), from: position), length - position <= Self.headerLimit else {
          if isAtEnd || buffer.count - position > Self.headerLimit {
            throw Malformed("the header of the part at byte \(offset) does not end")
          }
          return nil
        }
        let header = Self.header(String(decoding: buffer[position..<length], as: UTF8.self))
        // A sender that cannot read its file omits the line end before the next boundary, so the header's own may serve as it.
        advance(to: length + 2)
        dataStart = offset + 2
        state = .data
        return .part(header)
      case .data:
        if let event = try data() { return event }
        if state == .data { return nil }
      case .end:
        position = buffer.count
        return nil
      }
    }
  }

  /// Data up to the next delimiter, or as much as cannot be part of one.
  private mutating func data() throws -> Event? {
    let found = find(delimiter, from: position)
    if found == nil, isAtEnd { throw Malformed("the body ends before its closing boundary") }
    // The last bytes may be the start of a delimiter.
    let end = found ?? max(position, buffer.count - delimiter.count + 1)
    let skipped = Int(max(0, dataStart - offset))
    if end > position + skipped {
      advance(to: position + skipped)
      defer { advance(to: end) }
      return .data(buffer[position..<end])
    }
    guard let found else { return nil }
    advance(to: found + delimiter.count)
    state = .boundary
    return .endOfPart
  }

  private mutating func advance(to index: Int) {
    offset += Int64(index - position)
    position = index
  }

  private mutating func taken(_ count: Int, _ complaint: String) throws -> ArraySlice<UInt8>? {
    guard buffer.count - position >= count else {
      if isAtEnd { throw Malformed(complaint) }
      return nil
    }
    let bytes = buffer[position..<(position + count)]
    advance(to: position + count)
    return bytes
  }

  private func find(_ needle: [UInt8], from start: Int) -> Int? {
    buffer.withUnsafeBytes { bytes in
      needle.withUnsafeBytes { needle in
        guard let haystack = bytes.baseAddress, let pattern = needle.baseAddress else { return nil }
        var offset = start
        // Every needle starts with a carriage return, which is rare.
        while offset <= bytes.count - needle.count,
          let hit = memchr(haystack + offset, Int32(needle[0]), bytes.count - needle.count - offset + 1)
        {
          offset = UnsafeRawPointer(hit) - haystack
          if memcmp(hit, pattern, needle.count) == 0 { return offset }
          offset += 1
        }
        return nil
      }
    }
  }

  // MARK: Headers

  private static func header(_ text: String) -> Header {
    var header = Header()
    for line in text.split(separator: "\r\n") {
      let halves = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard halves.count == 2 else { continue }
      let value = halves[1].trimmingCharacters(in: .whitespaces)
      switch halves[0].lowercased() {
      case "content-disposition":
        let parts = parameters(value)
        guard parts.value.lowercased() == "form-data" else { continue }
        header.name = parts.parameters["name"]
        header.filename = parts.parameters["filename*"].flatMap(extended) ?? parts.parameters["filename"]
      case "content-type": header.contentType = value
      default: break
      }
    }
    return header
  }

  /// A value with its character set and in percent-encoding, `UTF-8'en'a%20b` (RFC 8187; RFC 5987 has ISO-8859-1, too); `nil` for what is
  /// none.
  private static func extended(_ text: String) -> String? {
    let parts = text.split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3 else { return nil }
    switch parts[0].lowercased() {
    case "utf-8": return parts[2].removingPercentEncoding
    case "iso-8859-1":
      let latin = parts[2].replacing(/%([89A-Fa-f])([0-9A-Fa-f])/) { match in
        String(UInt8("\(match.1)\(match.2)", radix: 16).map { Unicode.Scalar($0) } ?? "?")
      }
      return latin.removingPercentEncoding
    default: return nil
    }
  }

  /// The value of a header before its parameters, and the parameters by lower-case name; quoted ones may have semicolons.
  private static func parameters(_ text: String) -> (value: String, parameters: [String: String]) {
    var pieces: [String] = [""]
    var isQuoted = false, isEscaped = false
    for character in text {
      if isEscaped {
        isEscaped = false
      } else if isQuoted, character == "\\" {
        isEscaped = true
        continue
      } else if character == "\"" {
        isQuoted.toggle()
        continue
      } else if character == ";", !isQuoted {
        pieces.append("")
        continue
      }
      pieces[pieces.count - 1].append(character)
    }
    var found: [String: String] = [:]
    for piece in pieces.dropFirst() {
      let pair = piece.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard pair.count == 2 else { continue }
      let name = pair[0].trimmingCharacters(in: .whitespaces).lowercased()
      if found[name] == nil { found[name] = pair[1].trimmingCharacters(in: .whitespaces) }
    }
    return (pieces[0].trimmingCharacters(in: .whitespaces), found)
  }
}
