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

/// The limits on a video: samples, seconds, and pixels per side. A larger one is refused before anything is allocated for it.
package struct MovieLimits: Sendable {
  package var samples = 20_000
  package var seconds = 600.0
  package var side = 8192
  package init() {}
}
