import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS

/// Sends requests over TLS to a server whose certificate is somebody's own (`--ca-cert`). URLSession can be told of none.
struct TrustedExchange: Sendable {
  private let context: NIOSSLContext
  /// Seconds without a byte after which a request fails.
  private let timeout: Double

  /// - Parameter file: PEM file of certificates that count beside those of the system.
  /// - Throws: `UploaderProblem` for a file without certificates.
  init(_ file: String, timeout: Double) throws {
    do {
      var configuration = TLSConfiguration.makeClientConfiguration()
      configuration.additionalTrustRoots = [.certificates(try NIOSSLCertificate.fromPEMFile(file))]
      context = try NIOSSLContext(configuration: configuration)
    } catch {
      throw UploaderProblem.usage("--ca-cert \(file): expected a PEM file with certificates")
    }
    self.timeout = timeout
  }

  /// Throws `HTTPClient.NoAnswer` where none came, `CancellationError` when the task was cancelled.
  func send(
    _ method: String, _ url: URL, headers: [String: String], body: HTTPClient.Body, sent: @escaping @Sendable (Int64) -> Void
  ) async throws -> HTTPClient.Answer {
    guard let parts = URLComponents(url: url, resolvingAgainstBaseURL: true), let name = parts.encodedHost, !name.isEmpty else {
      throw HTTPClient.NoAnswer(description: "the host is unknown", isFinal: true)
    }
    let (source, count) = try await Blocking.run { try Self.source(body) }
    var fields = HTTPHeaders(headers.map { ($0.key, $0.value) })
    fields.replaceOrAdd(name: "Host", value: parts.port.map { "\(name):\($0)" } ?? name)
    fields.replaceOrAdd(name: "Connection", value: "close")
    if let count { fields.replaceOrAdd(name: "Content-Length", value: "\(count)") }
    let path = parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath
    let head = HTTPRequestHead(
      version: .http1_1, method: HTTPMethod(rawValue: method), uri: path + (parts.percentEncodedQuery.map { "?" + $0 } ?? ""),
      headers: fields)

    let host = name.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
    let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
    let limit = TimeAmount.milliseconds(Int64(timeout * 1000))
    let loop = MultiThreadedEventLoopGroup.singleton.any()
    let answer = loop.makePromise(of: HTTPClient.Answer.self)
    let connection = ClientBootstrap(group: loop).connectTimeout(limit)
      .channelInitializer { [context] channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          // A certificate for an address is compared with the one that is connected to, and `Handler` compares one for a name.
          try pipeline.addHandler(NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : host))
          try pipeline.addHandler(IdleStateHandler(allTimeout: limit))
          try pipeline.addHTTPClientHandlers()
          try pipeline.addHandler(Handler(isAddress ? nil : host, head, source, count ?? 0, sent, answer))
        }
      }
      .connect(host: host, port: parts.port ?? 443)
    connection.whenFailure { answer.fail(Self.noAnswer($0)) }
    answer.futureResult.whenComplete { _ in connection.whenSuccess { $0.close(promise: nil) } }
    return try await withTaskCancellationHandler {
      try await answer.futureResult.get()
    } onCancel: {
      answer.fail(CancellationError())
    }
  }

  private enum Source: Sendable {
    case data(Data)
    case file(FileHandle)
  }

  /// A body and its length, `nil` where there is none.
  private static func source(_ body: HTTPClient.Body) throws -> (Source, Int64?) {
    switch body {
    case .none: return (.data(Data()), nil)
    case .data(let data): return (.data(data), Int64(data.count))
    case .file(let path):
      let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
      let count = try file.seekToEnd()
      try file.seek(toOffset: 0)
      return (.file(file), Int64(count))
    }
  }

  fileprivate static func noAnswer(_ error: any Error) -> HTTPClient.NoAnswer {
    switch error {
    case let failure as HTTPClient.NoAnswer: return failure
    case let failure as NIOConnectionError:
      let isUnknown = failure.connectionErrors.isEmpty && (failure.dnsAError != nil || failure.dnsAAAAError != nil)
      return .init(description: isUnknown ? "the host is unknown" : "no server answers there", isOutage: true)
    case ChannelError.connectTimeout: return .init(description: "no server answers there", isOutage: true)
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
      guard "\(error)".uppercased().contains("CERTIFICATE") || error is NIOSSLExtraError else { break }
      return untrusted
    case is IOError, is HTTPParserError, is ChannelError: return .init(description: "the connection was lost")
    default: break
    }
    return .init(description: "the connection failed")
  }

  private static let untrusted = HTTPClient.NoAnswer(
    description: "neither this machine nor --ca-cert trusts the server's certificate for that name", isFinal: true)

  /// Whether a certificate is for a name. The library also accepts one for the address that the name has led to, which whoever answers for
  /// names could choose.
  private static func isFor(_ name: String, _ certificate: NIOSSLCertificate) -> Bool {
    certificate._subjectAlternativeNames().contains { known in
      guard known.nameType == .dnsName else { return false }
      let pattern = known.contents.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }.lowercased()
      return pattern == name.lowercased() || (pattern.hasPrefix("*.") && pattern.dropFirst() == name.lowercased().drop { $0 != "." })
    }
  }

  /// Sends a request and gathers its answer.
  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private static let blockSize = 256 << 10

    /// The server's; `nil` where it has only an address.
    private let name: String?
    private let head: HTTPRequestHead
    private let source: Source
    private let count: Int64
    private let sent: @Sendable (Int64) -> Void
    private let promise: EventLoopPromise<HTTPClient.Answer>
    private var position: Int64 = 0
    private var answer = HTTPClient.Answer(status: 0, headers: [:], body: Data())

    init(
      _ name: String?, _ head: HTTPRequestHead, _ source: Source, _ count: Int64, _ sent: @escaping @Sendable (Int64) -> Void,
      _ promise: EventLoopPromise<HTTPClient.Answer>
    ) {
      (self.name, self.head, self.source, self.count, self.sent, self.promise) = (name, head, source, count, sent, promise)
    }

    private func writeNext(_ context: ChannelHandlerContext) {
      guard position < count else { return context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil) }
      let size = Int(min(count - position, Int64(Self.blockSize)))
      let block: Data
      switch source {
      case .data(let data): block = data.dropFirst(Int(position)).prefix(size)
      case .file(let file): block = (try? file.read(upToCount: size)) ?? Data()
      }
      guard !block.isEmpty else { return fail(HTTPClient.NoAnswer(description: "the body could not be read"), context) }
      position += Int64(block.count)
      context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: block))))).assumeIsolated().whenSuccess {
        self.sent(self.position)
        self.writeNext(context)
      }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head):
        answer.status = Int(head.status.code)
        for (name, value) in head.headers { answer.headers[name.lowercased()] = value }
      case .body(let bytes):
        answer.body.append(contentsOf: bytes.readableBytesView.prefix(max(HTTPClient.answerLimit - answer.body.count, 0)))
      case .end: promise.succeed(answer)
      }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      switch event {
      case is IdleStateHandler.IdleStateEvent: fail(HTTPClient.NoAnswer(description: "the server did not answer in time"), context)
      case TLSUserEvent.handshakeCompleted:
        // Nothing is sent, the key least of all, before it is known who is there.
        let certificate = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self).peerCertificate
        guard let certificate, name.map({ TrustedExchange.isFor($0, certificate) }) ?? true else {
          return fail(TrustedExchange.untrusted, context)
        }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        writeNext(context)
      default: context.fireUserInboundEventTriggered(event)
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { fail(error, context) }

    func channelInactive(context: ChannelHandlerContext) {
      promise.fail(HTTPClient.NoAnswer(description: "the connection was lost"))
      context.fireChannelInactive()
    }

    /// The first reason counts.
    private func fail(_ error: any Error, _ context: ChannelHandlerContext) {
      promise.fail(TrustedExchange.noAnswer(error))
      context.close(promise: nil)
    }
  }
}
