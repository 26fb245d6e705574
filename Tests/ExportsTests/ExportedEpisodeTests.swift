import Model
import Testing
import TestSupport

@testable import Exports
@testable import Steps

@Suite struct ExportedEpisodeTests {
  private func episode(_ poses: [Pose], frame: PoseFrame) -> Episode {
    let times = poses.indices.map { Timestamp(nanoseconds: 5_000_000_000 + Int64($0) * 100) }
    var stream = SampleStream(
      spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: "m", clock: .deviceUptime), source: VectorSource(poses),
      timestamps: times, sourceIndex: poses.indices.map { Int64($0) })
    stream.rows = poses.indices.rows
    return Episode(
      id: "a", sourceFrames: poses.count,
      frames: Episode.Frames(timestamps: times, sourceIndex: poses.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: [.pose: stream])
  }

  private let turned = Pose(position: [1, 2, 3], quaternion: SIMD4(0.1, 0.2, 0.3, 0.927361849549570))

  /// The axes of the camera in the world: the same directions, whatever the convention calls them.
  @Test(arguments: [PoseFrame.CameraAxes.arkit, .opencv, .ros], [PoseFrame.CameraAxes.arkit, .opencv, .ros])
  func axesOfTheCameraKeepTheirDirections(_ own: PoseFrame.CameraAxes, _ wanted: PoseFrame.CameraAxes) throws {
    func viewing(_ pose: Pose, _ axes: PoseFrame.CameraAxes) -> (right: SIMD3<Double>, up: SIMD3<Double>, forward: SIMD3<Double>) {
      let (x, y, z) = pose.axes
      return switch axes {
      case .arkit: (x, y, -z)
      case .opencv: (x, -y, z)
      default: (-y, z, x)
      }
    }
    let frame = PoseFrame(cameraAxes: own, worldAxes: "any", unit: .meters)
    let found = try #require(try ExportedEpisode("a", open: episode([turned], frame: frame)).cameraPoses(wanted)?[0])
    #expect(found.position == turned.position)
    let (before, after) = (viewing(turned, own), viewing(found, wanted))
    for (a, b) in [(before.right, after.right), (before.up, after.up), (before.forward, after.forward)] { #expect(length(a - b) < 1e-6) }
  }

  @Test func posesOfABodyBecomeThoseOfTheCamera() throws {
    let body = Pose(position: [0.1, 0, -0.2], quaternion: [0, 0.6, 0, 0.8])
    var frame = PoseFrame.arkit
    frame.body = body
    let found = try #require(try ExportedEpisode("a", open: episode([turned.composed(with: body)], frame: frame)).cameraPoses(.arkit)?[0])
    #expect(length(found.position - turned.position) < 1e-6 && found.angle(to: turned) < 1e-6)
  }

  @Test func posesWithoutCameraAxesAreRefused() {
    #expect(throws: ExportRefusal.self) { try ExportedEpisode("a", open: episode([turned], frame: .synthetic)).cameraPoses(.opencv) }
  }

  /// The second row's time is nearer to the first image's, and the camera's own intrinsics are another stream's.
  @Test func intrinsicsAreThoseOfTheSampleAsItsStreamHasThem() {
    let times = [40, 170].map { Timestamp(nanoseconds: 5_000_000_000 + $0) }
    func track(_ focal: Double...) -> IntrinsicsTrack {
      let all = focal.map { Intrinsics(fx: $0, fy: $0, cx: 2, cy: 2) }
      let moments = zip(times, all).map { IntrinsicsTrack.Moment(time: $0, intrinsics: $1) }
      return IntrinsicsTrack(all[0], moments: all.count == 1 ? [] : moments)
    }
    var own = episode([turned, turned, turned], frame: .arkit)
    let (full, half) = (ImageSize(width: 4, height: 4), ImageSize(width: 2, height: 2))
    own.cameras[.phone] = Camera(size: full, intrinsicsTrack: track(8))
    var stream = SampleStream(
      spec: StreamSpec(kind: .image, type: .uint8, shape: [2, 2, 3], unit: "", clock: .deviceUptime), source: VectorSource([turned]),
      timestamps: times, sourceIndex: [0, 1])
    stream.spec.raster = Raster(size: half, covering: full)
    stream.rows = [Row(0), Row(1), nil]
    let exported = ExportedEpisode("a", open: own)
    #expect((0..<3).map { exported.intrinsics(stream, $0)?.fx } == [4, 4, 4])
    stream.intrinsicsTrack = track(4, 6)
    #expect((0..<3).map { exported.intrinsics(stream, $0)?.fx } == [2, 3, nil])
  }

  @Test func timesAreUnixTimesWhereTheyAreKnown() {
    var known = episode([turned, turned], frame: .arkit)
    known.unixOrigin = Episode.UnixOrigin(nanoseconds: 1_700_000_000_000_000_001, resolution: 1)
    let unix = ExportedEpisode("a", open: known)
    #expect(unix.seconds(0) == "1700000000.000000001" && unix.seconds(1) == "1700000000.000000101" && unix.timeBase.description == "unix")
    known.unixOrigin = nil
    let clock = ExportedEpisode("a", open: known)
    #expect(clock.seconds(0) == "5.000000000" && clock.timeBase.description == "clock:device-uptime")
  }

  @Test(arguments: [
    (0, "0.000000000"), (-1, "-0.000000001"), (999_999_999, "0.999999999"), (-1_500_000_000, "-1.500000000"),
    (Int64.max, "9223372036.854775807"),
  ])
  func nanosecondsAsSeconds(_ nanoseconds: Int64, _ text: String) { #expect(ExportedEpisode.seconds(nanoseconds) == text) }
}
