import Logging
import NIOCore
import NIOExtras
import NIOHTTP1

/// Protects a connection that speaks HTTP/1, and the server from it: refuses ambiguous requests, cuts off clients that are too slow,
/// closes after an error without losing the answer, and lets requests under way finish when the server ends. `ConnectionState` decides;
/// this one has the channel and the clock.
///
/// A client gets no answer when its time is up: a slow-motion phone would take that for a success and delete its movie.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundIn = HTTPServerResponsePart
  typealias OutboundOut = HTTPServerResponsePart

  /// Whether a request may become a socket.
  typealias Admission = @Sendable (HTTPRequestHead) async -> Bool

  private let limits: ConnectionState.Limits
  private let arrived: ArrivedBytes
  private let admits: Admission
  private let logger: Logger
  private var state: ConnectionState
  private var timer: Scheduled<Void>?
  /// Parts that came while it was not known whether a request may become a socket.
  private var held: [HTTPServerRequestPart]?

  init(_ limits: ConnectionState.Limits, _ arrived: ArrivedBytes, isSurplus: Bool, admits: @escaping Admission, logger: Logger) {
    self.limits = limits
    self.arrived = arrived
    self.admits = admits
    self.logger = logger
    state = ConnectionState(limits, isSurplus: isSurplus, at: .now())
  }

  private var now: ConnectionState.Moment { .init(time: .now(), arrived: arrived.bytes) }

  func handlerAdded(context: ChannelHandlerContext) { schedule(context) }

  func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    context.fireChannelInactive()
  }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    if held != nil {
      if !state.isLingering { held?.append(part) }
      return
    }
    switch part {
    case .head(let head):
      let action = state.receiveHead(head, at: now)
      if [.pass, .passPlain, .ask].contains(action) { schedule(context) }
      switch action {
      case .pass: context.fireChannelRead(data)
      case .passPlain: pass(head, context)
      case .ask: ask(head, context)
      default: carryOut(action, context)
      }
    case .body(let bytes): if state.receiveBody(bytes.readableBytes, at: now) == .pass { context.fireChannelRead(data) }
    case .end: if state.receiveEnd() == .pass { context.fireChannelRead(data) }
    }
  }

  /// Hands a request on as if it had not asked for another protocol: the handler of upgrades would lose it.
  private func pass(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
    var plain = head
    plain.headers.remove(name: "upgrade")
    context.fireChannelRead(wrapInboundOut(.head(plain)))
  }

  private func ask(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
    held = []
    let decision = context.eventLoop.makePromise(of: Bool.self)
    decision.completeWithTask { [admits] in await admits(head) }
    decision.futureResult.assumeIsolated().whenSuccess { isAdmitted in
      let rest = self.held ?? []
      self.held = nil
      guard context.channel.isActive, !self.state.isLingering else { return }
      if isAdmitted { context.fireChannelRead(self.wrapInboundOut(.head(head))) } else { self.pass(head, context) }
      for part in rest { self.channelRead(context: context, data: NIOAny(part)) }
      context.fireChannelReadComplete()
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    state.pauseReading(at: .now())
    context.fireChannelReadComplete()
    if state.isLingering { read(context: context) }
  }

  func read(context: ChannelHandlerContext) {
    if state.resumesReading(at: now) { context.read() }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    let action = state.fail(error, at: now)
    if action == .pass { context.fireErrorCaught(error) } else { carryOut(action, context) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    let action =
      switch event {
      case is ChannelShouldQuiesceEvent: state.quiesce()
      case ChannelEvent.inputClosed: state.endInput()
      default: ConnectionState.Action.pass
      }
    if action == .pass { context.fireUserInboundEventTriggered(event) } else { carryOut(action, context) }
  }

  // MARK: Answers

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard !state.isLingering else {
      promise?.fail(ChannelError.alreadyClosed)
      return
    }
    let promise = promise ?? context.eventLoop.makePromise(of: Void.self)
    state.beginWrite(at: .now())
    promise.futureResult.assumeIsolated().whenComplete { _ in self.state.endWrite(at: .now()) }
    switch unwrapOutboundIn(data) {
    case .head(var head) where head.status.code >= 200:
      let closes = head.headers[canonicalForm: "connection"].contains { $0.lowercased() == "close" }
      if state.beginAnswer(closes: closes) { head.headers.replaceOrAdd(name: "connection", value: "close") }
      context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .end:
      let isLast = state.endAnswer(at: now)
      context.write(data, promise: promise)
      if isLast {
        context.flush()
        linger(context)
      } else {
        schedule(context)
      }
    default: context.write(data, promise: promise)
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    // A handler that fails, or is done, must not cut the answer off.
    if state.isLingering { context.channel.closeFuture.cascade(to: promise) } else { context.close(mode: mode, promise: promise) }
  }

  private func schedule(_ context: ChannelHandlerContext) {
    guard let time = state.nextCheck(at: .now()) else { return }
    timer?.cancel()
    timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: time) {
      let action = self.state.checkTime(at: .now())
      if action == .pass { self.schedule(context) } else { self.carryOut(action, context) }
    }
  }

  // MARK: Ends

  private func carryOut(_ action: ConnectionState.Action, _ context: ChannelHandlerContext) {
    switch action {
    case .pass, .passPlain, .ask, .drop: break
    case .refuse(let status, let reason, let inBody):
      logger.debug("refused with \(status.code): \(reason)")
      var headers: HTTPHeaders = ["connection": "close", "content-length": "0"]
      if status == .serviceUnavailable { headers.add(name: "retry-after", value: "5") }
      context.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      // Before the connection closes, which would end the body without an error.
      if inBody { endBody(context) }
      linger(context)
    case .cut(let reason, let inBody):
      logger.debug("connection closed: \(reason)")
      if inBody { endBody(context) }
      context.close(promise: nil)
    case .close: context.close(promise: nil)
    }
  }

  /// Tells the request's handler that its body is not complete: without an error, the end of the connection looks like the body's.
  private func endBody(_ context: ChannelHandlerContext) { context.fireErrorCaught(HTTPParserError.invalidEOFState) }

  /// Ends our side of the connection, and reads on for a while: closing at once, with unread bytes, could take the answer from the client.
  private func linger(_ context: ChannelHandlerContext) {
    timer?.cancel()
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: limits.linger) { context.close(promise: nil) }
    let isClosed = context.eventLoop.makePromise(of: Void.self)
    isClosed.futureResult.assumeIsolated().whenFailure { _ in context.close(promise: nil) }
    context.close(mode: .output, promise: isClosed)
    read(context: context)
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
