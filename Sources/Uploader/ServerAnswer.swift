import Foundation
import HTTP

extension HTTPClient.Answer {
  /// `error.message` of the server, or another short sentence in its answer.
  var message: String? {
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
  var setback: Setback {
    isUntrusted ? .unusable("\(description); --ca-cert names one of your own") : .temporary(description, isOutage: isOutage)
  }
}

extension HTTPClient {
  /// - Parameters:
  ///   - timeout: Seconds without a byte after which a request fails.
  ///   - certificates: PEM file of certificates that count beside those of the system, from `--ca-cert`.
  /// - Throws: `UploaderProblem`.
  init(sending key: String?, timeout: Double, certificates: String?) throws {
    do {
      try self.init(key: key, timeout: timeout, certificates: certificates)
    } catch let unusable as Unusable {
      throw unusable.cause == .library ? UploaderProblem(unusable.description) : .usage("--ca-cert \(unusable)")
    }
  }
}

extension ServerAddress {
  /// The address that `--to` names. Throws `UploaderProblem`.
  init(to text: String) throws {
    do { try self.init(text) } catch let invalid as Invalid { throw UploaderProblem.usage(invalid.description) }
  }
}
