import CFFmpeg
import Model

/// The frames of a video as a recorder sends them: each the access unit of one frame, in the order in which they are shown, in the byte stream
/// format of H.264 or H.265 (Annex B of both), with the parameter sets before the frames at which decoding can start.
package struct AccessUnits: Sendable {
  /// Replaces `bytes` by a unit. Throws an error whose description is a sentence.
  package typealias Read = @Sendable (_ unit: Int, _ bytes: inout [UInt8]) throws -> Void

  package let isHEVC: Bool
  package let count: Int
  /// Of all together.
  package let bytes: Int64
  package let read: Read

  package init(isHEVC: Bool, count: Int, bytes: Int64, read: @escaping Read) {
    (self.isHEVC, self.count, self.bytes, self.read) = (isHEVC, count, bytes, read)
  }

  var codec: AVCodecID { isHEVC ? AV_CODEC_ID_HEVC : AV_CODEC_ID_H264 }

  /// Whether a decoder can start at a unit: it has a picture that refers to no other one.
  package static func isStart(_ unit: [UInt8], isHEVC: Bool) -> Bool {
    var zeros = 0
    for (index, byte) in unit.enumerated() {
      if byte == 1, zeros >= 2, index + 1 < unit.count {
        let header = unit[index + 1]
        if isHEVC ? (16...21).contains(header >> 1 & 63) : header & 31 == 5 { return true }
      }
      zeros = byte == 0 ? zeros + 1 : 0
    }
    return false
  }
}

extension Movie {
  /// The ticks of access units, which have no times: one for each.
  static let unitTimeBase: (numerator: Int64, denominator: Int64) = (1, 1000)

  /// Decodes the first frame. The times of samples are their numbers; they are decoded as one run, because it is unknown which parameter
  /// sets a later one needs.
  ///
  /// - Throws: `MovieError`.
  package init(_ units: AccessUnits, limits: MovieLimits = MovieLimits()) throws {
    guard units.count > 0 else { throw MovieError(.noVideo, "there are no frames") }
    guard units.count <= limits.samples else { throw MovieError(.limit, "there are \(units.count) frames, more than \(limits.samples)") }
    let samples = (0..<units.count).map { Sample(presentation: Int64($0), decoding: Int64($0), isSync: $0 == 0) }
    let decoder = try MovieDecoder(Demuxer(units), samples: samples, side: limits.side)
    let frame = try decoder.next()
    guard frame.size.width <= limits.side, frame.size.height <= limits.side else {
      throw MovieError(.limit, "the frames are \(frame.size), over the limit of \(limits.side)x\(limits.side)")
    }
    try limits.check(samples: units.count, of: frame.size, bytes: units.bytes)
    try self.init(units, samples, size: frame.size, color: frame.color, pixelAspect: frame.pixelAspect)
    try color.check(refusesHDR: limits.refusesHDR)
  }
}
