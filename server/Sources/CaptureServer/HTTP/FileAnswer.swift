import Foundation
import HTTPTypes
import Hummingbird

/// A stored file as an answer: whole, a part of it, or its head (RFC 9110, sections 13 and 14).
struct FileAnswer {
  let store: any CaptureStore
  let file: CaptureFile
  /// The client's name, for the type and for people who save the file.
  let name: String
  /// Whether a browser may open it in place. That is for movies, which run nothing.
  let isShown: Bool

  func response(to request: Request) throws -> Response {
    let tag = "\"\(file.sha256)\""
    var headers: HTTPFields = [
      .acceptRanges: "bytes", .eTag: tag, .cacheControl: "private, no-cache", .contentType: MediaType.of(name),
      .contentDisposition: "\(isShown ? "inline" : "attachment"); \(Self.fileName(name))", .xContentTypeOptions: "nosniff",
    ]
    if !isShown { headers[.contentSecurityPolicy] = "default-src 'none'; sandbox" }
    if let known = request.headers[.ifNoneMatch], known == "*" || known.contains(tag) {
      return Response(status: .notModified, headers: headers)
    }
    var part = 0..<file.bytes
    var status = HTTPResponse.Status.ok
    // A range of a head means nothing.
    if request.method == .get, let wanted = request.headers[.range], request.headers[.ifRange].map({ $0 == tag }) ?? true {
      switch ByteRange.choose(wanted, of: file.bytes) {
      case .whole: break
      case .part(let wanted):
        part = wanted
        status = .partialContent
        headers[.contentRange] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(file.bytes)"
      case .unsatisfiable:
        throw Failure(
          .rangeNotSatisfiable, "RANGE_NOT_SATISFIABLE", "The file has \(file.bytes) bytes",
          headers: [.contentRange: "bytes */\(file.bytes)"])
      }
    }
    headers[.contentLength] = "\(part.count)"
    if request.method == .head { return Response(status: status, headers: headers) }
    return Response(
      status: status, headers: headers,
      body: ResponseBody(contentLength: part.count) { [store, file, part] writer in
        try await store.read(file, part) { try await writer.write($0) }
        try await writer.finish(nil)
      })
  }

  /// The name in letters that every client reads, and as it is (RFC 6266, section 4.3).
  private static func fileName(_ name: String) -> String {
    let plain = name.unicodeScalars.map { plainLetters.contains($0) ? Character($0) : "_" }
    return "filename=\"\(String(plain))\"; filename*=UTF-8''\(Figure.address(name))"
  }

  private static let plainLetters = CharacterSet(charactersIn: " ()+,=@").union(Figure.unreserved)
}

/// Types of files by their names.
enum MediaType {
  private static let movies = ["mov": "video/quicktime", "qt": "video/quicktime", "mp4": "video/mp4", "m4v": "video/mp4"]
  private static let others = [
    "csv": "text/csv", "gz": "application/gzip", "jpeg": "image/jpeg", "jpg": "image/jpeg", "json": "application/json", "png": "image/png",
    "tar": "application/x-tar", "tsv": "text/tab-separated-values", "txt": "text/plain", "zip": "application/zip",
  ]

  static func isMovie(_ name: String) -> Bool { movies[ending(name)] != nil }

  static func of(_ name: String) -> String {
    movies[ending(name)] ?? others[ending(name)] ?? "application/octet-stream"
  }

  private static func ending(_ name: String) -> String { (name as NSString).pathExtension.lowercased() }
}

/// The header `Range` (RFC 9110, section 14.2).
///
///     ByteRange.choose("bytes=0-99", of: 1000)     // .part(0..<100)
///     ByteRange.choose("bytes=-1", of: 1000)       // .part(999..<1000)
package enum ByteRange {
  /// The bytes that an answer holds.
  package enum Choice: Equatable, Sendable {
    /// The whole file, for no range, for several, and for one that is not understood.
    case whole
    case part(Range<Int64>)
    case unsatisfiable
  }

  /// Returns the part of a file of `size` bytes that a header asks for. A single range counts; syntax that is not understood means the
  /// whole file.
  package static func choose(_ header: String, of size: Int64) -> Choice {
    guard let match = header.wholeMatch(of: #/bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*/#) else { return .whole }
    switch (Int64(match.1), Int64(match.2)) {
    case (nil, nil): return .whole
    case (nil, let count?):
      guard count > 0, size > 0 else { return .unsatisfiable }
      return .part(max(0, size - count)..<size)
    case (let first?, let last):
      if let last, last < first { return .whole }
      guard first < size else { return .unsatisfiable }
      return .part(first..<min(size, (last ?? size - 1) + 1))
    }
  }
}
