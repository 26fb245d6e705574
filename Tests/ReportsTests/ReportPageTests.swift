import Evidence
import Foundation
import Model
import Simulate
import Testing
import TestSupport

@testable import Reports
@testable import Transforms

@Suite struct ReportPageTests {
  // MARK: Drawings

  @Test func pathsAreInTenthsWithRelativeLines() {
    var path = PathData()
    path.polyline([[1, 2], [1.25, 2], [1.25, -0.5], [0, 0.04]])
    // 1.25 is 12.5 tenths, rounded to 13; -0.5 to -5; the last point is 13 tenths to the left, and 5 down.
    #expect(path.text == "M1 2h.3v-2.5l-1.3 .5")
    var dot = PathData()
    dot.polyline([[3, 4]])
    #expect(dot.text == "M3 4h0")
    var far = PathData()
    far.move(to: [.nan, .infinity])
    #expect(far.text == "M0 100000")
  }

  @Test func roundingDoesNotAddUpAlongALine() {
    var path = PathData()
    path.polyline((0...1000).map { [Double($0) * 0.04, 0] })
    let steps = path.text.split(separator: "h").dropFirst().compactMap { Double($0) }
    #expect(abs(steps.reduce(0, +) - 40) < 0.051)
  }

  @Test func aStraightLineNeedsTwoPointsAndACornerThree() {
    let straight = (0...100).map { SIMD2(Double($0), Double($0) * 2) }
    #expect(Polyline.simplified(straight) == [[0, 0], [100, 200]])
    let corner = straight + (1...100).map { SIMD2(100 + Double($0), 200) }
    #expect(Polyline.simplified(corner) == [[0, 0], [100, 200], [200, 200]])
  }

  @Test func aLongLineIsLimited() {
    var random = SplitMix(seed: 3)
    let noise = (0..<20_000).map { SIMD2(Double($0) / 50, Double(random.next() % 200)) }
    let line = Polyline.simplified(noise, limit: 300)
    #expect(line.count <= 300 && line.first == noise.first && line.last == noise.last)
  }

  @Test func aColumnKeepsItsLowestAndHighestValue() {
    let points: [SIMD2<Double>] = [[0, 5], [0.1, 9], [0.2, 1], [0.3, 5], [1.5, 2]]
    #expect(Polyline.columns(points) == [[0, 5], [0.1, 9], [0.2, 1], [0.3, 5], [1.5, 2]])
    let many = (0..<1000).map { SIMD2(0.0005 * Double($0), $0 == 500 ? 100.0 : 0) }
    #expect(Polyline.columns(many).contains { $0.y == 100 } && Polyline.columns(many).count <= 4)
  }

  @Test func ticksAreRound() {
    let scale = Scale(0...3.2, from: 10, length: 320)
    #expect(scale.ticks(6) == [0, 1, 2, 3] && scale(1) == 110)
    #expect(Scale.step(10, 10) == 1 && Scale.step(11, 10) == 2 && Scale.step(0, 10) == 0 && Scale.step(.infinity, 10) == 0)
  }

  @Test func valuesOfEpisodesMergeToTheSameBinsInAnyOrder() throws {
    let episodes: [[Float]] = [[0.01, -0.02, .nan], [3.5, 3.5], [], [-0.25, 0.011, 1e-9]]
    let all = BinnedValues(episodes.flatMap(\.self))
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 1, 3, 0]] {
      var merged = BinnedValues([])
      for index in order { merged.merge(BinnedValues(episodes[index])) }
      #expect(merged == all)
    }
    let bins = try #require(all.bins)
    #expect((bins.start, bins.width) == (-0.25, 0.125) && bins.counts.count == 31 && bins.counts.reduce(0, +) == 7)
    #expect(BinnedValues([.nan, .infinity]).bins == nil && BinnedValues([7, 7]).bins?.counts == [2])
    #expect(BinnedValues([-.greatestFiniteMagnitude, .greatestFiniteMagnitude]).bins?.counts.reduce(0, +) == 2)
  }

  @Test func anyValueHasABin() throws {
    let bins = try #require(HistogramDrawing.Bins([-16.7, -16.7, 0, 0, 0, 16.6, .nan]))
    #expect(bins.counts.reduce(0, +) == 6 && bins.counts.max() == 3)
    // One bin is centered on 0.
    let center = (0 - bins.start) / bins.width
    #expect(abs(center - center.rounded(.down) - 0.5) < 1e-9)
    #expect(HistogramDrawing.Bins([.nan]) == nil && HistogramDrawing.Bins([7])?.counts == [1])
    let extreme = try #require(HistogramDrawing.Bins([-9.2e12, 9.2e12]))
    #expect(extreme.counts.reduce(0, +) == 2)
    #expect(HistogramDrawing.drawing("same", [1, 1, 1], unit: "ms") == nil)
  }

  @Test func theViewFromAboveFollowsTheWorldsAxes() {
    let arkit = GroundPlane(worldAxes: PoseFrame.arkit.worldAxes, positions: [])
    #expect((arkit.right, arkit.down, arkit.up) == ([1, 0, 0], [0, 0, 1], [0, 1, 0]) && arkit.isLevel)
    let turned = GroundPlane(worldAxes: "z up, gravity-aligned", positions: [])
    #expect((turned.right, turned.down, turned.up) == ([1, 0, 0], [0, -1, 0], [0, 0, 1]))
  }

  @Test func aWorldWithoutUpIsSeenInItsLargestPlane() {
    // A path along (1, 1, 0), less far along z, and hardly along (1, -1, 0).
    let positions = (0..<100).map { index -> SIMD3<Double> in
      let angle = Double(index) / 100 * 2 * .pi
      return [cos(angle) + 0.01 * sin(3 * angle), cos(angle) - 0.01 * sin(3 * angle), 0.5 * sin(angle)]
    }
    let plane = GroundPlane(worldAxes: "arbitrary rotation and origin, right-handed", positions: positions)
    #expect(!plane.isLevel)
    #expect(abs((plane.right * [1, 1, 0]).sum() / 2.0.squareRoot() - 1) < 1e-6)
    #expect(abs(abs((plane.down * [0, 0, 1]).sum()) - 1) < 1e-6)
    #expect(abs((plane.right * plane.down).sum()) < 1e-12 && abs((plane.right * plane.up).sum()) < 1e-12)
  }

  @Test func aTrajectoryHasItsLengthAndOneScale() throws {
    let plane = GroundPlane(worldAxes: "y up", positions: [])
    let square: [SIMD3<Double>?] = [[0, 5, 0], [2, 5, 0], [2, 5, 1], nil, [0, 5, 1]]
    let trajectory = try #require(TrajectoryDrawing(square, plane: plane, unit: "m"))
    #expect(trajectory.length == 3 && trajectory.extent == [2, 1])
    #expect(trajectory.drawing.lines.contains { $0.style == .bridge })
    #expect(TrajectoryDrawing([nil, nil], plane: plane, unit: "m") == nil)
    // One that stays where it is, and one beyond any number of pixels.
    #expect(TrajectoryDrawing([[1, 1, 1], [1, 1, 1]], plane: plane, unit: "m")?.length == 0)
    #expect(TrajectoryDrawing([[1e200, 0, 0], [-1e200, 0, 0]], plane: plane, unit: "m") != nil)
  }

  /// From the side, what is higher in the world is higher in the drawing, and the horizontal axis is that of the view from above.
  @Test(arguments: [
    ("y up", SIMD3<Double>(0, 1, 0), "x right, y up"), ("z up", SIMD3<Double>(0, 0, 1), "x right, z up"),
    ("x right, y down, z forward", SIMD3<Double>(0, -1, 0), "x right, y down"),
  ])
  func theSideViewIsUpright(_ axes: String, _ up: SIMD3<Double>, _ words: String) throws {
    let plane = GroundPlane(worldAxes: PoseFrame.WorldAxes(axes), positions: [])
    let path: [SIMD3<Double>?] = [.zero, [1, 0, 0], [1, 0, 0] + 2 * up]
    let drawing = try #require(TrajectoryDrawing(path, plane: plane.side, unit: "m"))
    #expect(drawing.extent == [1, 2] && drawing.length == 3 && plane.side.words == words && plane.side.view == "from the side")
    #expect(drawing.drawing.title.hasPrefix("Trajectory from the side, 1 by 2 m"))
    let (low, high) = (drawing.place(.zero), drawing.place(2 * up))
    #expect(high.y < low.y && high.x == low.x && drawing.place([1, 0, 0]).x > low.x)
  }

  @Test func gapsAndMissingSamplesAreOnTheTimeLine() throws {
    let seconds = [0, 0.1, 0.2, 0.6, 0.7]
    let lane = TimelineDrawing.Lane(name: "depth", rows: [true, false, true, true, false])
    let drawing = try #require(TimelineDrawing.drawing(seconds: seconds, period: 0.1, gaps: [(row: 2, missing: 3)], lanes: [lane]))
    func boxes(_ style: Drawing.Style) -> [Int] { drawing.lines.filter { $0.style == style }.map { $0.path.text.count { $0 == "z" } } }
    // Frames are two boxes around the gap; depth has a box for row 0, and for rows 2 and 3 one each because of the gap.
    #expect(boxes(.gap) == [1] && boxes(.present) == [2, 3])
    #expect(drawing.title.contains("1 gap, in which 3 frames are missing"))
    #expect(TimelineDrawing.drawing(seconds: [], period: 0, gaps: [], lanes: []) == nil)
  }

  @Test func anEpisodeIsReadIntoNumbersAndDrawings() throws {
    let episode = try Align().apply(to: SyntheticEpisode(times: [0, 16_666_667, 33_333_333, 83_333_333, 100_000_000]).episode)
    let contents = try EpisodeContents(episode, draws: true)
    #expect(contents.rows == 5 && contents.gaps.map(\.missing) == [2] && contents.missing == 2)
    let joints = try #require(contents.streams.first { $0.name == .joints }?.error)
    #expect(joints.median == 3_000_000)
    #expect(contents.timeline != nil && contents.trajectory != nil && contents.curves.map(\.caption).contains("joints (degree)"))
    #expect(try EpisodeContents(episode, draws: false).timeline == nil)
  }

  // MARK: Words

  @Test func interpolatedTextIsEscaped() {
    let hostile = "</script><b a='1' c=\"2\">&\u{0}"
    let markup: Markup = "<p title=\"\(hostile)\">\(hostile)</p>"
    let safe = "&lt;/script&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{FFFD}"
    #expect(markup.text == "<p title=\"\(safe)\">\(safe)</p>")
    let inner: Markup = "<i>\("<")</i>"
    #expect(("<u>\(inner)</u>" as Markup).text == "<u><i>&lt;</i></u>")
  }

  @Test func jsonInAScriptHasNoMarkup() {
    let json: JSONValue = ["<!--": "</script>"]
    #expect(String(decoding: PageFrame.scriptSafe(json.canonicalBytes), as: UTF8.self) == #"{"\u003c!--":"\u003c/script>"}"#)
  }

  @Test func numbersAreShort() {
    #expect([0, 0.5, 1.234, 12.34, 240, 0.0123, 99_999].map(Figures.short) == ["0", "0.5", "1.23", "12.3", "240", "0.0123", "99999"])
    #expect(Figures.bytes(999) == "999 bytes" && Figures.bytes(1500) == "1.5 kB" && Figures.bytes(3_210_000_000) == "3.21 GB")
    #expect(Figures.duration(61) == "61 s" && Figures.duration(3599.4) == "59 min 59 s" && Figures.duration(7322) == "2 h 2 min")
    #expect(counted(1, "frame") == "1 frame" && counted(12345, "frame") == "12,345 frames")
  }

  @Test func theBadgeNeverSaysMoreThanIsSigned() throws {
    func verification(_ state: String, covers: String, seconds: Double, assertion: String = "verified") -> JSONValue {
      [
        "chain": ["state": "sound"], "assertion": ["state": .string(assertion), "covers": .string(covers), "checkpoint": 1],
        "partial": [
          "state": .string(state), "verified_seconds": .number(seconds), "recorded_seconds": 12, "verified_frames": 300,
          "recorded_frames": 360,
        ],
        "levels": ["bytes-sealed-at-ingest"], "not_verified": ["that the movie shows what was hashed"],
      ]
    }
    let partial = try #require(VerificationBadge(verification("partial", covers: "checkpoint", seconds: 9.9667)))
    #expect(partial.text == "Verified: 10.0 s of 12.0 s recorded" && partial.state == .partial)
    #expect(VerificationBadge(verification("partial", covers: "checkpoint", seconds: 11.99))?.text == "Verified: 11.9 s of 12.0 s recorded")
    #expect(VerificationBadge(verification("complete", covers: "final", seconds: 12))?.text == "Verified: 12.0 s of 12.0 s recorded")
    let unknown = try #require(VerificationBadge(verification("partial", covers: "none", seconds: 0, assertion: "no-key")))
    #expect(unknown.state == .none && unknown.text == "Not verified: no key for its device")
    #expect(VerificationDetails(verification("partial", covers: "none", seconds: 0))?.notVerified.count == 1)
    #expect(VerificationBadge(nil) == nil && VerificationBadge(.null) == nil)
  }
}
