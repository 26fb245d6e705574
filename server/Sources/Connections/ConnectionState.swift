package import NIOCore
package import NIOHTTP1

/// The rights of a connection, and its deadlines: the decisions of `ConnectionGuard`, without a channel and without a clock. Each event
/// brings its moment, and is answered with an action.
///
///     switch state.receiveHead(head, at: ConnectionState.Moment(time: .now(), arrived: arrivedBytes)) {
///     case .pass: handOn(head)
///     case .refuse(let status, let reason, _): answer(status, reason)
///     default: …
///     }
package struct ConnectionState: Sendable {
  /// The time and bytes that a connection may take.
  package struct Limits: Sendable {
    /// Time for the first complete request head.
    package var head: TimeAmount
    /// Idle limit for bodies and answers, and for the next complete request head.
    package var idle: TimeAmount
    /// Bytes that a body must bring in each period of `idle`, however it ends.
    package var leastBytes: Int
    /// Time for a client to read its answer after an error.
    package var linger = TimeAmount.seconds(5)
    /// Bytes that are read and thrown away after an answer that does not wait for them: many clients send a small body before they look.
    package var leftover = 4 << 20

    /// Bytes per second below which a body is cut off.
    private static let leastRate = 1024

    package init(headSeconds: Int, idleSeconds: Int) {
      head = .seconds(Int64(headSeconds))
      idle = .seconds(Int64(idleSeconds))
      leastBytes = idleSeconds * Self.leastRate
    }
  }

  /// The moment of an event.
  package struct Moment: Sendable {
    package var time: NIODeadline
    /// Number of bytes that have arrived by then, understood or not.
    package var arrived: Int

    package init(time: NIODeadline, arrived: Int) { (self.time, self.arrived) = (time, arrived) }
  }

  /// The answer to an event.
  package enum Action: Equatable, Sendable {
    /// Hand it on.
    case pass
    /// Forget it.
    case drop
    /// Hand the head on as if it had not asked for another protocol.
    case passPlain
    /// Ask whether the request may become a socket, and hold what follows until then.
    case ask
    /// Answer in place of the router, and end our side. A body that has begun is told of its end first.
    case refuse(HTTPResponseStatus, because: String, inBody: Bool)
    /// Close without an answer. A body that has begun is told of its end first.
    case cut(because: String, inBody: Bool)
    case close
  }

  private enum Phase: Equatable {
    case open
    /// The rest cannot be understood, or is not wanted; answers go on. `since` counts the bytes that had arrived before.
    case ignoring(since: Int)
    /// The last answer was given; what still comes is thrown away, and no longer read where it is much.
    case lingering(since: Int)
  }

  private struct Body {
    var lastByte, windowStart: NIODeadline
    var windowBytes = 0
    var isAnswered = false

    init(at time: NIODeadline) { (lastByte, windowStart) = (time, time) }

    /// Does not count a time against the client.
    mutating func forgive(_ time: TimeAmount) { (lastByte, windowStart) = (lastByte + time, windowStart + time) }

    mutating func beginWindow(at time: NIODeadline) { (windowStart, windowBytes) = (time, 0) }
  }

  private let limits: Limits
  private let isSurplus: Bool
  private var phase = Phase.open
  /// Requests whose answer is not complete.
  private var underWay = 0
  /// The body of the last request, until its end.
  private var body: Body?
  private var isMovieUpload = false
  private var closesAfterAnswer = false
  private var headDeadline: NIODeadline
  private var lastWrite: NIODeadline
  private var pendingWrites = 0
  /// Time at which we stopped reading because the request's handler was behind; that time is not the client's.
  private var pausedSince: NIODeadline?

  /// - Parameter isSurplus: Whether there are too many connections: its first request is refused.
  package init(_ limits: Limits, isSurplus: Bool, at time: NIODeadline) {
    (self.limits, self.isSurplus) = (limits, isSurplus)
    (headDeadline, lastWrite) = (time + limits.head, time)
  }

  package var isLingering: Bool { if case .lingering = phase { true } else { false } }

  // MARK: Requests

  /// Admits a request by its head, or refuses it. The first request of a connection may become a WebSocket.
  package mutating func receiveHead(_ head: HTTPRequestHead, at now: Moment) -> Action {
    guard phase == .open else { return .drop }
    isMovieUpload = RequestRules.isMovieUpload(head)
    if let problem = RequestRules.problem(in: head) { return underWay == 0 ? refuse(.badRequest, problem, now) : ignoreTheRest(now) }
    if isSurplus { return refuse(.serviceUnavailable, "too many connections", now) }
    underWay += 1
    body = Body(at: now.time)
    let isUpgrade = head.headers.contains(name: "upgrade")
    // The parser stops after a request that asks for another protocol, granted or not.
    if isUpgrade || !head.isKeepAlive { closesAfterAnswer = true }
    guard isUpgrade else { return .pass }
    return underWay == 1 && SocketRequest.isHandshake(head) ? .ask : .passPlain
  }

  /// Counts bytes of the request's body, which must bring `Limits.leastBytes` in each period.
  package mutating func receiveBody(_ bytes: Int, at now: Moment) -> Action {
    guard phase == .open else { return .drop }
    body?.lastByte = now.time
    body?.windowBytes += bytes
    return .pass
  }

  /// Ends the request's body: from now on, it is our turn.
  package mutating func receiveEnd() -> Action {
    guard phase == .open else { return .drop }
    body = nil
    return .pass
  }

  /// An error; after one of the parser's, nothing more is understood.
  package mutating func fail(_ error: any Error, at now: Moment) -> Action {
    guard phase == .open else { return .drop }
    guard let error = error as? HTTPParserError else { return .pass }
    if underWay == 0 || (underWay == 1 && body?.isAnswered == false) {
      return refuse(error == .headerOverflow ? .requestHeaderFieldsTooLarge : .badRequest, "\(error)", now)
    }
    return body == nil ? ignoreTheRest(now) : cut("\(error)")
  }

  /// The client sends no more.
  package mutating func endInput() -> Action {
    if isLingering || underWay == 0 { return .close }
    closesAfterAnswer = true
    return .pass
  }

  /// The server ends.
  package mutating func quiesce() -> Action {
    if underWay == 0 { return .close }
    closesAfterAnswer = true
    return .drop
  }

  // MARK: Reading

  /// Notes that reading has stopped because the handler is behind; the client's deadlines wait.
  package mutating func pauseReading(at time: NIODeadline) { pausedSince = time }

  /// Whether more may be read, which ends a pause.
  package mutating func resumesReading(at now: Moment) -> Bool {
    switch phase {
    case .ignoring(let since), .lingering(let since): if now.arrived - since >= limits.leftover { return false }
    case .open: break
    }
    if let pausedSince { body?.forgive(now.time - pausedSince) }
    pausedSince = nil
    return true
  }

  // MARK: Answers

  /// The head of an answer, other than an interim one.
  ///
  /// - Parameter closes: Whether it says that the connection closes.
  /// - Returns: Whether it has to say so.
  package mutating func beginAnswer(closes: Bool) -> Bool {
    body?.isAnswered = true
    // Nobody will read the rest of a body that is answered before its end.
    if body != nil, underWay == 1 { closesAfterAnswer = true }
    let isLast = closesAfterAnswer && underWay == 1
    if closes { closesAfterAnswer = true }
    return isLast
  }

  /// - Returns: Whether it was the last one, after which our side ends.
  package mutating func endAnswer(at now: Moment) -> Bool {
    underWay -= 1
    headDeadline = now.time + limits.idle
    guard underWay == 0, closesAfterAnswer else { return false }
    linger(now)
    return true
  }

  /// Notes a write that the client has to take before `Limits.idle` has passed without any progress.
  package mutating func beginWrite(at time: NIODeadline) {
    if pendingWrites == 0 { lastWrite = time }
    pendingWrites += 1
  }

  /// Notes that a write was taken, which starts the time for the next one.
  package mutating func endWrite(at time: NIODeadline) {
    pendingWrites -= 1
    lastWrite = time
  }

  // MARK: Time

  /// Returns the time to ask `checkTime` next; `nil` when a timer of `Limits.linger` runs in its place.
  package func nextCheck(at time: NIODeadline) -> NIODeadline? {
    if isLingering { return nil }
    let latest = time + limits.idle
    // While it is our turn, there is nothing that a client could be late with.
    if underWay == 0 { return min(headDeadline, latest) }
    var next = latest
    if let body, pausedSince == nil { next = min(next, body.lastByte + limits.idle, body.windowStart + limits.idle) }
    if pendingWrites > 0 { next = min(next, lastWrite + limits.idle) }
    return next
  }

  /// Cuts off a client that is too slow.
  package mutating func checkTime(at now: NIODeadline) -> Action {
    if underWay == 0 { return now >= headDeadline ? cut("no complete request head") : .pass }
    if let body, pausedSince == nil {
      if now >= body.lastByte + limits.idle { return cut("no byte of a body") }
      if now >= body.windowStart + limits.idle {
        if body.windowBytes < limits.leastBytes { return cut("\(body.windowBytes) bytes of a body in one period") }
        self.body?.beginWindow(at: now)
      }
    }
    return pendingWrites > 0 && now >= lastWrite + limits.idle ? cut("the answer is not read") : .pass
  }

  // MARK: Ends

  /// A movie's upload is dropped without an answer, which the phone would take for a success.
  private mutating func refuse(_ status: HTTPResponseStatus, _ reason: String, _ now: Moment) -> Action {
    if isMovieUpload { return cut("a movie cannot be received: \(reason)") }
    linger(now)
    return .refuse(status, because: reason, inBody: endBody())
  }

  private mutating func cut(_ reason: String) -> Action { .cut(because: reason, inBody: endBody()) }

  private mutating func ignoreTheRest(_ now: Moment) -> Action {
    phase = .ignoring(since: now.arrived)
    closesAfterAnswer = true
    return .drop
  }

  private mutating func linger(_ now: Moment) {
    if case .ignoring(let since) = phase { phase = .lingering(since: since) } else { phase = .lingering(since: now.arrived) }
  }

  /// Whether there was one.
  private mutating func endBody() -> Bool {
    defer { body = nil }
    return body != nil
  }
}
