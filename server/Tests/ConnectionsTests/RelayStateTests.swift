import Connections
import NIOCore
import Testing

@Suite struct RelayStateTests {
  private var state = RelayState<String, String>()

  private mutating func addCamera(_ name: String, at time: Int64 = 1, of project: String = "lab", records: Bool = false) -> Int64 {
    state.add(at: time) { _ in .init(end: name, project: project, records: records) }.id
  }

  private mutating func addViewer(_ name: String, of project: String?, records: Bool = false) -> Int {
    state.add(.init(end: name, project: project, records: records)).id
  }

  @Test mutating func camerasOfOneMomentHaveDifferentIDs() {
    #expect([addCamera("a", at: 7), addCamera("b", at: 7), addCamera("c", at: 8)] == [7, 8, 9])
  }

  @Test mutating func aKeySeesItsProjectAndNoKeySeesAll() {
    _ = (addCamera("ours"), addCamera("theirs", of: "other"))
    _ = (addViewer("ours", of: "lab"), addViewer("theirs", of: "other"), addViewer("everybody", of: nil))
    #expect(state.cameras(of: "lab") == ["ours"] && state.cameras(of: nil).sorted() == ["ours", "theirs"])
    #expect(state.viewers(of: "lab").sorted() == ["everybody", "ours"])
    #expect([state.viewerCount(of: "lab"), state.viewerCount(of: "third"), state.viewerCount(of: nil)] == [2, 1, 3])
  }

  @Test mutating func aNewViewerLearnsWhatItsCamerasSaidLast() {
    let (late, early, foreign) = (addCamera("late", at: 9), addCamera("early", at: 3), addCamera("foreign", at: 5, of: "other"))
    state.setStatus("ready", of: late)
    state.setStatus("recording", of: late)
    let ours = state.add(.init(end: "v", project: "lab", records: false)).seen
    #expect(ours.map(\.camera) == [early, late] && ours.map(\.status) == ["waiting", "recording"])
    let all = state.add(.init(end: "w", project: nil, records: false)).seen
    #expect(all.map(\.camera) == [early, foreign, late])
  }

  @Test mutating func whoLeavesIsForgotten() {
    let (camera, viewer) = (addCamera("c"), addViewer("v", of: "lab"))
    state.removeCamera(camera)
    state.removeViewer(viewer)
    #expect(state.cameras(of: nil).isEmpty && state.viewers(of: "lab").isEmpty && !state.isKept(camera))
  }

  @Test mutating func aStreamIsKeptForWhoeverSeesItAndWantsIt() {
    let (plain, always, foreign) = (addCamera("plain"), addCamera("always", records: true), addCamera("foreign", of: "other"))
    let (wants, looks) = (addViewer("wants", of: "lab", records: true), addViewer("looks", of: nil))
    #expect([state.isKept(plain), state.isKept(always), state.isKept(foreign)] == [true, true, false])
    #expect(state.keepers(of: "lab") == ["wants"] && state.unkept == ["foreign"])
    state.setRecords(false, of: wants)
    #expect(state.keepers(of: "lab").isEmpty && state.unkept.sorted() == ["foreign", "plain"])
    state.setRecords(true, of: looks)
    #expect(state.unkept.isEmpty)
    state.removeViewer(looks)
    #expect(state.isKept(always) && !state.isKept(plain))
  }
}

@Suite struct LiveMessageTests {
  private func text(_ json: String) -> LiveText? {
    if case .text(let text) = LiveMessage(ByteBuffer(string: json), isBinary: false) { text } else { nil }
  }

  @Test(
    arguments: [
      (#"{"type":"answer","sdp":"x"}"#, .signal), (#"{"type":"ice"}"#, .signal), (#"{"command":"start"}"#, .command("start")),
      (#"{"command":"stop","type":"answer"}"#, .command("stop")), (#"{"type":"reconnect_request"}"#, .command("reconnect")),
      (#"{"type":"record","on":true}"#, .record(true)), (#"{"type":"record","on":false}"#, .record(false)),
      (#"{"type":"record","on":1}"#, nil),
      (#"{"command":"format"}"#, nil), (#"{"command":1,"type":"answer"}"#, nil), (#"{"type":"offer"}"#, nil), ("{}", nil),
    ] as [(String, LiveText.Wish?)]) func understandsAViewer(json: String, wish: LiveText.Wish?) throws
  {
    #expect(try #require(text(json)).wish == wish)
  }

  @Test(
    arguments: [
      (#"{"type":"status","status":"recording"}"#, .status("recording")), (#"{"type":"offer"}"#, .signal), (#"{"type":"ice"}"#, .signal),
      (#"{"type":"status"}"#, nil), (#"{"type":"answer"}"#, nil), (#"{"type":"offer","command":"start"}"#, nil), ("{}", nil),
    ] as [(String, LiveText.News?)]) func understandsACamera(json: String, news: LiveText.News?) throws
  {
    #expect(try #require(text(json)).news == news)
  }

  @Test(arguments: [(256, true), (257, false)]) func takesNoNovelForAStatus(count: Int, isTaken: Bool) throws {
    let status = String(repeating: "a", count: count)
    #expect(try #require(text(#"{"type":"status","status":"\#(status)"}"#)).news == (isTaken ? .status(status) : nil))
  }

  @Test(arguments: [(1000, true, "other"), (1001, true, "frame"), (1001, false, "other")])
  func takesLargeBinaryMessagesForFrames(bytes: Int, isBinary: Bool, kind: String) {
    let found =
      switch LiveMessage(ByteBuffer(repeating: 0xFF, count: bytes), isBinary: isBinary) {
      case .text: "text"
      case .frame: "frame"
      case .other: "other"
      }
    #expect(found == kind)
  }
}
