import Foundation
import Testing

@testable import TakesetRecorder

@Suite struct UploadStateTests {
  private func uploading() -> UploadState {
    var state = UploadState()
    #expect(state.handle(.tick, at: 0) == [.upload] && state.phase == .uploading)
    return state
  }

  @Test(arguments: [
    (200, UploadState.Phase.uploaded), (202, .uploaded), (413, .failed("The recording is larger than the server takes")),
    (400, .failed("The server refused the recording (400)")), (503, .waiting(until: 11)), (429, .waiting(until: 11)),
    (408, .waiting(until: 11)),
  ])
  func anAnswerSaysWhatIsNext(_ status: Int, _ phase: UploadState.Phase) {
    var state = uploading()
    #expect(state.handle(.answer(status: status, retryAfter: nil), at: 10).isEmpty && state.phase == phase)
  }

  @Test func anUnknownDeviceRegistersAndSendsAgain() {
    var state = uploading()
    #expect(state.handle(.answer(status: 401, retryAfter: nil), at: 1) == [.register] && state.phase == .needsRegistration)
    #expect(state.handle(.tick, at: 2).isEmpty && state.handle(.registered, at: 3) == [.upload])
  }

  @Test func pausesDoubleAndTheServersWordCounts() {
    var state = uploading()
    var (time, pauses) = (0.0, [Double]())
    for _ in 0..<9 {
      _ = state.handle(.noAnswer, at: time)
      guard case .waiting(let until) = state.phase else {
        Issue.record("it does not wait")
        return
      }
      #expect(state.handle(.tick, at: until - 0.1).isEmpty)
      pauses.append(until - time)
      time = until
      #expect(state.handle(.tick, at: time) == [.upload])
    }
    #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60])
    _ = state.handle(.answer(status: 429, retryAfter: 300), at: 1000)
    #expect(state.phase == .waiting(until: 1300) && state.handle(.networkIsBack, at: 1001) == [.upload])
  }

  @Test func aPersonTriesAgainAndTheStateOutlivesTheApp() throws {
    var state = uploading()
    _ = state.handle(.answer(status: 413, retryAfter: nil), at: 1)
    #expect(state.handle(.tick, at: 100).isEmpty)
    var kept = try JSONDecoder().decode(UploadState.self, from: JSONEncoder().encode(state))
    #expect(kept == state && kept.handle(.retry, at: 101) == [.upload])
  }

  @Test func noSequenceUploadsTwiceOrAfterTheEnd() {
    let events: [UploadState.Event] = [
      .tick, .networkIsBack, .answer(status: 200, retryAfter: nil), .answer(status: 401, retryAfter: nil),
      .answer(status: 413, retryAfter: nil),
      .answer(status: 500, retryAfter: nil), .noAnswer, .registered, .retry,
    ]
    var (count, failures) = (0, 0)
    func visit(_ state: UploadState, _ time: Double, _ depth: Int) {
      for event in events {
        var next = state
        let effects = next.handle(event, at: time + 1)
        count += 1
        // An upload begins only from rest; what is uploaded stays so.
        if effects.contains(.upload), state.phase == .uploading || state.phase == .uploaded || next.phase != .uploading { failures += 1 }
        if state.phase == .uploaded, next != state { failures += 1 }
        if depth < 6 { visit(next, time + 1, depth + 1) }
      }
    }
    visit(UploadState(), 0, 1)
    #expect(count == 597_870 && failures == 0)
  }
}
