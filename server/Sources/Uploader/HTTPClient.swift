import Foundation
import FoundationNetworking
import Synchronization

/// Sends requests, each over a connection of its own: where a connection that is used again is cut, the library repeats the request by
/// itself, without its body, and then waits for ever.
///
/// It follows no redirects, since a POST would become a GET and a key could go to another host.
struct HTTPClient: Sendable {
  struct Answer: Sendable {
    var status: Int
    /// Names in lower case.
    var headers: [String: String]
    var body: Data

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

  enum Body: Sendable {
    case none
    case data(Data)
    /// Streamed from a file.
    case file(String)
  }

  /// No answer came.
  struct NoAnswer: Error, CustomStringConvertible {
    var description: String
    /// Whether another attempt would end in the same way.
    var isFinal = false
    /// Whether there was no connection at all.
    var isOutage = false

    var setback: Setback { isFinal ? .unusable(description) : .temporary(description, isOutage: isOutage) }
  }

  private let key: String?
  private let timeout: Double
  private let trusted: TrustedExchange?

  /// - Parameters:
  ///   - key: API key that every request carries.
  ///   - timeout: Seconds without a byte after which a request fails.
  ///   - certificates: PEM file of certificates that count beside those of the system.
  /// - Throws: `UploaderProblem` for a file without certificates.
  init(key: String?, timeout: Double, certificates: String? = nil) throws {
    self.key = key
    self.timeout = timeout
    trusted = try certificates.map { try TrustedExchange($0, timeout: timeout) }
  }

  /// Bytes of an answer that are kept.
  static let answerLimit = 4 << 20

  /// Throws `NoAnswer` where none came, `CancellationError` when the task was cancelled.
  ///
  /// - Parameter sent: Told the bytes of the body as they go.
  func send(
    _ method: String, _ url: URL, headers: [String: String] = [:], body: Body = .none, sent: @escaping @Sendable (Int64) -> Void = { _ in }
  ) async throws -> Answer {
    var fields = ["User-Agent": "takeset"]
    if let key { fields["Authorization"] = "Bearer \(key)" }
    fields.merge(headers) { $1 }
    if let trusted, url.scheme?.lowercased() == "https" {
      return try await trusted.send(method, url, headers: fields, body: body, sent: sent)
    }
    var request = URLRequest(url: url)
    request.httpMethod = method
    for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
    let configuration = URLSessionConfiguration.ephemeral
    configuration.timeoutIntervalForRequest = timeout
    configuration.httpShouldSetCookies = false
    configuration.urlCredentialStorage = nil
    configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
    let exchange = Exchange(sent)
    let session = URLSession(configuration: configuration, delegate: exchange, delegateQueue: nil)
    let task: URLSessionTask =
      switch body {
      case .none: session.dataTask(with: request)
      case .data(let data): session.uploadTask(with: request, from: data)
      case .file(let path): session.uploadTask(with: request, fromFile: URL(fileURLWithPath: path))
      }
    defer { session.finishTasksAndInvalidate() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        exchange.begin(continuation)
        // A cancellation before the continuation is known would otherwise be lost.
        if Task.isCancelled { exchange.cancel() }
        task.resume()
      }
    } onCancel: {
      // The library's task is left alone: it crashes where one is cancelled while it fails. What is cancelled ends with the program.
      exchange.cancel()
    }
  }

  /// Gathers the answer to one request.
  private final class Exchange: NSObject, URLSessionDataDelegate, Sendable {
    private struct State {
      var continuation: CheckedContinuation<Answer, any Error>?
      var body = Data()
      var isCancelled = false
    }

    private let state = Mutex(State())
    private let sent: @Sendable (Int64) -> Void

    init(_ sent: @escaping @Sendable (Int64) -> Void) { self.sent = sent }

    func begin(_ continuation: CheckedContinuation<Answer, any Error>) { state.withLock { $0.continuation = continuation } }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
      state.withLock { $0.body.append(data.prefix(max(HTTPClient.answerLimit - $0.body.count, 0))) }
    }

    func urlSession(
      _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64
    ) { sent(totalBytesSent) }

    func urlSession(
      _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
      completionHandler: @escaping (URLRequest?) -> Void
    ) { completionHandler(nil) }

    /// No passwords: the answer 401 itself is what is wanted. The library would wait for ever for a password, or drop the answer.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
      completionHandler: @escaping (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
      guard let response = challenge.failureResponse as? HTTPURLResponse else { return completionHandler(.performDefaultHandling, nil) }
      finish { .success(Self.answer(response, $0)) }
      completionHandler(.cancelAuthenticationChallenge, nil)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
      finish { body in
        if let error { return .failure(self.isCancelled ? CancellationError() : HTTPClient.noAnswer(error)) }
        guard let response = task.response as? HTTPURLResponse else {
          return .failure(NoAnswer(description: "the server gave no HTTP answer"))
        }
        return .success(Self.answer(response, body))
      }
    }

    /// Ends the request, once.
    private func finish(_ result: (Data) -> Result<Answer, any Error>) {
      let (continuation, body) = state.withLock { state in
        defer { state.continuation = nil }
        return (state.continuation, state.body)
      }
      continuation?.resume(with: result(body))
    }

    private static func answer(_ response: HTTPURLResponse, _ body: Data) -> Answer {
      var headers: [String: String] = [:]
      for (name, value) in response.allHeaderFields { headers["\(name)".lowercased()] = "\(value)" }
      return Answer(status: response.statusCode, headers: headers, body: body)
    }

    private var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// The request fails because it is not wanted any more.
    func cancel() {
      state.withLock { $0.isCancelled = true }
      finish { _ in .failure(CancellationError()) }
    }
  }

  private static func noAnswer(_ error: any Error) -> NoAnswer {
    switch (error as? URLError)?.code ?? URLError.Code(rawValue: (error as NSError).code) {
    case .cannotFindHost, .dnsLookupFailed: return NoAnswer(description: "the host is unknown", isOutage: true)
    case .cannotConnectToHost: return NoAnswer(description: "no server answers there", isOutage: true)
    case .networkConnectionLost: return NoAnswer(description: "the connection was lost")
    case .timedOut: return NoAnswer(description: "the server did not answer in time")
    default:
      // The library has no codes for these here, only libcurl's words.
      let words = error.localizedDescription
      if words.contains("certificate") {
        return NoAnswer(description: "this machine does not trust the server's certificate; --ca-cert names one of your own", isFinal: true)
      }
      let isLost = words.contains("Send failure") || words.contains("Recv failure")
      return NoAnswer(description: isLost ? "the connection was lost" : "the connection failed")
    }
  }
}
