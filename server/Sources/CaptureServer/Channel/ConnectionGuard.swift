import Logging
import NIOCore
import NIOExtras
import NIOHTTP1

/// Protects a connection that speaks HTTP/1, and the server from it: refuses ambiguous requests, cuts off clients that are too slow,
/// closes after an error without losing the answer, and lets requests under way finish when the server ends.
///
/// A client gets no answer when its time is up: a slow-motion phone would take that for a success and delete its movie.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundIn = HTTPServerResponsePart
  typealias OutboundOut = HTTPServerResponsePart

  struct Limits: Sendable {
    /// For the first complete request head.
    var head: TimeAmount
    /// Without progress in a body or an answer, and for the next complete head.
    var idle: TimeAmount
    /// Bytes that a body must bring in each period of `idle`, however it ends.
    var leastBytes: Int
    /// For a client to read its answer after an error.
    var linger = TimeAmount.seconds(5)
    /// Bytes that are read and thrown away after an answer that does not wait for them: many clients send a small body before they look.
    var leftover = 4 << 20

    /// Bytes per second below which a body is cut off.
    static let leastRate = 1024

    init(_ configuration: Configuration) {
      head = .seconds(Int64(configuration.headSeconds))
      idle = .seconds(Int64(configuration.idleSeconds))
      leastBytes = configuration.idleSeconds * Self.leastRate
    }
  }

  private enum Phase {
    case open
    /// The last answer was given; what still comes is thrown away, and no longer read where it is much.
    case lingering
  }

  private let limits: Limits
  private let arrived: ArrivedBytes
  private let isSurplus: Bool
  private let admits: Admission
  private let logger: Logger

  private var phase = Phase.open
  /// Requests whose answer is not complete.
  private var underWay = 0
  private var isBodyOpen = false
  private var hasAnswerStarted = false
  private var isMovieUpload = false
  private var closesAfterAnswer = false
  /// Whether what follows cannot be understood, or is not wanted.
  private var ignoresInput = false
  /// Bytes that had arrived when we began to throw away what follows.
  private var usefulBytes: Int?
  private var headDeadline = NIODeadline.now()
  private var lastByte = NIODeadline.now()
  private var windowStart = NIODeadline.now()
  private var windowBytes = 0
  private var lastWrite = NIODeadline.now()
  private var pendingWrites = 0
  /// When we stopped reading because the request's handler was behind; that time is not the client's.
  private var pausedSince: NIODeadline?
  private var timer: Scheduled<Void>?

  /// What came while it is not known whether a request may become a socket.
  private var held: [HTTPServerRequestPart]?

  /// Whether a request may become a socket.
  typealias Admission = @Sendable (HTTPRequestHead) async -> Bool

  init(_ limits: Limits, _ arrived: ArrivedBytes, isSurplus: Bool, admits: @escaping Admission, logger: Logger) {
    self.limits = limits
    self.arrived = arrived
    self.isSurplus = isSurplus
    self.admits = admits
    self.logger = logger
  }

  func handlerAdded(context: ChannelHandlerContext) {
    headDeadline = .now() + limits.head
    schedule(context)
  }

  func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    context.fireChannelInactive()
  }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard phase == .open, !ignoresInput else { return }
    if held != nil {
      held?.append(unwrapInboundIn(data))
      return
    }
    switch unwrapInboundIn(data) {
    case .head(let head):
      isMovieUpload = RequestRules.isMovieUpload(head)
      if let problem = RequestRules.problem(in: head) {
        if underWay == 0 { refuse(context, .badRequest, because: problem) } else { ignoreTheRest() }
        return
      }
      if isSurplus {
        refuse(context, .serviceUnavailable, because: "too many connections")
        return
      }
      underWay += 1
      isBodyOpen = true
      hasAnswerStarted = false
      // The parser stops after a request that asks for another protocol, granted or not.
      if head.headers.contains(name: "upgrade") || !head.isKeepAlive { closesAfterAnswer = true }
      startWindow()
      schedule(context)
      if head.headers.contains(name: "upgrade") { decide(context, head) } else { context.fireChannelRead(data) }
    case .body(let bytes):
      lastByte = .now()
      windowBytes += bytes.readableBytes
      context.fireChannelRead(data)
    case .end:
      isBodyOpen = false
      context.fireChannelRead(data)
    }
  }

  /// A request that may not become a socket goes on as if it had not asked: the handler of upgrades would lose it.
  private func decide(_ context: ChannelHandlerContext, _ head: HTTPRequestHead) {
    var plain = head
    plain.headers.remove(name: "upgrade")
    guard underWay == 1, SocketRequest.isHandshake(head) else { return context.fireChannelRead(wrapInboundOut(.head(plain))) }
    held = []
    let decision = context.eventLoop.makePromise(of: Bool.self)
    decision.completeWithTask { [admits] in await admits(head) }
    decision.futureResult.assumeIsolated().whenSuccess { [plain] isAdmitted in
      let rest = self.held ?? []
      self.held = nil
      guard context.channel.isActive, self.phase == .open else { return }
      context.fireChannelRead(self.wrapInboundOut(.head(isAdmitted ? head : plain)))
      for part in rest { self.channelRead(context: context, data: NIOAny(part)) }
      context.fireChannelReadComplete()
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    pausedSince = .now()
    context.fireChannelReadComplete()
    if phase == .lingering { read(context: context) }
  }

  func read(context: ChannelHandlerContext) {
    if let usefulBytes, arrived.bytes - usefulBytes >= limits.leftover { return }
    if let since = pausedSince {
      let pause = NIODeadline.now() - since
      lastByte = lastByte + pause
      windowStart = windowStart + pause
      pausedSince = nil
    }
    context.read()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard phase == .open, !ignoresInput else { return }
    guard let error = error as? HTTPParserError else {
      context.fireErrorCaught(error)
      return
    }
    if underWay == 0 || (underWay == 1 && isBodyOpen && !hasAnswerStarted) {
      refuse(context, error == .headerOverflow ? .requestHeaderFieldsTooLarge : .badRequest, because: "\(error)")
    } else if isBodyOpen {
      cut(context, "\(error)")
    } else {
      ignoreTheRest()
    }
  }

  private func ignoreTheRest() {
    ignoresInput = true
    closesAfterAnswer = true
    usefulBytes = arrived.bytes
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is ChannelShouldQuiesceEvent:
      if underWay == 0 { context.close(promise: nil) } else { closesAfterAnswer = true }
    case ChannelEvent.inputClosed:
      if phase == .lingering || underWay == 0 {
        context.close(promise: nil)
      } else {
        closesAfterAnswer = true
        context.fireUserInboundEventTriggered(event)
      }
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  // MARK: Answers

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard phase == .open else {
      promise?.fail(ChannelError.alreadyClosed)
      return
    }
    let promise = promise ?? context.eventLoop.makePromise(of: Void.self)
    if pendingWrites == 0 { lastWrite = .now() }
    pendingWrites += 1
    promise.futureResult.assumeIsolated().whenComplete { _ in
      self.pendingWrites -= 1
      self.lastWrite = .now()
    }
    switch unwrapOutboundIn(data) {
    case .head(var head) where head.status.code >= 200:
      hasAnswerStarted = true
      // Nobody will read the rest of a body that is answered before its end.
      if isBodyOpen, underWay == 1 { closesAfterAnswer = true }
      if closesAfterAnswer, underWay == 1 { head.headers.replaceOrAdd(name: "connection", value: "close") }
      if head.headers[canonicalForm: "connection"].contains(where: { $0.lowercased() == "close" }) { closesAfterAnswer = true }
      context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .end:
      underWay -= 1
      if underWay == 0, closesAfterAnswer {
        context.writeAndFlush(data, promise: promise)
        linger(context)
      } else {
        context.write(data, promise: promise)
        headDeadline = .now() + limits.idle
        schedule(context)
      }
    default: context.write(data, promise: promise)
    }
  }

  /// Answers in place of the router, and closes; a movie's upload is dropped without an answer.
  private func refuse(_ context: ChannelHandlerContext, _ status: HTTPResponseStatus, because reason: String) {
    logger.debug("refused with \(status.code): \(reason)")
    if isMovieUpload {
      cut(context, "a movie cannot be received")
      return
    }
    var headers: HTTPHeaders = ["connection": "close", "content-length": "0"]
    if status == .serviceUnavailable { headers.add(name: "retry-after", value: "5") }
    context.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    // Before the connection closes, which would end the body without an error.
    endBody(context)
    linger(context)
  }

  /// Tells the request's handler that its body is not complete: without an error, the end of the connection looks like the body's.
  private func endBody(_ context: ChannelHandlerContext) {
    guard isBodyOpen else { return }
    isBodyOpen = false
    context.fireErrorCaught(HTTPParserError.invalidEOFState)
  }

  /// Ends our side of the connection, and reads on for a while: closing at once, with unread bytes, could take the answer from the client.
  private func linger(_ context: ChannelHandlerContext) {
    phase = .lingering
    usefulBytes = usefulBytes ?? arrived.bytes
    timer?.cancel()
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: limits.linger) { context.close(promise: nil) }
    let isClosed = context.eventLoop.makePromise(of: Void.self)
    isClosed.futureResult.assumeIsolated().whenFailure { _ in context.close(promise: nil) }
    context.close(mode: .output, promise: isClosed)
    read(context: context)
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    // A handler that fails, or is done, must not cut the answer off.
    if phase == .lingering { context.channel.closeFuture.cascade(to: promise) } else { context.close(mode: mode, promise: promise) }
  }

  // MARK: Time

  private func startWindow() {
    lastByte = .now()
    windowStart = .now()
    windowBytes = 0
  }

  private func schedule(_ context: ChannelHandlerContext) {
    guard phase == .open else { return }
    timer?.cancel()
    let deadline = min(self.deadline ?? .distantFuture, .now() + limits.idle)
    timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.timeIsUp(context) }
  }

  /// The next moment at which the client may have to be cut off; `nil` while it is our turn.
  private var deadline: NIODeadline? {
    if underWay == 0 { return headDeadline }
    var next: NIODeadline?
    if isBodyOpen, !ignoresInput, pausedSince == nil { next = min(lastByte, windowStart) + limits.idle }
    if pendingWrites > 0 { next = min(next ?? .distantFuture, lastWrite + limits.idle) }
    return next
  }

  private func timeIsUp(_ context: ChannelHandlerContext) {
    let now = NIODeadline.now()
    if underWay == 0 {
      if now >= headDeadline { return cut(context, "no complete request head") }
    } else {
      if isBodyOpen, !ignoresInput, pausedSince == nil {
        if now >= lastByte + limits.idle { return cut(context, "no byte of a body") }
        if now >= windowStart + limits.idle {
          if windowBytes < limits.leastBytes { return cut(context, "\(windowBytes) bytes of a body in one period") }
          (windowStart, windowBytes) = (now, 0)
        }
      }
      if pendingWrites > 0, now >= lastWrite + limits.idle { return cut(context, "the answer is not read") }
    }
    schedule(context)
  }

  private func cut(_ context: ChannelHandlerContext, _ reason: String) {
    logger.debug("connection closed: \(reason)")
    endBody(context)
    context.close(promise: nil)
  }
}

/// Counts the bytes of a connection before they are parsed: a parser that has given up swallows them unseen.
final class ArrivedBytes: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  private(set) var bytes = 0

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    bytes += unwrapInboundIn(data).readableBytes
    context.fireChannelRead(data)
  }
}
