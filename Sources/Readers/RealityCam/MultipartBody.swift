import Evidence
import Foundation
import Media
import Model

/// The body of a `multipart/form-data` request as received. Only the ranges of its parts are located; nothing is held in memory.
struct MultipartBody {
  struct Part {
    var name: String
    var range: Range<Int64>
  }

  /// Parts in order; if several have the same name, the last one counts.
  private(set) var parts: [Part] = []

  /// Sum of the parts' limits, plus room for the boundaries and headers between them.
  private static let limit: Int64 = 128 << 20

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
    // The request's header, which names the boundary, was not stored with the body.
    let start = try slice.bytes(0..<Int64(MultipartParser.boundaryLimit + 4))
    let boundary = start.dropFirst(2).prefix { $0 != UInt8(ascii: "\r") }
    guard start.starts(with: Array("--".utf8)), var parser = MultipartParser(boundary: String(decoding: boundary, as: UTF8.self)) else {
      throw damaged("the body does not start with a boundary of at most \(MultipartParser.boundaryLimit) characters")
    }
    var name: String?
    var size: Int64 = 0
    var read: Int64 = 0
    while true {
      do {
        while let event = try parser.next() {
          switch event {
          case .part(let header): (name, size) = (header.name, 0)
          case .data(let bytes): size += Int64(bytes.count)
          case .endOfPart: if let name { parts.append(Part(name: name, range: parser.dataStart..<(parser.dataStart + size))) }
          case .end: return
          }
        }
      } catch let error as MultipartParser.Malformed {
        let part = name.flatMap(BundleParts.Name.init(rawValue:)).map { "the part \($0.rawValue) is cut off: " }
        throw damaged((parser.isInData ? part ?? "" : "") + error.description)
      }
      let piece = try slice.bytes(read..<(read + (1 << 20)))
      read += Int64(piece.count)
      if piece.isEmpty { parser.end() } else { parser.append(piece) }
    }
  }
}
