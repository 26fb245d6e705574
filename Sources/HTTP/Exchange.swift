internal import CCurl
internal import Foundation
internal import Synchronization

/// One request and its answer.
///
/// `@unchecked Sendable`: the thread that runs it uses everything but the state behind the lock.
final class Exchange: @unchecked Sendable {
  struct Limits {
    /// Seconds without a byte.
    var seconds: Double
    /// PEM file of certificates that count beside those of the system.
    var certificates: String?
    /// Whether it may use the connection of an earlier request, and leave it to a later one.
    var keepsConnection: Bool
  }

  private struct State {
    var isCancelled = false
    var connection: Connection?
  }

  private let method: String
  private let url: String
  private let headers: [String: String]
  private let source: Source?
  private let target: FileHandle?
  private let limits: Limits
  private let sent: @Sendable (Int64) -> Void
  private let state = Mutex(State())

  private var position: Int64 = 0
  /// Time at which a byte was last sent or received, in seconds of the system's uptime.
  private var active = 0.0
  private var told: Int64 = 0
  private var answer = HTTPClient.Answer(status: 0, headers: [:], body: Data())
  /// The reason why a body could not be read or written.
  private var problem: String?

  private enum Source {
    case data(Data)
    case file(FileHandle)
  }

  /// Throws `HTTPClient.NoAnswer` if the body's file cannot be read.
  init(
    _ method: String, _ url: URL, _ headers: [String: String], _ body: HTTPClient.Body, _ target: FileHandle?, _ limits: Limits,
    _ sent: @escaping @Sendable (Int64) -> Void
  ) throws {
    (self.method, self.url, self.headers) = (method, url.absoluteString, headers)
    (self.target, self.limits, self.sent) = (target, limits, sent)
    switch body {
    case .none: (source, count) = (nil, 0)
    case .data(let data): (source, count) = (.data(data), Int64(data.count))
    case .file(let path):
      do {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        count = Int64(try file.seekToEnd())
        source = .file(file)
        try file.seek(toOffset: 0)
      } catch {
        throw HTTPClient.NoAnswer(description: "\(path) cannot be read")
      }
    }
  }

  private let count: Int64

  /// The request is not wanted any more, and ends soon.
  func cancel() {
    let connection = state.withLock { state in
      state.isCancelled = true
      return state.connection
    }
    connection?.wake()
  }

  private var isCancelled: Bool { state.withLock { $0.isCancelled } }

  /// Sends the request, and waits for its answer. Throws `HTTPClient.NoAnswer`, `CancellationError`.
  func run(on connection: Connection) throws -> HTTPClient.Answer {
    state.withLock { $0.connection = connection }
    defer { state.withLock { $0.connection = nil } }
    let easy = connection.easy
    // Its connections stay.
    ccurl_easy_reset(easy)
    var list: UnsafeMutablePointer<curl_slist>?
    defer { ccurl_slist_free_all(list) }
    func add(_ line: String) { if let longer = ccurl_slist_append(list, line) { list = longer } }
    for (name, value) in headers { add("\(name): \(value.filter { !$0.isNewline && $0 != "\0" })") }
    // It would wait a second for servers that know nothing of it.
    add("Expect:")
    if !limits.keepsConnection { add("Connection: close") }
    if source == nil, ["POST", "PUT", "PATCH"].contains(method) { add("Content-Length: 0") }
    set(easy, list)
    active = ProcessInfo.processInfo.systemUptime
    guard ccurl_multi_add_handle(connection.multi, easy) == CURLM_OK else {
      throw HTTPClient.NoAnswer(description: "the connection failed")
    }
    defer { _ = ccurl_multi_remove_handle(connection.multi, easy) }

    var running: Int32 = 1
    while running > 0 {
      guard !isCancelled else { throw CancellationError() }
      guard ccurl_multi_perform(connection.multi, &running) == CURLM_OK else {
        throw HTTPClient.NoAnswer(description: "the connection failed")
      }
      guard running > 0 else { break }
      let rest = limits.seconds - (ProcessInfo.processInfo.systemUptime - active)
      guard rest > 0 else { throw failure(CURLE_OPERATION_TIMEDOUT, easy) }
      _ = ccurl_multi_poll(connection.multi, nil, 0, Int32(min(rest, 1) * 1000) + 1, nil)
    }
    var left: Int32 = 0
    let code = ccurl_multi_info_read(connection.multi, &left)?.pointee.data.result ?? CURLE_RECV_ERROR
    guard !isCancelled else { throw CancellationError() }
    guard code == CURLE_OK else { throw failure(code, easy) }
    answer.status = Int(ccurl_number(easy, CURLINFO_RESPONSE_CODE))
    return answer
  }

  private func set(_ easy: UnsafeMutableRawPointer, _ list: UnsafeMutablePointer<curl_slist>?) {
    _ = ccurl_set_text(easy, CURLOPT_URL, url)
    _ = ccurl_set_list(easy, CURLOPT_HTTPHEADER, list)
    _ = ccurl_set_number(easy, CURLOPT_NOSIGNAL, 1)
    _ = ccurl_set_number(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
    // The path is signed, or what a server gave.
    _ = ccurl_set_number(easy, CURLOPT_PATH_AS_IS, 1)
    if !limits.keepsConnection {
      _ = ccurl_set_number(easy, CURLOPT_FRESH_CONNECT, 1)
      _ = ccurl_set_number(easy, CURLOPT_FORBID_REUSE, 1)
    }
    if let certificates = limits.certificates { _ = ccurl_set_text(easy, CURLOPT_CAINFO, certificates) }
    if source != nil {
      _ = ccurl_set_number(easy, CURLOPT_UPLOAD, 1)
      _ = ccurl_set_size(easy, CURLOPT_INFILESIZE_LARGE, curl_off_t(count))
    }
    if method == "HEAD" { _ = ccurl_set_number(easy, CURLOPT_NOBODY, 1) }
    _ = ccurl_set_text(easy, CURLOPT_CUSTOMREQUEST, method)
    ccurl_set_calls(easy, Self.calls, Unmanaged.passUnretained(self).toOpaque())
  }

  // MARK: What libcurl calls

  private static func of(_ context: UnsafeMutableRawPointer?) -> Exchange? {
    context.map { Unmanaged<Exchange>.fromOpaque($0).takeUnretainedValue() }
  }

  private static let calls = ccurl_calls(
    read: { bytes, size, count, context in bytes.flatMap { Exchange.of(context)?.read($0, size * count) } ?? Exchange.abort },
    seek: { context, offset, _ in Exchange.of(context)?.seek(to: offset) ?? CURL_SEEKFUNC_FAIL },
    head: { bytes, size, count, context in
      if let bytes { Exchange.of(context)?.hear(UnsafeRawBufferPointer(start: bytes, count: size * count)) }
      return size * count
    },
    write: { bytes, size, count, context in
      guard let bytes, let exchange = Exchange.of(context) else { return 0 }
      return exchange.take(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : 0
    },
    progress: { context, _, _, _, sent in
      guard let exchange = Exchange.of(context), !exchange.isCancelled else { return 1 }
      exchange.tell(sent)
      return 0
    })

  /// CURL_READFUNC_ABORT, whose macro is not imported.
  private static let abort = 0x1000_0000

  private func read(_ bytes: UnsafeMutablePointer<CChar>, _ room: Int) -> Int {
    active = ProcessInfo.processInfo.systemUptime
    let size = Int(min(count - position, Int64(room)))
    guard size > 0 else { return 0 }
    let block: Data
    switch source {
    case .data(let data): block = data.dropFirst(Int(position)).prefix(size)
    case .file(let file): block = (try? file.read(upToCount: size)) ?? Data()
    case .none: return 0
    }
    guard !block.isEmpty else {
      problem = "the body could not be read"
      return Self.abort
    }
    block.copyBytes(to: UnsafeMutableRawBufferPointer(start: bytes, count: block.count))
    position += Int64(block.count)
    return block.count
  }

  /// The body begins again, where a connection that was kept turned out to be closed.
  private func seek(to offset: curl_off_t) -> Int32 {
    position = Int64(offset)
    if case .file(let file) = source, (try? file.seek(toOffset: UInt64(offset))) == nil { return CURL_SEEKFUNC_FAIL }
    return CURL_SEEKFUNC_OK
  }

  /// A line of the answer's head.
  private func hear(_ line: UnsafeRawBufferPointer) {
    active = ProcessInfo.processInfo.systemUptime
    let text = String(decoding: line, as: UTF8.self)
    if text.hasPrefix("HTTP/") {
      // An answer such as 100 comes before the real one.
      answer = HTTPClient.Answer(status: text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0, headers: [:], body: Data())
    } else if let colon = text.firstIndex(of: ":") {
      answer.headers[text[..<colon].lowercased()] = text[text.index(after: colon)...].trimmingCharacters(in: .whitespacesAndNewlines)
    }
  }

  private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
    active = ProcessInfo.processInfo.systemUptime
    guard let target, [200, 206].contains(answer.status) else {
      answer.body.append(contentsOf: bytes.prefix(max(HTTPClient.answerLimit - answer.body.count, 0)))
      return true
    }
    do {
      try target.write(contentsOf: bytes)
      return true
    } catch {
      problem = "the answer could not be written"
      return false
    }
  }

  private func tell(_ bytes: curl_off_t) {
    guard Int64(bytes) != told else { return }
    active = ProcessInfo.processInfo.systemUptime
    told = Int64(bytes)
    sent(told)
  }

  private func failure(_ code: CURLcode, _ easy: UnsafeMutableRawPointer) -> HTTPClient.NoAnswer {
    if let problem { return .init(description: problem) }
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: return .init(description: "the host is unknown", isOutage: true)
    case CURLE_COULDNT_CONNECT: return .init(description: "no server answers there", isOutage: true)
    case CURLE_OPERATION_TIMEDOUT:
      let isConnected = ccurl_size(easy, CURLINFO_CONNECT_TIME_T) > 0
      return isConnected
        ? .init(description: "the server did not answer in time") : .init(description: "no server answers there", isOutage: true)
    case CURLE_PEER_FAILED_VERIFICATION:
      return .init(
        description: limits.certificates.map { "neither this machine nor \($0) trusts the server's certificate for that name" }
          ?? "this machine does not trust the server's certificate", isUntrusted: true)
    case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE: return .init(description: "the connection was lost")
    case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL: return .init(description: "the server gave no HTTP answer")
    default: return .init(description: "the connection failed")
    }
  }
}
