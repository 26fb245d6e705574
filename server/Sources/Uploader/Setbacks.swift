import Foundation

extension Setback {
  /// What an answer that is no success means.
  ///
  /// - Parameter isUpload: Whether the request was for an upload that the server had made.
  init(_ answer: HTTPClient.Answer, isUpload: Bool) {
    let said = answer.message.map { ": \($0)" } ?? ""
    let words = "the server answered \(answer.status)\(said)"
    switch answer.status {
    case 401: self = .unauthorized(words)
    case 404, 410: self = isUpload ? .gone : .final("\(words); is --to the root of a capture server?")
    case 413: self = .final("it is larger than the server takes (413\(said))")
    case 301, 302, 303, 307, 308:
      let target = answer.headers["location"].map { HTTPClient.Answer.printable($0) } ?? "another address"
      self = .final("the server redirects to \(target); give its root as --to")
    case 408, 409, 423, 425, 429, 460: self = .temporary(words, retryAfter: Backoff.seconds(retryAfter: answer.headers["retry-after"]))
    case 501, 505: self = .final(words)
    case 500...599: self = .temporary(words, retryAfter: Backoff.seconds(retryAfter: answer.headers["retry-after"]))
    default: self = .final(words)
    }
  }
}
