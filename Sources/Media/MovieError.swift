import CFFmpeg
package import Model

/// A video that cannot be used: the finding's code, and a message with what was found.
package struct MovieError: Error, CustomStringConvertible, Equatable {
  package var code: FindingCode
  package var message: String

  init(_ code: FindingCode, _ message: String) {
    self.code = code
    self.message = message
  }

  package var description: String { message }

  /// FFmpeg's message for one of its error codes.
  static func words(_ code: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 128)
    av_strerror(code, &buffer, buffer.count)
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

/// The limits on a video: samples, seconds, pixels per side, and pixels in all. A larger one is refused before anything is allocated for it.
package struct MovieLimits: Sendable {
  package var samples = 20_000
  package var seconds = 600.0
  package var side = 8192
  /// Bytes of all frames as RGB for each byte of the file, where they are more than `anyBytes`. Cameras write one byte for 50 to 2,000;
  /// a file made to be decoded for hours, one for millions.
  package var ratio = 10_000.0
  static let anyBytes = 0x1p32
  /// Whether a video in HDR is refused, which is otherwise mapped to SDR.
  package var refusesHDR = false
  package init() {}

  /// Throws where decoding would take time out of proportion to the file.
  func check(samples: Int, of size: ImageSize, bytes: Int64) throws {
    let raw = Double(samples) * Double(size.width) * Double(size.height) * 3
    guard raw > Self.anyBytes, raw > ratio * Double(bytes) else { return }
    throw MovieError(
      .limit,
      "\(samples) frames of \(size) in \(bytes) bytes are \(Int(raw / Double(max(1, bytes)))) times the file, over \(Int(ratio)) times (max-video-ratio)"
    )
  }
}
