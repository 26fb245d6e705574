import Foundation
import Testing

@testable import TakesetRecorder

@Suite struct LiveCameraTests {
  private static let start = LiveCamera.Event.text(#"{"command":"start"}"#), stop = LiveCamera.Event.text(#"{"command":"stop"}"#)

  @Test(arguments: [(240, 15, 16), (240, 30, 8), (120, 15, 8), (120, 30, 4), (60, 30, 2), (60, 24, 2), (100, 30, 3), (30, 60, 1)])
  func everySoManythFrameIsStreamed(_ rate: Int, _ stream: Int, _ every: Int) {
    var camera = LiveCamera(rate: rate, streamRate: stream)
    _ = camera.handle(.tick, at: 0)
    _ = camera.handle(.connected, at: 0.1)
    let sent = (1...1000).filter { camera.handle(.frame, at: Double($0) / Double(rate)).contains(.stream) }
    #expect(sent == Array(stride(from: every, through: 1000, by: every)))
  }

  /// Every sequence of up to six of ten events, and what holds after each.
  @Test func noSequenceLosesAMovieOrConnectsTwice() {
    let events: [(LiveCamera.Event, Double)] = [
      (.connected, 0), (.disconnected, 0.1), (Self.start, 0), (Self.stop, 0), (.frame, 0.01), (.movie("a"), 0), (.uploaded("a"), 0.5),
      (.uploadFailed("a"), 0.5), (.tick, 1), (.tick, 10),
    ]
    var count = 0
    var failures: [String] = []
    struct Owner {
      var isConnecting = false, isConnected = false, isOpen = false, closing = 0
      var uploads: [String] = [], closed: Set<String> = [], stored: Set<String> = []
      var status: LiveCamera.Status?
    }
    func visit(_ camera: LiveCamera, _ owner: Owner, _ time: Double, _ depth: Int, _ path: [Int]) {
      for index in events.indices {
        var (camera, owner) = (camera, owner)
        let (event, after) = events[index]
        func fail(_ what: String) { failures.append("\(path + [index]): \(what)") }
        switch event {
        case .connected: if owner.isConnecting { (owner.isConnecting, owner.isConnected) = (false, true) }
        case .disconnected: (owner.isConnecting, owner.isConnected, owner.status) = (false, false, nil)
        case .movie(let name):
          owner.closed.insert(name)
          owner.closing = 0
        case .uploaded(let name): if owner.uploads.contains(name) { owner.stored.insert(name) }
        default: break
        }
        if case .uploaded(let name) = event { owner.uploads.removeAll { $0 == name } }
        if case .uploadFailed(let name) = event { owner.uploads.removeAll { $0 == name } }
        for effect in camera.handle(event, at: time + after) {
          switch effect {
          case .connect:
            if owner.isConnecting || owner.isConnected { fail("connects twice") }
            owner.isConnecting = true
          case .disconnect: break
          case .status(let status):
            if !owner.isConnected { fail("status without a connection") }
            if owner.status == status { fail("the same status again") }
            owner.status = status
          case .stream: if !owner.isConnected { fail("streams without a connection") }
          case .openMovie:
            if owner.isOpen || owner.closing > 0 { fail("two movies") }
            owner.isOpen = true
          case .record: if !owner.isOpen { fail("records without a movie") }
          case .closeMovie:
            if !owner.isOpen { fail("closes none") }
            (owner.isOpen, owner.closing) = (false, 1)
          case .upload(let name):
            if !owner.uploads.isEmpty { fail("two uploads") }
            if !owner.closed.contains(name) { fail("uploads \(name), which is not closed") }
            owner.uploads.append(name)
          }
        }
        count += 1
        // What a viewer sees is what is so, and no movie is forgotten.
        if owner.isConnected, owner.status != camera.status { fail("\(camera.status) was not told") }
        if camera.isRecording != owner.isOpen { fail("recording otherwise") }
        // The same name again is the same movie.
        let expected = owner.closed.subtracting(owner.stored)
        if !expected.isSubset(of: camera.pending) { fail("\(expected) forgotten") }
        if case .movie = event { owner.stored.subtract(camera.pending) }
        if depth < 6 { visit(camera, owner, time + after, depth + 1, path + [index]) }
      }
    }
    visit(LiveCamera(rate: 2, streamRate: 1), Owner(), 0, 1, [])
    #expect(count == 1_111_110 && failures.isEmpty, "\(failures.count): \(failures.prefix(3))")
  }

  @Test func itComesBackAfterASecondAndWaitsLongerWhereNobodyAnswers() {
    var camera = LiveCamera(rate: 60, streamRate: 30)
    var attempts: [Double] = []
    for step in 0..<600 {
      let time = Double(step) / 10
      if camera.handle(.tick, at: time).contains(.connect) {
        attempts.append(time)
        _ = camera.handle(.disconnected, at: time)
      }
    }
    #expect(attempts == [0, 1, 3, 7, 15, 25, 35, 45, 55])
    _ = camera.handle(.tick, at: 70)
    _ = camera.handle(.connected, at: 70)
    #expect(!camera.handle(.disconnected, at: 71).contains(.connect) && camera.handle(.tick, at: 72) == [.connect])
  }

  @Test func aMovieWithoutAFrameIsNoneAndTheNextOneIs() {
    var camera = LiveCamera(rate: 60, streamRate: 30)
    _ = camera.handle(.tick, at: 0)
    _ = camera.handle(.connected, at: 0)
    #expect(camera.handle(Self.start, at: 1) == [.openMovie, .status(.recording)])
    #expect(camera.handle(Self.stop, at: 1) == [.closeMovie, .status(.uploading)])
    #expect(camera.handle(.empty, at: 1) == [.status(.waiting)] && camera.handle(Self.start, at: 2).contains(.openMovie))
  }

  @Test func aStartRightAfterAStopOpensTheNextMovie() {
    var camera = LiveCamera(rate: 60, streamRate: 30)
    _ = camera.handle(.tick, at: 0)
    _ = camera.handle(.connected, at: 0)
    for event in [Self.start, .frame, Self.stop] { _ = camera.handle(event, at: 1) }
    #expect(camera.handle(Self.start, at: 1).isEmpty)
    #expect(camera.handle(.movie("a"), at: 1) == [.openMovie, .upload("a"), .status(.recording)])
    // A stop takes a start back that waits.
    for event in [Self.stop, Self.start, Self.stop] { _ = camera.handle(event, at: 2) }
    #expect(!camera.handle(.movie("b"), at: 2).contains(.openMovie))
  }

  @Test func aMovieThatFailsWaitsBehindTheOthers() {
    var camera = LiveCamera(rate: 60, streamRate: 30)
    #expect(camera.handle(.movie("a"), at: 0).contains(.upload("a")))
    #expect(camera.handle(.movie("b"), at: 0).isEmpty)
    #expect(camera.handle(.uploadFailed("a"), at: 0).isEmpty)
    #expect(camera.handle(.tick, at: 1).contains(.upload("b")))
    #expect(camera.handle(.uploaded("b"), at: 2) == [.upload("a")] && camera.pending == ["a"])
  }

  @Test(arguments: [
    ("ws://10.0.0.2:8080/camera", "http://10.0.0.2:3000/upload"), ("ws://h:9000/camera", "http://h:9000/upload"),
    ("ws://h:8080/k/KEY/camera", "http://h:3000/k/KEY/upload"), ("wss://h/camera?key=K", "https://h/upload?key=K"),
    ("ws://h:8080", "http://h:3000/upload"),
  ])
  func theAddressOfTheUploadFollowsFromTheSockets(_ socket: String, _ upload: String) throws {
    #expect(LiveMessageWriter.uploadAddress(of: try #require(URL(string: socket)))?.absoluteString == upload)
  }

  @Test func messagesAreAsTheAppWritesThem() throws {
    let frame = LiveMessageWriter.frame([0xFF, 0xD8, 0xFF], at: 978_307_201.5)
    #expect(frame == [0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 0xFF, 0xD8, 0xFF])
    #expect(LiveMessageWriter.status(.recording, at: 5.5) == #"{"status":"recording","timestamp":5.5,"type":"status"}"#)
  }

  @Test func theSmallestFormatThatReachesRateAndSize() {
    let formats = [(1280, 720, 240), (1920, 1080, 60), (1920, 1080, 120), (1920, 1080, 240), (3840, 2160, 60)].map {
      CameraFormat(width: $0.0, height: $0.1, rate: Double($0.2))
    }
    func choice(_ width: Int, _ height: Int, _ rate: Double) -> Int? {
      CameraFormat.choice(of: formats, width: width, height: height, rate: rate).flatMap { formats.firstIndex(of: $0) }
    }
    #expect(choice(1280, 720, 120) == 0 && choice(1920, 1080, 60) == 1 && choice(1920, 1080, 100) == 2 && choice(1920, 1080, 240) == 3)
    #expect(choice(2560, 1440, 30) == 4 && choice(3840, 2160, 120) == nil && choice(640, 480, 480) == nil)
  }
}
