import Foundation

/// A QuickTime movie of blank pictures at given times. The converter takes the times of a session's images from such a movie, to the
/// microsecond.
enum TimingMovie {
  /// Ticks per second.
  private static let timeScale: UInt32 = 1_000_000
  private static let side: UInt16 = 16

  /// An H.264 picture of 16x16 gray pixels, which needs no other, after its length; and its parameter sets (ISO/IEC 14496-15, 5.3.3.1).
  private static let picture: [UInt8] = [0, 0, 0, 9, 0x65, 0x88, 0x84, 0x09, 0xF2, 0x62, 0x80, 0x01, 0x3C]
  private static let parameters: [UInt8] = [
    0x01, 0x42, 0xC0, 0x0A, 0xFF, 0xE1, 0x00, 0x16, 0x67, 0x42, 0xC0, 0x0A, 0xD9, 0x1E, 0xC0, 0x44, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00,
    0x00, 0x03, 0x00, 0xF0, 0x3C, 0x48, 0x99, 0x20, 0x01, 0x00, 0x05, 0x68, 0xCB, 0x83, 0xCB, 0x20,
  ]

  /// - Parameter times: Microseconds, ascending, over less than an hour.
  static func bytes(times: [Int64]) -> [UInt8] {
    let steps = zip(times.dropFirst(), times).map { UInt32(clamping: $0 - $1) }
    let durations = steps + [steps.last ?? 33_333]
    let total = durations.reduce(UInt32(0)) { $0.addingReportingOverflow($1).partialValue }
    let count = UInt32(clamping: times.count)

    let type = box("ftyp", Array("qt  ".utf8) + word(0x200) + Array("qt  ".utf8))
    let start = UInt32(type.count + 8)
    let media = box("mdat", Array(repeatElement(picture, count: times.count).joined()))
    let entry = box(
      "avc1",
      zeros(6) + half(1) + zeros(16) + half(side) + half(side) + word(0x0048_0000) + word(0x0048_0000) + zeros(4) + half(1) + zeros(32)
        + half(24) + half(0xFFFF) + box("avcC", parameters))
    let table = box(
      "stbl",
      box("stsd", word(0) + word(1) + entry)
        + box("stts", word(0) + word(count) + durations.flatMap { word(1) + word($0) })
        + box("stsc", word(0) + word(1) + word(1) + word(count) + word(1))
        + box("stsz", word(0) + word(UInt32(picture.count)) + word(count))
        + box("stco", word(0) + word(1) + word(start)))
    let information = box(
      "minf",
      box("vmhd", word(1) + zeros(8)) + box("dinf", box("dref", word(0) + word(1) + box("url ", word(1)))) + table)
    let mediaHeader = box("mdhd", word(0) + zeros(8) + word(timeScale) + word(total) + half(0x55C4) + half(0))
    let handler = box("hdlr", word(0) + Array("mhlrvide".utf8) + zeros(12) + [0])
    let trackHeader = box(
      "tkhd",
      word(3) + zeros(8) + word(1) + zeros(4) + word(total) + zeros(8) + zeros(8) + matrix + word(UInt32(side) << 16)
        + word(UInt32(side) << 16))
    let track = box("trak", trackHeader + box("mdia", mediaHeader + handler + information))
    let header = box(
      "mvhd", word(0) + zeros(8) + word(timeScale) + word(total) + word(0x1_0000) + half(0x100) + zeros(10) + matrix + zeros(24) + word(2))
    return type + media + box("moov", header + track)
  }

  private static let matrix = word(0x1_0000) + zeros(12) + word(0x1_0000) + zeros(12) + word(0x4000_0000)

  private static func box(_ type: String, _ payload: [UInt8]) -> [UInt8] {
    word(UInt32(clamping: payload.count + 8)) + Array(type.utf8) + payload
  }
  private static func word(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
  private static func half(_ value: UInt16) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
  private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
}
