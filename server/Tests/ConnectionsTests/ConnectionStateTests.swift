import NIOCore
import NIOHTTP1
import Testing

import Connections

@Suite struct ConnectionStateTests {
  /// 30 s for a head, 60 s without progress, 61,440 bytes in each minute of a body.
  private let limits = ConnectionState.Limits(headSeconds: 30, idleSeconds: 60)

  /// A connection that opened at second 0.
  private func opened(isSurplus: Bool = false) -> ConnectionState { ConnectionState(limits, isSurplus: isSurplus, at: second(0)) }

  /// One with a request whose body has begun.
  private func receiving(_ head: HTTPRequestHead = post) -> ConnectionState {
    var state = opened()
    #expect(state.receiveHead(head, at: at(1)) == .pass)
    return state
  }

  // MARK: The first head

  @Test func cutsOffAClientWithoutACompleteHead() {
    var state = opened()
    #expect(state.nextCheck(at: second(0)) == second(30))
    #expect(state.checkTime(at: second(29)) == .pass)
    #expect(state.checkTime(at: second(30)) == .cut(because: "no complete request head", inBody: false))
  }

  @Test func refusesWhatIsAmbiguous() {
    var state = opened()
    let head = request(.POST, "/files", ["host": "a", "content-length": "1", "transfer-encoding": "chunked"])
    #expect(state.receiveHead(head, at: at(1)) == .refuse(.badRequest, because: "Transfer-Encoding and Content-Length", inBody: false))
    #expect(state.isLingering)
    #expect(state.receiveHead(get, at: at(2)) == .drop)
  }

  @Test func refusesASurplusConnection() {
    var state = opened(isSurplus: true)
    #expect(state.receiveHead(get, at: at(1)) == .refuse(.serviceUnavailable, because: "too many connections", inBody: false))
  }

  @Test func dropsAMovieThatItRefuses() {
    var state = opened(isSurplus: true)
    let movie = request(.POST, "/k/KEY/upload?a=b", ["host": "a", "content-length": "9"])
    #expect(state.receiveHead(movie, at: at(1)) == .cut(because: "a movie cannot be received: too many connections", inBody: false))
    #expect(!state.isLingering)
  }

  // MARK: What the parser does not understand

  @Test(arguments: [(HTTPParserError.headerOverflow, HTTPResponseStatus.requestHeaderFieldsTooLarge), (.invalidMethod, .badRequest)])
  func refusesAHead(error: HTTPParserError, status: HTTPResponseStatus) {
    var state = opened()
    #expect(state.fail(error, at: at(1)) == .refuse(status, because: "\(error)", inBody: false))
  }

  @Test func refusesABrokenBodyThatIsNotAnsweredYet() {
    var state = receiving()
    #expect(
      state.fail(HTTPParserError.invalidChunkSize, at: at(2))
        == .refuse(.badRequest, because: "\(HTTPParserError.invalidChunkSize)", inBody: true))
  }

  @Test func cutsOffABrokenBodyWhoseAnswerHasBegun() {
    var state = receiving()
    _ = state.beginAnswer(closes: false)
    #expect(state.fail(HTTPParserError.invalidChunkSize, at: at(2)) == .cut(because: "\(HTTPParserError.invalidChunkSize)", inBody: true))
  }

  @Test func cutsOffABrokenBodyBehindARequestThatIsNotAnsweredYet() {
    var state = receiving(get)
    _ = state.receiveEnd()
    #expect(state.receiveHead(post, at: at(1)) == .pass)
    #expect(state.fail(HTTPParserError.invalidChunkSize, at: at(2)) == .cut(because: "\(HTTPParserError.invalidChunkSize)", inBody: true))
  }

  @Test func answersWhatItHasUnderstoodBeforeAnError() {
    var state = receiving(get)
    #expect(state.receiveEnd() == .pass)
    #expect(state.fail(HTTPParserError.invalidMethod, at: at(2)) == .drop)
    #expect(state.receiveHead(get, at: at(3)) == .drop && state.receiveBody(1, at: at(3)) == .drop && state.receiveEnd() == .drop)
    #expect(state.beginAnswer(closes: false) == true)
    #expect(state.endAnswer(at: at(4)) == true)
  }

  @Test func ignoresAnAmbiguousHeadBehindARequestThatItAnswers() {
    var state = receiving(get)
    #expect(state.receiveEnd() == .pass)
    #expect(state.receiveHead(request(.GET, "/", [:]), at: at(2)) == .drop)
    #expect(state.beginAnswer(closes: false) == true)
  }

  @Test func handsOnOtherErrors() {
    var state = receiving()
    #expect(state.fail(ChannelError.eof, at: at(2)) == .pass)
    #expect(state.receiveBody(1, at: at(3)) == .pass)
  }

  @Test func leavesErrorsAfterTheLastAnswerAlone() {
    var state = lingering()
    #expect(state.fail(HTTPParserError.invalidMethod, at: at(9)) == .drop)
  }

  // MARK: The time of a body

  @Test func cutsOffABodyThatBringsNothing() {
    var state = receiving()
    #expect(state.receiveBody(100_000, at: at(11)) == .pass)
    #expect(state.nextCheck(at: second(11)) == second(61))
    #expect(state.checkTime(at: second(61)) == .pass)
    #expect(state.checkTime(at: second(70)) == .pass)
    #expect(state.checkTime(at: second(71)) == .cut(because: "no byte of a body", inBody: true))
  }

  @Test(arguments: [(61_439, false), (61_440, true)]) func cutsOffABodyThatTrickles(bytes: Int, passes: Bool) {
    var state = receiving()
    _ = state.receiveBody(bytes - 1, at: at(30))
    _ = state.receiveBody(1, at: at(60))
    let action = state.checkTime(at: second(61))
    #expect(action == (passes ? .pass : .cut(because: "\(bytes) bytes of a body in one period", inBody: true)))
  }

  @Test func measuresEachPeriodOfABodyAnew() {
    var state = receiving()
    _ = state.receiveBody(100_000, at: at(60))
    #expect(state.checkTime(at: second(61)) == .pass)
    _ = state.receiveBody(1000, at: at(120))
    #expect(state.nextCheck(at: second(61)) == second(121))
    #expect(state.checkTime(at: second(120)) == .pass)
    #expect(state.checkTime(at: second(121)) == .cut(because: "1000 bytes of a body in one period", inBody: true))
  }

  @Test func doesNotCountAPauseOfOursAgainstTheClient() {
    var state = receiving()
    _ = state.receiveBody(1000, at: at(2))
    state.pauseReading(at: second(2))
    // As long as nothing is read, the client cannot be late.
    #expect(state.checkTime(at: second(1000)) == .pass)
    #expect(state.nextCheck(at: second(1000)) == second(1060))
    #expect(state.resumesReading(at: at(1002)) == true)
    #expect(state.nextCheck(at: second(1002)) == second(1061))
    #expect(state.checkTime(at: second(1060)) == .pass)
    #expect(state.checkTime(at: second(1061)) == .cut(because: "1000 bytes of a body in one period", inBody: true))
  }

  @Test func givesTheHandlerOfACompleteRequestAllTimeItNeeds() {
    var state = receiving()
    _ = state.receiveEnd()
    #expect(state.checkTime(at: second(100_000)) == .pass)
    #expect(state.nextCheck(at: second(100_000)) == second(100_060))
  }

  // MARK: Answers

  @Test func keepsAConnectionForTheNextRequest() {
    var state = receiving()
    _ = state.receiveEnd()
    #expect(state.beginAnswer(closes: false) == false)
    #expect(state.endAnswer(at: at(5)) == false)
    #expect(state.nextCheck(at: second(5)) == second(65))
    #expect(state.checkTime(at: second(64)) == .pass)
    #expect(state.receiveHead(get, at: at(64)) == .pass)
    #expect(state.checkTime(at: second(65)) == .pass)
  }

  @Test func cutsOffAClientThatSendsNoFurtherRequest() {
    var state = receiving()
    _ = state.receiveEnd()
    _ = state.endAnswer(at: at(5))
    #expect(state.checkTime(at: second(65)) == .cut(because: "no complete request head", inBody: false))
  }

  @Test func closesAfterAnAnswerThatDoesNotWaitForItsBody() {
    var state = receiving()
    #expect(state.beginAnswer(closes: false) == true)
    #expect(state.endAnswer(at: at(2)) == true)
    #expect(state.isLingering)
  }

  @Test func closesAfterAnAnswerThatSaysSo() {
    var state = receiving()
    _ = state.receiveEnd()
    #expect(state.beginAnswer(closes: true) == false)
    #expect(state.endAnswer(at: at(2)) == true)
  }

  @Test(arguments: [request(.GET, "/", ["host": "a", "connection": "close"]), HTTPRequestHead(version: .http1_0, method: .GET, uri: "/")])
  func closesWhenTheClientWantsIt(head: HTTPRequestHead) {
    var state = receiving(head)
    _ = state.receiveEnd()
    #expect(state.beginAnswer(closes: false) == true)
    #expect(state.endAnswer(at: at(2)) == true)
  }

  @Test func answersAllRequestsThatCameAtOnceBeforeItCloses() {
    var state = receiving(get)
    _ = state.receiveEnd()
    #expect(state.receiveHead(request(.GET, "/", ["host": "a", "connection": "close"]), at: at(1)) == .pass)
    _ = state.receiveEnd()
    #expect(state.beginAnswer(closes: false) == false)
    #expect(state.endAnswer(at: at(2)) == false)
    #expect(state.beginAnswer(closes: false) == true)
    #expect(state.endAnswer(at: at(3)) == true)
  }

  @Test func staysOpenWhenABodyFollowsTheRequestThatItAnswers() {
    var state = receiving(get)
    _ = state.receiveEnd()
    _ = state.receiveHead(post, at: at(1))
    #expect(state.beginAnswer(closes: false) == false)
    #expect(state.endAnswer(at: at(2)) == false)
    _ = state.receiveEnd()
    #expect(state.beginAnswer(closes: false) == false)
    #expect(state.endAnswer(at: at(3)) == false)
  }

  @Test func cutsOffAClientThatDoesNotReadItsAnswer() {
    var state = receiving(get)
    _ = state.receiveEnd()
    state.beginWrite(at: second(10))
    state.beginWrite(at: second(20))
    #expect(state.nextCheck(at: second(20)) == second(70))
    #expect(state.checkTime(at: second(69)) == .pass)
    state.endWrite(at: second(69))
    #expect(state.checkTime(at: second(128)) == .pass)
    #expect(state.checkTime(at: second(129)) == .cut(because: "the answer is not read", inBody: false))
    state.endWrite(at: second(130))
    #expect(state.checkTime(at: second(1000)) == .pass)
  }

  @Test func startsTheTimeOfAWriteAnewWhenNoneWasWaiting() {
    var state = receiving(get)
    _ = state.receiveEnd()
    state.beginWrite(at: second(10))
    state.endWrite(at: second(10))
    state.beginWrite(at: second(100))
    #expect(state.checkTime(at: second(159)) == .pass)
    #expect(state.checkTime(at: second(160)) == .cut(because: "the answer is not read", inBody: false))
  }

  // MARK: After the last answer

  @Test func readsOnlySoMuchAfterTheLastAnswer() {
    var state = lingering(arrived: 1000)
    #expect(state.nextCheck(at: second(3)) == nil)
    #expect(state.receiveBody(10, at: at(3)) == .drop)
    #expect(state.resumesReading(at: at(3, arrived: 1000 + limits.leftover - 1)) == true)
    #expect(state.resumesReading(at: at(3, arrived: 1000 + limits.leftover)) == false)
  }

  @Test func countsWhatItIgnoresFromTheErrorOn() {
    var state = receiving(get)
    _ = state.receiveEnd()
    _ = state.fail(HTTPParserError.invalidMethod, at: at(2, arrived: 500))
    #expect(state.resumesReading(at: at(3, arrived: 500 + limits.leftover)) == false)
    _ = state.endAnswer(at: at(3, arrived: 900))
    #expect(state.resumesReading(at: at(3, arrived: 500 + limits.leftover)) == false)
  }

  @Test func readsAnyNumberOfBytesOfARequest() {
    var state = receiving()
    #expect(state.resumesReading(at: at(2, arrived: 1 << 40)) == true)
  }

  // MARK: Both ends

  @Test func closesAnIdleConnectionWhenTheServerEnds() {
    var state = opened()
    #expect(state.quiesce() == .close)
  }

  @Test func finishesARequestUnderWayWhenTheServerEnds() {
    var state = receiving()
    #expect(state.quiesce() == .drop)
    #expect(state.receiveBody(1, at: at(2)) == .pass)
    _ = state.receiveEnd()
    #expect(state.beginAnswer(closes: false) == true)
    #expect(state.endAnswer(at: at(3)) == true)
  }

  @Test func closesWhenTheClientEndsBetweenRequests() {
    var (idle, done) = (opened(), lingering())
    #expect(idle.endInput() == .close)
    #expect(done.endInput() == .close)
  }

  @Test func answersAClientThatHasSentAll() {
    var state = receiving()
    _ = state.receiveEnd()
    #expect(state.endInput() == .pass)
    #expect(state.beginAnswer(closes: false) == true)
  }

  // MARK: Sockets

  @Test func asksWhetherARequestMayBecomeASocket() {
    var state = opened()
    #expect(state.receiveHead(handshake, at: at(1)) == .ask)
    // The parser stops there.
    #expect(state.beginAnswer(closes: false) == true)
  }

  @Test(arguments: ["sec-websocket-key", "sec-websocket-version", "connection"]) func takesAnUpgradeThatIsNoHandshakeAsAPlainRequest(
    missing: String
  ) {
    var (state, head) = (opened(), handshake)
    head.headers.remove(name: missing)
    #expect(state.receiveHead(head, at: at(1)) == .passPlain)
  }

  @Test func takesAHandshakeBehindARequestAsAPlainOne() {
    var state = receiving(get)
    _ = state.receiveEnd()
    #expect(state.receiveHead(handshake, at: at(1)) == .passPlain)
  }

  // MARK: Heads

  @Test(
    arguments: [
      (["host": "a", "content-length": "0"], nil), (["host": "a", "transfer-encoding": "Chunked"], nil),
      ([:], "0 Host headers"), (["host": "a", "content-length": "+1"], "Content-Length is no length"),
      (["host": "a", "content-length": ""], "Content-Length is no length"),
      (["host": "a", "content-length": "1234567890123456789"], "Content-Length is no length"),
      (["host": "a", "transfer-encoding": "gzip, chunked"], "a Transfer-Encoding other than chunked"),
    ] as [([String: String], String?)]) func judgesAHead(headers: [String: String], problem: String?)
  {
    #expect(RequestRules.problem(in: request(.POST, "/", headers)) == problem)
  }

  @Test(arguments: ["host", "content-length", "transfer-encoding"]) func refusesAHeaderThatComesTwice(name: String) {
    var head = request(.POST, "/", ["host": "a"])
    head.headers.add(name: name, value: name == "transfer-encoding" ? "chunked" : "1")
    if name != "host" { head.headers.add(name: name, value: name == "transfer-encoding" ? "chunked" : "1") }
    #expect(RequestRules.problem(in: head) != nil)
  }

  @Test func anOldRequestNeedsNoHostAndHasNoChunks() {
    var head = HTTPRequestHead(version: .http1_0, method: .POST, uri: "/")
    #expect(RequestRules.problem(in: head) == nil)
    head.headers.add(name: "transfer-encoding", value: "chunked")
    #expect(RequestRules.problem(in: head) == "Transfer-Encoding before HTTP/1.1")
  }

  private func lingering(arrived: Int = 0) -> ConnectionState {
    var state = receiving(get)
    _ = state.receiveEnd()
    _ = state.beginAnswer(closes: true)
    #expect(state.endAnswer(at: at(2, arrived: arrived)) == true)
    return state
  }
}

private func request(_ method: HTTPMethod, _ path: String, _ headers: [String: String]) -> HTTPRequestHead {
  HTTPRequestHead(
    version: .http1_1, method: method, uri: path, headers: HTTPHeaders(headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }))
}

private let get = request(.GET, "/", ["host": "a"])
private let post = request(.POST, "/files", ["host": "a", "transfer-encoding": "chunked"])
private let handshake = request(
  .GET, "/camera",
  ["host": "a", "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-key": "dGhlIHNhbXBsZQ==", "sec-websocket-version": "13"])

private func second(_ number: UInt64) -> NIODeadline { .uptimeNanoseconds(number * 1_000_000_000) }

private func at(_ number: UInt64, arrived: Int = 0) -> ConnectionState.Moment { .init(time: second(number), arrived: arrived) }
