import Crypto
import Foundation
import HTTP

/// Requests to one bucket of an S3-compatible server, with the bucket's name in the path. Failures that may pass are tried again.
struct S3Client: Sendable {
  /// An answer that is no success, or none.
  struct Refusal: Error, CustomStringConvertible {
    /// 0 where there was no answer.
    var status: Int
    var description: String

    /// Whether the same request may succeed later.
    var mayPass: Bool {
      status == 0 || status >= 500 && status != 501 || [408, 409, 425, 429].contains(status) || description.contains("RequestTimeout")
    }
  }

  struct Answer: Sendable {
    var body: Data
    /// Headers by names in lower case.
    var headers: [String: String]
    /// SHA-256 of the bytes that were put, in Base64.
    var sent: String?

    /// The text of the first element of a name.
    func element(_ name: String) -> String? { elements(name).first }

    /// The contents of all elements of a name, in a small document without attributes there.
    func elements(_ name: String) -> [String] { S3Client.elements(name, in: String(decoding: body, as: UTF8.self)) }
  }

  let location: S3Location
  private let signature: S3Signature
  private let gate = S3Gate(places: 16)
  private let client: HTTPClient
  private static let attempts = 6

  /// Throws `Mistake` where the environment has no credentials, or without libcurl.
  init(_ location: S3Location, environment: [String: String] = ProcessInfo.processInfo.environment) throws {
    guard let key = environment["AWS_ACCESS_KEY_ID"], let secret = environment["AWS_SECRET_ACCESS_KEY"], !key.isEmpty, !secret.isEmpty
    else { throw Mistake("store: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set") }
    do {
      client = try HTTPClient(timeout: 60, keepsConnections: true)
    } catch {
      throw Mistake("store: \(error)")
    }
    self.location = location
    let token = environment["AWS_SESSION_TOKEN"].flatMap { $0.isEmpty ? nil : $0 }
    signature = S3Signature(credentials: .init(key: key, secret: secret, token: token), region: location.region)
  }

  /// Throws `Mistake` where the bucket cannot be listed: the wrong credentials, no such bucket, no such server.
  func check() async throws {
    do {
      let query = [("list-type", "2"), ("max-keys", "1"), ("prefix", location.prefix + "captures/")]
      guard try await send("GET", nil, query: query).element("IsTruncated") != nil else {
        throw Mistake("store: what answers at \(location.endpoint) is no S3 server")
      }
    } catch let refusal as Refusal {
      throw Mistake("store: the bucket \(location.bucket) cannot be used: \(refusal)")
    }
  }

  /// Sends a request for a key below the prefix, or for the bucket if the key is `nil`.
  ///
  /// - Parameter body: Called again for each attempt, when there is a place among the requests at a time.
  /// - Throws: `Refusal`, and what `body` throws.
  @discardableResult
  func send(
    _ method: String, _ key: String?, query: [(String, String)] = [], headers: [String: String] = [:],
    body: @Sendable () async throws -> Data = { Data() }
  ) async throws -> Answer {
    for attempt in 1..<Self.attempts {
      do {
        return try await gate.pass { try await once(method, key, query, headers, try await body()) }
      } catch let refusal as Refusal where refusal.mayPass {
        // 0.1, 0.2 … 1.6 s, and up to as much again, so that requests that failed together do not come together.
        try await Task.sleep(for: .milliseconds(Int.random(in: 1...2) * 50 << attempt))
      }
    }
    return try await gate.pass { try await once(method, key, query, headers, try await body()) }
  }

  private func once(
    _ method: String, _ key: String?, _ query: [(String, String)], _ headers: [String: String], _ body: Data
  ) async throws -> Answer {
    let path =
      "/" + S3Signature.encoded(location.bucket) + (key.map { "/" + S3Signature.encoded(location.prefix + $0, keepsSlashes: true) } ?? "")
    let address = "\(location.endpoint)\(path)\(query.isEmpty ? "" : "?" + S3Signature.encoded(query))"
    guard let url = URL(string: address) else { throw Refusal(status: 400, description: "\(address) is no address") }
    let digest = SHA256.hash(data: body)
    let sent = method == "PUT" ? Data(digest).base64EncodedString() : nil
    var headers = headers
    headers["x-amz-checksum-sha256"] = sent
    let signed = signature.headers(
      method: method, host: location.host, path: path, query: query, headers: headers, bodyDigest: Hex.text(digest),
      time: Time.now() / 1000)
    let got: HTTPClient.Answer
    do {
      got = try await client.send(method, url, headers: signed, body: body.isEmpty ? .none : .data(body))
    } catch let failure as HTTPClient.NoAnswer {
      throw Refusal(status: 0, description: "\(method) \(path): \(failure)")
    }
    if (300..<400).contains(got.status), let place = got.headers["location"].flatMap({ URLComponents(string: $0) }) {
      throw Refusal(
        status: 301, description: "\(method) \(path) was redirected to \(place.scheme ?? "")://\(place.host ?? "")\(place.path)")
    }
    let answer = Answer(body: got.body, headers: got.headers, sent: sent)
    guard (200..<300).contains(got.status) else {
      let code = [answer.element("Code"), answer.element("Message")].compactMap { $0 }.map { " " + $0 }.joined(separator: ":")
      throw Refusal(status: got.status, description: "\(method) \(path): \(got.status)\(code.prefix(300))")
    }
    // Completing an upload can fail after the head of a success was sent.
    if method != "GET", answer.element("Code") != nil, answer.element("ETag") == nil {
      throw Refusal(status: 500, description: "\(method) \(path): \(answer.element("Code") ?? "")")
    }
    if let sent, let stored = got.headers["x-amz-checksum-sha256"], stored != sent {
      throw Refusal(status: 500, description: "\(method) \(path): other bytes were stored")
    }
    return answer
  }

  /// Sends the bytes of an object or of a part of one, with their SHA-256, which the store checks.
  ///
  /// - Returns: The entity tag, and the SHA-256 in Base64.
  func put(
    _ key: String, query: [(String, String)] = [], body: @Sendable () async throws -> Data
  ) async throws -> (tag: String, checksum: String) {
    let answer = try await send("PUT", key, query: query, body: body)
    guard let tag = answer.headers["etag"], let checksum = answer.sent else {
      throw Refusal(status: 501, description: "PUT \(key): no ETag in the answer")
    }
    return (tag, checksum)
  }

  /// The keys of all objects below a prefix of ours.
  func list(_ prefix: String) async throws -> [String] {
    var found: [String] = []
    var token: String?
    repeat {
      var query = [("encoding-type", "url"), ("list-type", "2"), ("prefix", location.prefix + prefix)]
      if let token { query.append(("continuation-token", token)) }
      let page = try await send("GET", nil, query: query)
      found += try page.elements("Contents").map { try ownKey(of: $0, page) }
      token = page.element("IsTruncated") == "true" ? page.element("NextContinuationToken") : nil
    } while token != nil
    return found
  }

  /// The uploads in parts below a prefix of ours that were not completed.
  func uploads(_ prefix: String) async throws -> [(key: String, id: String)] {
    let page = try await send("GET", nil, query: [("encoding-type", "url"), ("prefix", location.prefix + prefix), ("uploads", "")])
    return try page.elements("Upload").map { (try ownKey(of: $0, page), Self.elements("UploadId", in: $0).first ?? "") }
  }

  /// The element `Key` of an entry of a list, without the prefix. Spaces may be encoded as in forms.
  private func ownKey(of entry: String, _ page: Answer) throws -> String {
    let text = Self.elements("Key", in: entry).first ?? ""
    let key = page.element("EncodingType") == "url" ? text.replacingOccurrences(of: "+", with: " ").removingPercentEncoding ?? "" : text
    guard key.hasPrefix(location.prefix) else { throw Refusal(status: 400, description: "a list has \(text), which was not asked for") }
    return String(key.dropFirst(location.prefix.count))
  }

  /// The contents of all elements of a name; entities are resolved where no element is inside.
  private static func elements(_ name: String, in text: String) -> [String] {
    text.components(separatedBy: "<\(name)>").dropFirst().compactMap { rest in
      guard let end = rest.range(of: "</\(name)>") else { return nil }
      let content = String(rest[..<end.lowerBound])
      if content.contains("<") { return content }
      return [("&quot;", "\""), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&amp;", "&")].reduce(
        content
      ) { $0.replacingOccurrences(of: $1.0, with: $1.1) }
    }
  }
}

/// The limit of requests at a time: each has a block of a file in memory.
private actor S3Gate {
  private var places: Int
  private var waiting: [CheckedContinuation<Void, Never>] = []

  init(places: Int) { self.places = places }

  nonisolated func pass<Result: Sendable>(_ body: @Sendable () async throws -> Result) async throws -> Result {
    await enter()
    do {
      let result = try await body()
      await leave()
      return result
    } catch {
      await leave()
      throw error
    }
  }

  private func enter() async {
    if places > 0 { places -= 1 } else { await withCheckedContinuation { waiting.append($0) } }
  }

  private func leave() {
    if waiting.isEmpty { places += 1 } else { waiting.removeFirst().resume() }
  }
}
