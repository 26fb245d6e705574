import CCrypto
import Foundation
import Synchronization

/// A WebSocket (RFC 6455) over a plain connection, for simulated cameras: libcurl of today's systems has none. Sending and receiving may be on different
/// threads.
final class WebSocketClient: Sendable {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  enum Message: Sendable, Equatable {
    case text(String)
    case binary([UInt8])
  }

  /// Most bytes of a message that is received.
  private static let limit = 1 << 20
  private enum Opcode {
    static let more: UInt8 = 0, text: UInt8 = 1, binary: UInt8 = 2, close: UInt8 = 8, ping: UInt8 = 9, pong: UInt8 = 10
  }

  private let socket: Int32
  private let sending = Mutex(())

  /// Connects, and opens the WebSocket.
  ///
  /// - Parameter timeout: Seconds without a byte after which sending or receiving fails.
  /// - Throws: `Failure`.
  init(_ url: URL, timeout: Double = 45) throws {
    guard url.scheme?.lowercased() == "ws", let host = url.host else {
      throw Failure(description: "\(url): expected an address such as ws://192.168.1.10:8080/camera")
    }
    socket = try Self.connect(host, url.port ?? 80, timeout: timeout)
    // Where it throws, `deinit` closes the socket.
    try open(url, host)
  }

  deinit { Glibc.close(socket) }

  private static func connect(_ host: String, _ port: Int, timeout: Double) throws -> Int32 {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    let status = getaddrinfo(bare, String(port), &hints, &found)
    guard status == 0 else { throw Failure(description: "\(host): \(String(cString: gai_strerror(status)))") }
    defer { freeaddrinfo(found) }
    var problem = "no address"
    var next = found
    while let address = next?.pointee {
      next = address.ai_next
      let socket = Glibc.socket(address.ai_family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
      guard socket >= 0 else { continue }
      var limit = timeval(tv_sec: Int(timeout), tv_usec: 0)
      let size = socklen_t(MemoryLayout<timeval>.size)
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
      // Also of the connection itself.
      limit.tv_sec = min(limit.tv_sec, 10)
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
      var isOn: Int32 = 1
      setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<Int32>.size))
      if Glibc.connect(socket, address.ai_addr, address.ai_addrlen) == 0 { return socket }
      problem = String(cString: strerror(errno))
      Glibc.close(socket)
    }
    throw Failure(description: "\(host):\(port): \(problem)")
  }

  private func open(_ url: URL, _ host: String) throws {
    let key = Data((0..<16).map { _ in UInt8.random(in: 0...255) }).base64EncodedString()
    let path = (url.path.isEmpty ? "/" : url.path(percentEncoded: true)) + (url.query(percentEncoded: true).map { "?" + $0 } ?? "")
    let port = url.port.map { ":\($0)" } ?? ""
    try write(
      Array(
        ("GET \(path) HTTP/1.1\r\nHost: \(host)\(port)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: \(key)\r\n"
          + "Sec-WebSocket-Version: 13\r\nUser-Agent: takeset\r\n\r\n").utf8))
    var head: [UInt8] = []
    while !head.suffix(4).elementsEqual(Array("\r\n\r\n".utf8)) {
      guard head.count < 1 << 16 else { throw Failure(description: "\(host): the answer has no end") }
      head += try read(1)
    }
    let lines = String(decoding: head, as: UTF8.self).split(separator: "\r\n")
    guard let first = lines.first, first.hasPrefix("HTTP/1.1 101") else {
      throw Failure(description: "\(host): it opens no WebSocket: \(lines.first ?? "")")
    }
    let accept = lines.first { $0.lowercased().hasPrefix("sec-websocket-accept:") }?.split(separator: ":", maxSplits: 1)
      .last?.trimmingCharacters(in: .whitespaces)
    guard accept == Self.accept(key) else { throw Failure(description: "\(host): it is no WebSocket server") }
  }

  /// Returns a server's answer to a key (section 4.2.2).
  static func accept(_ key: String) -> String {
    let text = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
    var digest = [UInt8](repeating: 0, count: 20)
    SHA1(text, text.count, &digest)
    return Data(digest).base64EncodedString()
  }

  func send(_ message: Message) throws {
    switch message {
    case .text(let text): try send(Opcode.text, Array(text.utf8))
    case .binary(let bytes): try send(Opcode.binary, bytes)
    }
  }

  private func send(_ opcode: UInt8, _ payload: [UInt8]) throws {
    var frame: [UInt8] = [0x80 | opcode]
    switch payload.count {
    case ..<126: frame.append(0x80 | UInt8(payload.count))
    case ..<65_536: frame += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
    default: frame += [0x80 | 127] + withUnsafeBytes(of: UInt64(payload.count).bigEndian, Array.init)
    }
    let mask = (0..<4).map { _ in UInt8.random(in: 0...255) }
    frame += mask
    frame.reserveCapacity(frame.count + payload.count)
    for (index, byte) in payload.enumerated() { frame.append(byte ^ mask[index & 3]) }
    try sending.withLock { _ in try write(frame) }
  }

  /// Waits for the next message, and answers pings meanwhile.
  ///
  /// - Returns: `nil` where the server has closed the WebSocket.
  /// - Throws: `Failure`, also when nothing comes for the time of `init`.
  func receive() throws -> Message? {
    var whole: [UInt8] = []
    var kind: UInt8?
    while true {
      let head = try read(2)
      let opcode = head[0] & 15
      var count = Int(head[1] & 127)
      if count >= 126 {
        count = try read(count == 126 ? 2 : 8).reduce(0) { $0 > Self.limit ? $0 : $0 << 8 | Int($1) }
      }
      guard head[1] & 128 == 0, head[0] & 0x70 == 0, count <= Self.limit, whole.count + count <= Self.limit else {
        throw Failure(description: "the server sent a frame that is too long, or none")
      }
      let payload = try read(count)
      switch opcode {
      case Opcode.ping: try send(Opcode.pong, payload)
      case Opcode.pong: break
      case Opcode.close:
        try? send(Opcode.close, Array(payload.prefix(2)))
        return nil
      default:
        if opcode != Opcode.more { kind = opcode }
        whole += payload
        guard head[0] & 128 != 0 else { continue }
        return kind == Opcode.binary ? .binary(whole) : .text(String(decoding: whole, as: UTF8.self))
      }
    }
  }

  /// Closes the WebSocket; one that waits for a message fails.
  func close() {
    try? send(Opcode.close, [3, 232])
    shutdown(socket, Int32(SHUT_RDWR))
  }

  private func read(_ count: Int) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var done = 0
    while done < count {
      let got = bytes.withUnsafeMutableBytes {
        recv(socket, UnsafeMutableRawBufferPointer(rebasing: $0[done...]).baseAddress, count - done, 0)
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { throw Failure(description: got == 0 ? "the connection ended" : String(cString: strerror(errno))) }
      done += got
    }
    return bytes
  }

  private func write(_ bytes: [UInt8]) throws {
    var done = 0
    while done < bytes.count {
      let sent = bytes.withUnsafeBytes {
        Glibc.send(socket, UnsafeRawBufferPointer(rebasing: $0[done...]).baseAddress, bytes.count - done, Int32(MSG_NOSIGNAL))
      }
      if sent < 0, errno == EINTR { continue }
      guard sent > 0 else { throw Failure(description: String(cString: strerror(errno))) }
      done += sent
    }
  }
}
