import Foundation
import Media
import Model

/// The body of a `multipart/form-data` request (RFC 7578) as received. Only the ranges of its parts are located; nothing is held in
/// memory.
struct MultipartBody {
  struct Part {
    var name: String
    var range: Range<Int64>
  }

  /// Parts in order; if several have the same name, the last one counts.
  private(set) var parts: [Part] = []

  /// Sum of the parts' limits, plus room for the boundaries and headers between them.
  private static let limit: Int64 = 128 << 20
  private static let headerLimit = 8 << 10
  private static let partLimit = 64

  /// Whether these may be the first bytes of such a body.
  static func isStart(_ bytes: [UInt8]) -> Bool {
    bytes.starts(with: Array("--".utf8)) && String(decoding: bytes, as: UTF8.self).lowercased().contains("content-disposition: form-data")
  }

  /// Throws `TakeFailure` for a body that is cut off or malformed.
  init(_ slice: FileSlice, file: String) throws {
    func damaged(_ message: String) -> TakeFailure { TakeFailure(.bodyDamaged, message, file: file) }
    guard slice.count <= Self.limit else {
      throw TakeFailure(.inputTooLarge, "\(slice.count) bytes are over the limit of \(Self.limit)", file: file)
    }
    let start = try slice.bytes(0..<256)
    guard let end = Self.find(Array("\r\n".utf8), in: start), end > 2, end <= 72 else {
      throw damaged("the body does not start with a boundary of at most 70 characters")
    }
    let delimiter = Array("\r\n".utf8) + start[..<end]
    // The first delimiter has no line end before it.
    var position = Int64(end)
    while true {
      let tail = try slice.bytes(position..<(position + 2))
      if tail == Array("--".utf8) { return }
      guard tail == Array("\r\n".utf8) else { throw damaged("at byte \(position) a boundary is followed by neither a line end nor --") }
      let header = try slice.bytes((position + 2)..<(position + 2 + Int64(Self.headerLimit)))
      guard let length = Self.find(Array("\r\n\r\n".utf8), in: header) else {
        throw damaged("the header of the part at byte \(position + 2) does not end")
      }
      let name = Self.name(String(decoding: header[..<length], as: UTF8.self))
      let data = position + 2 + Int64(length) + 4
      // A sender that could not read its file omits the line end before the boundary.
      guard let next = try Self.find(delimiter, in: slice, from: data - 2) else {
        let known = name.flatMap { BundleParts.Name(rawValue: $0)?.rawValue } ?? "at byte \(position)"
        throw damaged("the part \(known) is cut off: the body ends before its closing boundary")
      }
      if let name { parts.append(Part(name: name, range: data..<max(data, next))) }
      guard parts.count <= Self.partLimit else { throw damaged("the body has more than \(Self.partLimit) parts") }
      position = next + Int64(delimiter.count)
    }
  }

  /// The field's name in a part's header lines.
  private static func name(_ header: String) -> String? {
    for line in header.split(separator: "\r\n") where line.lowercased().hasPrefix("content-disposition:") {
      for parameter in line.split(separator: ";").dropFirst() {
        let pair = parameter.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
        if pair.count == 2, pair[0].lowercased() == "name" { return pair[1].trimmingCharacters(in: CharacterSet(charactersIn: "\"")) }
      }
    }
    return nil
  }

  private static func find(_ needle: [UInt8], in bytes: [UInt8]) -> Int? {
    bytes.withUnsafeBytes { bytes in
      needle.withUnsafeBytes { needle in
        guard let haystack = bytes.baseAddress, let pattern = needle.baseAddress else { return nil }
        var offset = 0
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

  private static func find(_ needle: [UInt8], in slice: FileSlice, from start: Int64) throws -> Int64? {
    let window: Int64 = 1 << 20
    var offset = start
    while offset < slice.count {
      // Windows overlap, so that no needle is split between two.
      let bytes = try slice.bytes(offset..<(offset + window + Int64(needle.count)))
      if bytes.count < needle.count { return nil }
      if let found = find(needle, in: bytes) { return offset + Int64(found) }
      offset += window
    }
    return nil
  }
}
