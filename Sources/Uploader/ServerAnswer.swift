import Foundation
package import HTTP

extension HTTPClient.Answer {
  /// `error.message` of the server, or another short sentence in its answer.
  package var message: String? {
    if let json = try? JSONSerialization.jsonObject(with: body) as? [String: Any] {
      if let message = (json["error"] as? [String: Any])?["message"] as? String { return Self.printable(message) }
      if let message = json["message"] as? String ?? json["error"] as? String { return Self.printable(message) }
    }
    let isText = headers["content-type"]?.hasPrefix("text/plain") ?? true
    guard isText, let text = String(data: body.prefix(300), encoding: .utf8) else { return nil }
    let words = Self.printable(text).trimmingCharacters(in: .whitespacesAndNewlines)
    return words.isEmpty ? nil : words
  }

  /// A server's words reach a terminal: no control characters.
  static func printable(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.prefix(300).map { $0.properties.generalCategory == .control ? " " : $0 }))
  }
}

extension HTTPClient.NoAnswer {
  /// Whether another attempt may succeed, and when.
  package var setback: Setback {
    isUntrusted ? .unusable("\(description); --ca-cert names one of your own") : .temporary(description, isOutage: isOutage)
  }
}

extension HTTPClient {
  /// A client for what the commands send.
  ///
  /// - Parameters:
  ///   - timeout: Seconds without a byte after which a request fails.
  ///   - certificates: PEM file of certificates that count beside those of the system, from `--ca-cert`.
  /// - Throws: `UploaderProblem`.
  package init(sending key: String?, timeout: Double, certificates: String?) throws {
    do {
      try self.init(key: key, timeout: timeout, certificates: certificates)
    } catch let unusable as Unusable {
      throw unusable.cause == .library ? UploaderProblem(unusable.description) : .usage("--ca-cert \(unusable)")
    }
  }
}

extension ServerAddress {
  /// The address that `--to` names. Throws `UploaderProblem`.
  package init(to text: String) throws {
    do { try self.init(text) } catch let invalid as Invalid { throw UploaderProblem.usage(invalid.description) }
  }
}

extension Setback {
  /// Makes the setback that an answer without success stands for.
  ///
  /// - Parameter isUpload: Whether the request was for an upload that the server had made.
  package init(_ answer: HTTPClient.Answer, isUpload: Bool) {
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
