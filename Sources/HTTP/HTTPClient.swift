internal import CCrypto
internal import CCurl
public import Foundation
internal import Synchronization

/// Sends requests by libcurl, over HTTP/1.1, each over a connection of its own: where one that was kept is cut, libcurl sends the request
/// again by itself, and nobody learns how much had arrived. Connections are kept only for what reads, and only if that is wanted.
///
/// It follows no redirects, since a POST would become a GET and a key could go to another host.
///
///     let client = try HTTPClient(key: key, timeout: 30)
///     let answer = try await client.send("GET", url)
public struct HTTPClient: Sendable {
  /// A server's answer, of whatever status: also one of 404 or 500 is an answer.
  public struct Answer: Sendable {
    public var status: Int
    /// Names in lower case.
    public var headers: [String: String]
    /// Its first bytes, at most `answerLimit`.
    public var body: Data
  }

  /// The bytes that a request sends.
  public enum Body: Sendable {
    case none
    case data(Data)
    /// Streamed from a file.
    case file(String)
  }

  /// Nothing can be sent at all.
  public struct Unusable: Error, CustomStringConvertible {
    /// The part that is missing: the library itself, or the certificates of the authorities that it trusts.
    public enum Cause: Sendable { case library, certificates }
    public var cause: Cause
    public var description: String
  }

  /// A request to which no answer came.
  public struct NoAnswer: Error, CustomStringConvertible {
    public var description: String
    /// Whether the server's certificate is not trusted: another attempt would end in the same way.
    public var isUntrusted = false
    /// Whether there was no connection at all.
    public var isOutage = false
  }

  /// Bytes of an answer that are kept.
  public static let answerLimit = 4 << 20

  private let key: String?
  private let timeout: Double
  private let certificates: String?
  private let keepsConnections: Bool
  private let connections = Connections()

  /// - Parameters:
  ///   - key: API key that every request carries.
  ///   - timeout: Seconds without a byte after which a request fails.
  ///   - certificates: PEM file of certificates that count beside those of the system.
  ///   - keepsConnections: Whether requests of GET and HEAD use the connections of earlier ones.
  /// - Throws: `Unusable` without libcurl, and for a file without certificates.
  public init(key: String? = nil, timeout: Double, certificates: String? = nil, keepsConnections: Bool = false) throws {
    if let problem = ccurl_load() {
      throw Unusable(cause: .library, description: "libcurl cannot be used (\(String(cString: problem))); on Debian, install libcurl4")
    }
    if let certificates, !Self.holdsCertificate(certificates) {
      throw Unusable(cause: .certificates, description: "\(certificates): expected a PEM file with certificates")
    }
    (self.key, self.timeout, self.certificates, self.keepsConnections) = (key, timeout, certificates, keepsConnections)
  }

  private static func holdsCertificate(_ path: String) -> Bool {
    guard let file = BIO_new_file(path, "r") else { return false }
    defer { BIO_free(file) }
    guard let certificate = PEM_read_bio_X509(file, nil, nil, nil) else { return false }
    X509_free(certificate)
    return true
  }

  /// Sends a request and waits for its answer.
  ///
  /// - Parameters:
  ///   - target: The file for the body of an answer 200 or 206; other bodies, and all without it, are in the answer.
  ///   - sent: Told the bytes of the body as they go.
  /// - Throws: `NoAnswer` where none came, `CancellationError` when the task was cancelled.
  public func send(
    _ method: String, _ url: URL, headers: [String: String] = [:], body: Body = .none, into target: FileHandle? = nil,
    sent: @escaping @Sendable (Int64) -> Void = { _ in }
  ) async throws -> Answer {
    var fields = ["User-Agent": "takeset"]
    if let key { fields["Authorization"] = "Bearer \(key)" }
    fields.merge(headers) { $1 }
    let exchange = try Exchange(
      method, url, fields, body, target,
      Exchange.Limits(
        seconds: timeout, certificates: certificates, keepsConnection: keepsConnections && ["GET", "HEAD"].contains(method)), sent)
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        // A thread of its own: it waits for the network.
        Thread.detachNewThread { [connections] in
          continuation.resume(with: Result { try connections.use { try exchange.run(on: $0) } })
        }
      }
    } onCancel: {
      exchange.cancel()
    }
  }

  /// Idle connections, of which requests take one or make one.
  private final class Connections: Sendable {
    private static let limit = 16
    private let idle = Mutex<[Connection]>([])

    func use<Result>(_ body: (Connection) throws -> Result) throws -> Result {
      let connection = try idle.withLock({ $0.popLast() }) ?? Connection()
      let result = try body(connection)
      // One that has failed is not used again.
      idle.withLock { if $0.count < Self.limit { $0.append(connection) } }
      return result
    }
  }
}

/// libcurl's handles for one request at a time, with the connections that it keeps.
///
/// `@unchecked Sendable`: one request uses it; only `wake` comes from elsewhere, which libcurl allows.
final class Connection: @unchecked Sendable {
  let easy: UnsafeMutableRawPointer
  let multi: UnsafeMutableRawPointer

  /// Throws `HTTPClient.NoAnswer` without memory.
  init() throws {
    guard let easy = ccurl_easy_init() else { throw HTTPClient.NoAnswer(description: "there is no memory for a connection") }
    guard let multi = ccurl_multi_init() else {
      ccurl_easy_cleanup(easy)
      throw HTTPClient.NoAnswer(description: "there is no memory for a connection")
    }
    (self.easy, self.multi) = (easy, multi)
  }

  deinit {
    ccurl_easy_cleanup(easy)
    _ = ccurl_multi_cleanup(multi)
  }

  /// Ends the pause of a transfer that waits for the network.
  func wake() { _ = ccurl_multi_wakeup(multi) }
}
