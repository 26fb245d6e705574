import CFFmpeg
package import Model

/// A movie that cannot be used: which rule it breaks, and what was found.
package struct MovieError: Error, CustomStringConvertible, Equatable {
  package var code: FindingCode
  package var message: String

  init(_ code: FindingCode, _ message: String) {
    self.code = code
    self.message = message
  }

  package var description: String { message }

  /// The library's own words for one of its error numbers.
  static func words(_ code: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 128)
    av_strerror(code, &buffer, buffer.count)
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

/// What a movie may be; above it, it is refused before anything is allocated for it.
package struct MovieLimits: Sendable {
  package var samples = 20_000
  package var seconds = 600.0
  package var side = 8192
  package init() {}
}
