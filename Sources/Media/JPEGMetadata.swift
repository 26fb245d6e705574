import Foundation

/// The data of a JPEG file beside its image: EXIF, XMP, IPTC, comments, previews (ITU-T T.81, annex B; CIPA DC-008, 4.5 and 4.6).
package enum JPEGMetadata {
  /// The EXIF orientation, 1 to 8 (tag 0x0112 of IFD 0); `nil` where there is none.
  package static func orientation(of file: [UInt8]) -> Int? {
    exif(file).flatMap { exif in exif.entry(0x0112).flatMap { exif.number($0 + 8, bytes: 2) } }
  }

  /// Whether EXIF has a GPS directory (tag 0x8825 of IFD 0) or XMP a latitude.
  package static func hasLocation(_ file: [UInt8]) -> Bool {
    if exif(file)?.entry(0x8825) != nil { return true }
    return headers(file).contains { $0.marker == 0xE1 && Data(file[$0.body]).range(of: Data("GPSLatitude".utf8)) != nil }
  }

  /// Removes everything that is not needed to decode the image, byte for byte the same: JFIF without its thumbnail, color profile and
  /// Adobe's color transform stay. A file without such data is not changed.
  package static func remove(from file: inout [UInt8]) {
    var kept: [ArraySlice<UInt8>] = []
    var (start, isInScan) = (0, false)
    let end = walk(file) { segment in
      if segment.marker == 0xDA { isInScan = true }
      // A decoder ends a scan at a marker; what follows such a segment may then be more of the scan.
      guard !isInScan || isMarker(file, at: segment.body.upperBound) else { return true }
      let short = shortened(segment, file)
      guard short != nil || isBesideImage(segment, file) else { return true }
      kept += [file[start..<segment.start], short ?? []]
      start = segment.body.upperBound
      return true
    }
    // Some encoders pad; phones append further images, which have data of their own.
    let isCut = file.count - end > padding
    guard !kept.isEmpty || isCut else { return }
    kept.append(file[start..<max(start, isCut ? end : file.count)])
    file = Array(kept.joined())
  }

  /// Bytes behind the end of an image that stay.
  package static let padding = 64

  // MARK: Structure

  private static func isMarker(_ file: [UInt8], at offset: Int) -> Bool {
    offset + 1 < file.count && file[offset] == 0xFF && file[offset + 1] != 0 && !(0xD0...0xD7).contains(file[offset + 1])
  }

  private struct Segment {
    var marker: UInt8
    /// Place of the marker, and of what follows the length.
    var start: Int
    var body: Range<Int>
  }

  private static func isBesideImage(_ segment: Segment, _ file: [UInt8]) -> Bool {
    func starts(_ text: String) -> Bool { file[segment.body].starts(with: Array(text.utf8)) }
    switch segment.marker {
    case 0xE0: return !starts("JFIF\0")
    case 0xE2: return !starts("ICC_PROFILE\0")
    case 0xEE: return !starts("Adobe")
    case 0xE1...0xEF, 0xFE: return true
    default: return false
    }
  }

  /// A segment that decoders need, without what may hide behind its fields; `nil` for one that has nothing there, or that they do not need.
  ///
  /// JFIF (ITU-T T.871, 10.1): name, version, density, and the width and height of a thumbnail, 14 bytes. Adobe (its TN 5116, 18): name,
  /// version, flags, transform, 12 bytes.
  private static func shortened(_ segment: Segment, _ file: [UInt8]) -> ArraySlice<UInt8>? {
    guard !isBesideImage(segment, file) else { return nil }
    let body = file[segment.body]
    switch segment.marker {
    case 0xE0 where body.count > 14: return [0xFF, 0xE0, 0, 16] + body.prefix(12) + [0, 0]
    case 0xEE where body.count > 12: return [0xFF, 0xEE, 0, 14] + body.prefix(12)
    default: return nil
    }
  }

  /// The segments before the first scan.
  private static func headers(_ file: [UInt8]) -> [Segment] {
    var segments: [Segment] = []
    _ = walk(file) { segment in
      segments.append(segment)
      return segment.marker != 0xDA
    }
    return segments
  }

  /// Shows the segments to `body` until it returns false; returns where the image ends, or where the walk has ended.
  private static func walk(_ file: [UInt8], _ body: (Segment) -> Bool) -> Int {
    file.withUnsafeBytes { bytes in
      var offset = 2
      while offset + 4 <= bytes.count {
        guard bytes[offset] == 0xFF else {
          // Entropy-coded data.
          guard let start = bytes.baseAddress, let hit = memchr(start + offset, 0xFF, bytes.count - offset) else { return bytes.count }
          offset = UnsafeRawPointer(hit) - start
          if offset + 1 < bytes.count, bytes[offset + 1] == 0 { offset += 2 }
          continue
        }
        switch bytes[offset + 1] {
        case 0xFF: offset += 1
        case 0, 0x01, 0xD0...0xD8: offset += 2
        case 0xD9: return offset + 2
        case let marker:
          let end = offset + 2 + (Int(bytes[offset + 2]) << 8 | Int(bytes[offset + 3]))
          guard end >= offset + 4, end <= bytes.count else { return bytes.count }
          guard body(Segment(marker: marker, start: offset, body: (offset + 4)..<end)) else { return offset }
          offset = end
        }
      }
      return bytes.count
    }
  }

  // MARK: EXIF

  private static func exif(_ file: [UInt8]) -> TIFF? {
    let segment = headers(file).first { $0.marker == 0xE1 && file[$0.body].starts(with: Array("Exif\0\0".utf8)) }
    return segment.map { TIFF(bytes: file[$0.body.dropFirst(6)]) }
  }

  private struct TIFF {
    let bytes: ArraySlice<UInt8>

    func number(_ offset: Int, bytes count: Int) -> Int? {
      guard offset >= 0, offset <= bytes.count - count else { return nil }
      let digits = bytes.dropFirst(offset).prefix(count)
      let isLittle = bytes.starts(with: Array("II".utf8))
      return (isLittle ? digits.reversed() : Array(digits)).reduce(0) { $0 << 8 | Int($1) }
    }

    /// Offset of an entry of the first directory.
    func entry(_ tag: Int) -> Int? {
      guard let directory = number(4, bytes: 4), let count = number(directory, bytes: 2) else { return nil }
      return (0..<count).lazy.map { directory + 2 + 12 * $0 }.first { number($0, bytes: 2) == tag }
    }
  }
}
