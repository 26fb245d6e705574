import Crypto
import Foundation
import FoundationNetworking

/// Requests to one bucket of an S3-compatible server. Failures that may pass are tried again.
struct S3Client: Sendable {
  /// `s3://bucket/prefix?endpoint=https://host:port&region=name`; credentials come from the environment, as for AWS's own tools.
  struct Location: Sendable {
    var endpoint: URL
    var bucket: String
    /// With a slash at its end, or empty.
    var prefix: String
    var region: String

    /// Throws `Mistake`.
    init(_ text: String) throws {
      guard let parts = URLComponents(string: text), parts.scheme == "s3", let bucket = parts.host, !bucket.isEmpty else {
        throw Mistake("store: expected s3://bucket/prefix?endpoint=URL&region=NAME, found \(text)")
      }
      let options = (parts.queryItems ?? []).reduce(into: [:]) { $0[$1.name] = $1.value }
      if let unknown = options.keys.sorted().first(where: { !["endpoint", "region"].contains($0) }) {
        throw Mistake("store: \(unknown): unknown; an S3 store has endpoint and region")
      }
      region = options["region"] ?? "us-east-1"
      let address = options["endpoint"] ?? "https://s3.\(region).amazonaws.com"
      guard let endpoint = URL(string: address), let scheme = endpoint.scheme, ["http", "https"].contains(scheme), endpoint.host != nil
      else {
        throw Mistake("store: endpoint: expected an address such as https://s3.example.com, found \(address)")
      }
      self.endpoint = endpoint
      self.bucket = bucket
      let folder = parts.path.trimmingCharacters(in: CharacterSet(charactersIn: "/"))
      prefix = folder.isEmpty ? "" : folder + "/"
    }
  }

  struct Refusal: Error, CustomStringConvertible {
    var status: Int
    var description: String
  }

  let location: Location
  private let signature: S3Signature
  private static let attempts = 5

  /// Throws `Mistake` where the environment has no credentials.
  init(_ location: Location, environment: [String: String] = ProcessInfo.processInfo.environment) throws {
    guard let key = environment["AWS_ACCESS_KEY_ID"], let secret = environment["AWS_SECRET_ACCESS_KEY"] else {
      throw Mistake("store: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
    }
    self.location = location
    signature = S3Signature(credentials: .init(key: key, secret: secret, token: environment["AWS_SESSION_TOKEN"]), region: location.region)
  }

  /// Sends a request for a key below the prefix, or for the bucket if the key is `nil`. Throws `Refusal` for an answer that is no success,
  /// except 404, where the result is `nil`.
  @discardableResult
  func send(
    _ method: String, _ key: String?, query: [(String, String)] = [], headers: [String: String] = [:], body: Data = Data()
  ) async throws -> (body: Data, headers: [String: String])? {
    let path =
      "/" + S3Signature.encoded(location.bucket) + (key.map { "/" + S3Signature.encoded(location.prefix + $0, keepsSlashes: true) } ?? "")
    let host = (location.endpoint.host ?? "") + (location.endpoint.port.map { ":\($0)" } ?? "")
    let digest = Hex.text(SHA256.hash(data: body))
    let queryText = query.isEmpty ? "" : "?" + S3Signature.encoded(query)
    guard let url = URL(string: "\(location.endpoint.scheme ?? "https")://\(host)\(path)\(queryText)") else {
      throw Refusal(status: 0, description: "\(path) is no path")
    }
    for attempt in 1... {
      var request = URLRequest(url: url)
      request.httpMethod = method
      let signed = signature.headers(
        method: method, host: host, path: path, query: query, headers: headers, bodyDigest: digest, time: Time.now() / 1000)
      for (name, value) in signed { request.setValue(value, forHTTPHeaderField: name) }
      if !body.isEmpty { request.httpBody = body }
      // A connection of its own for each request: URLSession sends a request again without its body where a reused one was reset.
      let session = URLSession(configuration: .ephemeral)
      defer { session.finishTasksAndInvalidate() }
      request.timeoutInterval = 60
      do {
        let (data, response) = try await session.data(for: request)
        guard let response = response as? HTTPURLResponse else { throw Refusal(status: 0, description: "an answer that is not HTTP") }
        switch response.statusCode {
        case 200..<300:
          return (
            data,
            response.allHeaderFields.reduce(into: [:]) { $0["\($1.key)".lowercased()] = "\($1.value)" }
          )
        case 404: return nil
        default:
          throw Refusal(
            status: response.statusCode, description: "\(method) \(path): \(response.statusCode) \(Self.element("Code", in: data) ?? "")")
        }
      } catch {
        let mayPass = (error as? Refusal).map { $0.status >= 500 || $0.status == 429 } ?? true
        guard mayPass, attempt < Self.attempts else { throw error }
        try await Task.sleep(for: .milliseconds(100 << attempt))
      }
    }
    throw Refusal(status: 0, description: "no answer")
  }

  /// The keys below a prefix of ours, or the folders directly below it.
  func list(_ prefix: String, folders: Bool = false) async throws -> [String] {
    var found: [String] = []
    var token: String?
    repeat {
      var query = [("encoding-type", "url"), ("list-type", "2"), ("prefix", location.prefix + prefix)]
      if folders { query.append(("delimiter", "/")) }
      if let token { query.append(("continuation-token", token)) }
      guard let (data, _) = try await send("GET", nil, query: query) else {
        throw Refusal(status: 404, description: "there is no bucket \(location.bucket)")
      }
      let text = String(decoding: data, as: UTF8.self)
      let places =
        folders
        ? text.components(separatedBy: "<CommonPrefixes>").dropFirst().map { $0 }
        : text.components(separatedBy: "<Contents>").dropFirst().map { $0 }
      for place in places {
        guard let key = Self.element(folders ? "Prefix" : "Key", in: Data(place.utf8))?.removingPercentEncoding else { continue }
        if key.hasPrefix(location.prefix) { found.append(String(key.dropFirst(location.prefix.count))) }
      }
      token = Self.element("IsTruncated", in: data) == "true" ? Self.element("NextContinuationToken", in: data) : nil
    } while token != nil
    return found
  }

  /// The text of the first element of a name in a small XML document without entities.
  static func element(_ name: String, in data: Data) -> String? {
    let text = String(decoding: data, as: UTF8.self)
    guard let start = text.range(of: "<\(name)>"), let end = text.range(of: "</\(name)>", range: start.upperBound..<text.endIndex) else {
      return nil
    }
    return text[start.upperBound..<end.lowerBound].replacingOccurrences(of: "&quot;", with: "\"").replacingOccurrences(
      of: "&amp;", with: "&")
  }
}
