import Foundation
import HTTP

extension Setback {
  /// What an answer that is no success means.
  ///
  /// - Parameter isUpload: Whether the request was for an upload that the server had made.
  init(_ answer: HTTPClient.Answer, isUpload: Bool) {
    let said = answer.message.map { ": \($0)" } ?? ""
    let words = "the server answered \(answer.status)\(said)"
    switch answer.status {
    case 401: self = .unauthorized(words)
    case 404, 410: self = isUpload ? .gone : .unusable("\(words); is --to the root of a capture server?")
    case 413: self = .final("it is larger than the server takes (413\(said))")
    case 301, 302, 303, 307, 308:
      let target = answer.headers["location"].map { HTTPClient.Answer.printable($0) } ?? "another address"
      self = .unusable("the server redirects to \(target); give its root as --to")
    case 501, 505: self = .unusable(words)
    case 408, 409, 423, 425, 429, 460, 500...599:
      let retryAfter = Backoff.seconds(retryAfter: answer.headers["retry-after"])
      self = .temporary(words, retryAfter: retryAfter, isOutage: [429, 502, 503, 504, 507].contains(answer.status))
    default: self = .final(words)
    }
  }
}
