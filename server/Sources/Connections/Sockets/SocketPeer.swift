import NIOConcurrencyHelpers
package import NIOCore
import NIOExtras
package import NIOWebSocket

/// The other end of a WebSocket, to write to. A message waits until the one before it has left; only the newest waiting frame is kept, so a
/// slow reader misses frames, takes one frame of memory, and holds up no others.
///
/// `@unchecked Sendable`: the state is used on the channel's event loop only.
package final class SocketPeer: @unchecked Sendable {
  private let channel: any Channel
  private var texts: CircularBuffer<ByteBuffer> = []
  /// Bytes of the texts that wait.
  private var textBytes = 0
  private var frame: ByteBuffer?
  private var isWriting = false
  private var isClosing = false
  private var lastHeard = NIODeadline.now()
  private var pings: RepeatedTask?

  private static let pingInterval = TimeAmount.seconds(15)
  /// A peer that answers no ping for so long is gone.
  private static let silenceLimit = TimeAmount.seconds(45)
  /// Texts that may wait, and their bytes.
  private static let textLimit = 256
  private static let textByteLimit = 1 << 20
  /// Bytes that the system may hold for a reader; more would only be older frames.
  private static let sendBuffer: ChannelOptions.Types.SocketOption.Value = 256 << 10

  package init(_ channel: any Channel) {
    self.channel = channel
    _ = channel.setOption(.socketOption(.so_sndbuf), value: Self.sendBuffer)
    channel.eventLoop.execute {
      self.pings = self.channel.eventLoop.scheduleRepeatedTask(
        initialDelay: Self.pingInterval, delay: Self.pingInterval
      ) { _ in self.ping() }
      self.channel.closeFuture.whenComplete { _ in self.pings?.cancel() }
    }
  }

  /// Sends a text; a peer that lets hundreds of them wait, or a megabyte, is dropped.
  package func send(_ text: ByteBuffer) {
    onLoop {
      guard !self.isClosing else { return }
      guard self.texts.count < Self.textLimit, self.textBytes + text.readableBytes <= Self.textByteLimit else {
        self.drop()
        return
      }
      self.texts.append(text)
      self.textBytes += text.readableBytes
      self.writeNext()
    }
  }

  /// Sends a frame, in place of one that still waits.
  package func offer(_ frame: ByteBuffer) {
    onLoop {
      self.frame = frame
      self.writeNext()
    }
  }

  /// Notes that the peer is alive.
  package func heard() { onLoop { self.lastHeard = .now() } }

  /// Answers a ping with its data, unless the peer reads too slowly to get it.
  package func pong(_ data: ByteBuffer) {
    onLoop { if self.channel.isWritable { self.channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .pong, data: data), promise: nil) } }
  }

  /// Ends the socket by the protocol: a code, then the connection.
  package func close(_ code: WebSocketErrorCode) {
    onLoop {
      guard !self.isClosing else { return }
      self.isClosing = true
      var data = self.channel.allocator.buffer(capacity: 2)
      data.write(webSocketErrorCode: code)
      self.channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .connectionClose, data: data))
        .whenComplete { _ in self.channel.close(promise: nil) }
    }
  }

  private func onLoop(_ body: @escaping @Sendable () -> Void) {
    if channel.eventLoop.inEventLoop { body() } else { channel.eventLoop.execute(body) }
  }

  /// Ends the connection at once; what waits is of no use any more.
  private func drop() {
    isClosing = true
    (texts, textBytes, frame) = ([], 0, nil)
    channel.close(promise: nil)
  }

  private func writeNext() {
    guard !isWriting, !isClosing else { return }
    let message: WebSocketFrame
    if let text = texts.popFirst() {
      textBytes -= text.readableBytes
      message = WebSocketFrame(fin: true, opcode: .text, data: text)
    } else if let frame {
      self.frame = nil
      message = WebSocketFrame(fin: true, opcode: .binary, data: frame)
    } else {
      return
    }
    isWriting = true
    channel.writeAndFlush(message).whenComplete { result in
      self.isWriting = false
      if case .success = result { self.writeNext() }
    }
  }

  private func ping() {
    if .now() - lastHeard > Self.silenceLimit { return drop() }
    // A reader that is behind gets its ping when it has caught up.
    if !isClosing, channel.isWritable {
      channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .ping, data: ByteBuffer()), promise: nil)
    }
  }
}

/// Ends sockets by the protocol when the server ends, and after errors of the protocol.
final class SocketQuiescer: ChannelInboundHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundOut = WebSocketFrame

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    end(context, .goingAway)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if error is NIOWebSocketFrameAggregator.Error { end(context, .protocolError) }
    context.fireErrorCaught(error)
  }

  private func end(_ context: ChannelHandlerContext, _ code: WebSocketErrorCode) {
    var data = context.channel.allocator.buffer(capacity: 2)
    data.write(webSocketErrorCode: code)
    context.writeAndFlush(wrapOutboundOut(WebSocketFrame(fin: true, opcode: .connectionClose, data: data)))
      .assumeIsolated().whenComplete { _ in context.close(promise: nil) }
    // One that reads nothing does not hold up the server's end.
    context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(2)) { context.close(promise: nil) }
  }
}
