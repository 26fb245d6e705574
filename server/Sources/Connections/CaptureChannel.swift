import HTTPTypes
package import HummingbirdCore
package import Logging
package import NIOCore
package import NIOHTTP1
package import NIOHTTPTypes
import NIOHTTPTypesHTTP1
package import NIOWebSocket

/// A connection: HTTP/1 for the router, or a WebSocket of a camera or a viewer as its first request says.
package struct CaptureChannel: ServerChildChannel, HTTPChannelHandler {
  package typealias HTTPConnection = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>
  package typealias Socket = NIOAsyncChannel<WebSocketFrame, WebSocketFrame>

  /// The protocol that a connection speaks after its first request.
  package enum Kind: Sendable {
    case http(HTTPConnection)
    case socket(Socket, SocketRequest)
  }

  /// A connection whose protocol is not known yet.
  package struct Value: ServerChildChannelValue {
    package let channel: any Channel
    /// Known after the first request's head.
    let kind: EventLoopFuture<Kind>
  }

  package let responder: HTTPChannelHandler.Responder
  private let limit: ConnectionLimit
  private let limits: ConnectionState.Limits
  private let isSecure: Bool
  private let admits: @Sendable (HTTPRequestHead) async -> Bool
  private let serve: @Sendable (Socket, SocketRequest) async -> Void

  /// - Parameters:
  ///   - isSecure: Whether TLS is below us.
  ///   - admits: Whether a request may become a socket.
  ///   - serve: Serves a socket until it ends.
  package init(
    responder: @escaping HTTPChannelHandler.Responder, limit: ConnectionLimit, limits: ConnectionState.Limits, isSecure: Bool,
    admits: @escaping @Sendable (HTTPRequestHead) async -> Bool, serve: @escaping @Sendable (Socket, SocketRequest) async -> Void
  ) {
    (self.responder, self.limit, self.limits, self.isSecure, self.admits, self.serve) = (responder, limit, limits, isSecure, admits, serve)
  }

  /// Largest message of a socket, in bytes.
  private static let messageLimit = 16 << 20

  /// Builds the handlers of a new connection. One beyond the limit is closed, without an answer where it is far beyond.
  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      let admission = limit.admit(channel)
      if admission == .refused {
        try channel.pipeline.syncOperations.addHandler(ClosedDoor())
        return Value(channel: channel, kind: channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel))
      }
      // Small buffers: many slow uploads at a time are the rule.
      try channel.syncOptions?.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 32 << 10))
      try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 2)
      try channel.syncOptions?.setOption(.tcpOption(.tcp_nodelay), value: 1)

      let pipeline = channel.pipeline.syncOperations
      let encoder = HTTPResponseEncoder()
      let decoder = ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: RequestRules.limits))
      let arrived = ArrivedBytes()
      let guardian = ConnectionGuard(
        limits, arrived, isSurplus: admission == .surplus, admits: admits, logger: logger)
      let upgrades = NIOTypedHTTPServerUpgradeHandler(
        httpEncoder: encoder, extraHTTPHandlers: [arrived, decoder, guardian],
        upgradeConfiguration: NIOTypedHTTPServerUpgradeConfiguration(
          upgraders: [webSocketUpgrader], notUpgradingCompletionHandler: http))
      try pipeline.addHandlers([arrived, encoder, decoder, guardian, upgrades])
      return Value(channel: channel, kind: upgrades.upgradeResultFuture)
    }
  }

  private func http(_ channel: any Channel) -> EventLoopFuture<Kind> {
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.addHandler(HTTP1ToHTTPServerCodec(secure: isSecure))
      return .http(
        try NIOAsyncChannel(
          wrappingChannelSynchronously: channel,
          configuration: .init(backPressureStrategy: .init(lowWatermark: 1, highWatermark: 3), isOutboundHalfClosureEnabled: true)))
    }
  }

  private var webSocketUpgrader: NIOTypedWebSocketServerUpgrader<Kind> {
    NIOTypedWebSocketServerUpgrader(maxFrameSize: Self.messageLimit) { channel, _ in
      // The guard lets only those pass that may.
      channel.eventLoop.makeSucceededFuture(HTTPHeaders())
    } upgradePipelineHandler: { channel, head in
      channel.eventLoop.makeCompletedFuture {
        guard let request = SocketRequest(head) else { throw NIOWebSocketUpgradeError.unsupportedWebSocketTarget }
        try channel.pipeline.syncOperations.addHandlers([
          NIOWebSocketFrameAggregator(
            minNonFinalFragmentSize: 0, maxAccumulatedFrameCount: 4096, maxAccumulatedFrameSize: Self.messageLimit),
          SocketQuiescer(),
        ])
        return .socket(
          try NIOAsyncChannel(
            wrappingChannelSynchronously: channel,
            configuration: .init(backPressureStrategy: .init(lowWatermark: 1, highWatermark: 3))), request)
      }
    }
  }

  /// Serves a connection until it ends, as HTTP or as a WebSocket. Errors end it and are not thrown.
  package func handle(value: Value, logger: Logger) async {
    // Fails where a connection ends before its first request.
    guard let kind = try? await value.kind.get() else { return }
    switch kind {
    case .http(let connection): await handleHTTP(asyncChannel: connection, logger: logger)
    case .socket(let socket, let request): await serve(socket, request)
    }
  }
}

/// Closes a connection that is not even answered, as soon as it is open.
private final class ClosedDoor: ChannelInboundHandler {
  package typealias InboundIn = ByteBuffer

  func handlerAdded(context: ChannelHandlerContext) { if context.channel.isActive { context.close(promise: nil) } }

  func channelActive(context: ChannelHandlerContext) { context.close(promise: nil) }
}
