import Evidence
import Model
import Steps

/// An entry of a take's inputs, or a part of one, as the place that samples come from. Looked up only when it is asked for.
struct InputOrigin: Sendable {
  let inputs: TakeInputs
  let entry: Int
  var part: SampleOrigin.Part?

  /// The place as a whole. Throws `TakeFailure`.
  func callAsFunction() throws -> SampleOrigin {
    var origin = try inputs.origin(of: entry)
    if let part {
      origin.part = part
      origin.range = 0..<(part.range.upperBound - part.range.lowerBound)
    }
    return origin
  }
}

/// The entries of a JSON list, or the lines of a table, that vectors come from.
struct RecordOrigins: Sendable {
  /// Numbers of records, in order. Those of most files ascend by one, which takes no memory.
  private enum Numbers {
    case ascending(from: Int)
    case any([Int32])
  }

  /// Where records are looked up.
  enum Place {
    /// A text, up to the record.
    case text(SampleOrigin.Record.Kind, InputOrigin)
    /// A format that knows where its records are.
    case found(@Sendable (_ record: Int) throws -> SampleOrigin?)
  }

  private let place: Place?
  private let numbers: Numbers
  private let count: Int

  /// Length of the text of a record that is shown, in bytes.
  private static let textLimit = 4096

  /// - Parameter records: The entry of each vector, from 0, or its line, from 1.
  init(_ kind: SampleOrigin.Record.Kind, _ records: [Int], in place: InputOrigin?) {
    self.init(records, in: place.map { .text(kind, $0) })
  }

  init(_ records: [Int], in place: Place?) {
    (self.place, count) = (place, records.count)
    let first = records.first ?? 0
    let ascend = records.enumerated().allSatisfy { $1 == first + $0 }
    numbers = ascend ? .ascending(from: first) : .any(records.map { Int32(clamping: $0) })
  }

  /// Vectors that know their origin.
  func source(width: Int, _ values: [Float]) -> VectorSource {
    var source = VectorSource(width: width, values: values)
    source.locate = { try self.origin(of: $0) }
    return source
  }

  /// Poses that know their origin.
  func source(_ poses: [Pose]) -> VectorSource {
    var source = VectorSource(poses)
    source.locate = { try self.origin(of: $0) }
    return source
  }

  /// Reads the file up to the record. `nil` where it does not have it any more.
  private func origin(of sample: Int) throws -> SampleOrigin? {
    guard let place, (0..<count).contains(sample) else { return nil }
    let number =
      switch numbers {
      case .ascending(let first): first + sample
      case .any(let all): Int(all[sample])
      }
    guard case .text(let kind, let place) = place else {
      guard case .found(let find) = place else { return nil }
      return try find(number)
    }
    var origin = try place()
    let found = try place.inputs.stream(place.entry, limit: .max) { read in
      kind == .line ? try RecordScan.line(number, read) : try RecordScan.entry(number, read)
    }
    guard let found else { return nil }
    origin.range = found.range
    origin.record = SampleOrigin.Record(kind, number)
    origin.text = String(decoding: found.bytes.prefix(Self.textLimit), as: UTF8.self) + (found.bytes.count > Self.textLimit ? "…" : "")
    return origin
  }
}

/// Finds a record in a text by its number, without understanding more of it than where records end.
enum RecordScan {
  typealias Found = (range: Range<Int64>, bytes: [UInt8])

  /// Bytes of a record that are kept.
  private static let limit = 1 << 16

  /// A line by its number, from 1, without its line end. `nil` past the last.
  static func line(_ number: Int, _ read: JSONReader.Refill) throws -> Found? {
    var (line, start, bytes): (Int, Int64, [UInt8]) = (1, 0, [])
    var end: Int64 = 0
    let found = try forEachByte(read) { byte, offset in
      end = offset + 1
      if byte == UInt8(ascii: "\n") {
        if line == number {
          end = offset
          return false
        }
        line += 1
        start = offset + 1
      } else if line == number, bytes.count < limit {
        bytes.append(byte)
      }
      return true
    }
    guard line == number, !found || !bytes.isEmpty else { return nil }
    if bytes.last == UInt8(ascii: "\r"), bytes.count < limit {
      bytes.removeLast()
      end -= 1
    }
    return (start..<max(start, end), bytes)
  }

  /// An element of the list that a JSON text is, by its number from 0. `nil` past the last.
  static func entry(_ number: Int, _ read: JSONReader.Refill) throws -> Found? {
    var (depth, isInText, isEscaped) = (0, false, false)
    var (entry, start, end): (Int, Int64?, Int64) = (0, nil, 0)
    var bytes: [UInt8] = []
    var isFound = false
    _ = try forEachByte(read) { byte, offset in
      let isSpace = [0x20, 0x09, 0x0A, 0x0D].contains(byte)
      let isClosing = !isInText && (byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}"))
      if depth == 1, !isInText, byte == UInt8(ascii: ",") || isClosing {
        isFound = entry == number && start != nil
        if isFound { return false }
        (entry, start) = (entry + 1, nil)
        depth -= isClosing ? 1 : 0
        return true
      }
      if depth > 0, start == nil, !isSpace { start = offset }
      if depth > 0, entry == number, start != nil, bytes.count < limit { bytes.append(byte) }
      if depth > 0, !isSpace { end = offset + 1 }
      if isInText {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else {
          isInText = byte != UInt8(ascii: "\"")
        }
      } else if byte == UInt8(ascii: "\"") {
        isInText = true
      } else if byte == UInt8(ascii: "[") || byte == UInt8(ascii: "{") {
        depth += 1
      } else if isClosing {
        depth -= 1
      }
      return true
    }
    // Of a text that is cut off, the last entry may be complete.
    guard isFound || entry == number && depth == 1 && !isInText, let start else { return nil }
    return (start..<end, Array(bytes.prefix(Int(clamping: end - start))))
  }

  /// Passes every byte to `body` until it returns `false`; returns whether the end was reached.
  private static func forEachByte(_ read: JSONReader.Refill, _ body: (UInt8, Int64) -> Bool) throws -> Bool {
    try withBuffer(of: 1 << 16) { buffer in
      var offset: Int64 = 0
      while true {
        let count = try read(buffer)
        if count == 0 { return true }
        for byte in buffer[..<count] {
          if !body(byte, offset) { return false }
          offset += 1
        }
      }
    }
  }
}
