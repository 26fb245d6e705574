import Foundation
import Model
import Simulate
import Testing
import TestSupport

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps
@testable import Transforms

/// Frames of two cameras and two arms, from a file of one line: a format that the core has never heard of.
private struct TwoCameras: Reader {
  static let name = "two-cameras"
  static let summary = "Two cameras and two arms, for tests"
  static let frames = 9

  func recognize(_ place: TakePlace) -> Candidate? {
    guard place.name.hasSuffix(".twocameras") else { return nil }
    return Candidate(.certain, stem: place.stem) { [path = place.path] in TakeInputs(file: path, role: .metadata) }
  }

  func open(_ take: Take) throws -> Episode {
    let stamps = (0..<Self.frames).map { Timestamp(nanoseconds: Int64($0) * 33_333_333) }
    let numbers = stamps.indices.map { Int64($0) }
    func image(_ camera: CameraName, _ size: ImageSize, _ shade: UInt8) -> SampleStream {
      SampleStream(
        spec: StreamSpec(
          raster: Raster(camera: camera, size: size, covering: size), kind: .image, type: .uint8, channels: 3, unit: "sRGB 0..255",
          clock: .deviceUptime),
        source: CountingSource(stamps.indices.map { [UInt8](repeating: shade + UInt8($0), count: size.width * size.height * 3) }),
        timestamps: stamps, sourceIndex: numbers, rows: stamps.indices.rows)
    }
    func arm(_ first: Float) -> SampleStream {
      SampleStream(
        spec: StreamSpec(kind: .angles, type: .float32, shape: [2], unit: "degree", clock: .deviceUptime),
        source: VectorSource(width: 2, values: stamps.indices.flatMap { [first + Float($0), .nan] }), timestamps: stamps,
        sourceIndex: numbers)
    }
    let (wide, wrist) = (ImageSize(width: 16, height: 12), ImageSize(width: 8, height: 8))
    var episode = Episode(
      id: take.id, sourceFrames: stamps.count, frames: Episode.Frames(timestamps: stamps, sourceIndex: numbers, clock: .deviceUptime),
      streams: [
        "scene_image": image("scene", wide, 10), "wrist_image": image("wrist", wrist, 100), "left_arm": arm(0), "right_arm": arm(50),
      ])
    episode.cameras["scene"] = Camera(size: wide, intrinsicsTrack: IntrinsicsTrack(Intrinsics(fx: 16, fy: 16, cx: 8, cy: 6)))
    episode.cameras["wrist"] = Camera(size: wrist, intrinsicsTrack: IntrinsicsTrack(Intrinsics(fx: 9, fy: 9, cx: 4, cy: 4)))
    return episode
  }
}

@Suite struct TakeConversionTests {
  private let tool = ToolIdentity(version: "test", revision: "test")

  private func pipeline(_ reader: any Reader, _ writer: any Writer) -> Pipeline {
    var small = ResizeImage()
    (small.width, small.height) = (8, 6)
    return Pipeline(readers: .one(reader), join: nil, transforms: [Align(), small], writer: writer)
  }

  @Test func aSecondReaderAndASecondWriterNeedNothingOfTheCore() throws {
    let directory = try TemporaryDirectory()
    let input = try directory.write("in/take.twocameras", Array("x".utf8))
    let output = directory.path + "/out"
    let run = Run(inputs: [input], output: output, pipeline: pipeline(TwoCameras(), MemoryWriter()), tool: tool)
    let summary = try run.execute { _ in }
    #expect(summary.written == 1 && summary.failed == 0)
    let shard = try #require(MemoryWriter.shard(at: Directory.absolute(output) + "/episodes/take.h5"))
    #expect(shard.reader == "two-cameras")
    #expect(shard.rows["scene_image"]?.map(\.first) == (0..<9).map { UInt8(10 + $0) })
    #expect(shard.rows["scene_image"]?.allSatisfy { $0.count == 8 * 6 * 3 } == true)
    // Fitted within 8x6, a square is 6x6.
    #expect(shard.rows["wrist_image"]?.allSatisfy { $0.count == 6 * 6 * 3 } == true)
    #expect(shard.rows["right_arm"]?[3].withUnsafeBytes { $0.load(as: Float.self) } == 53)
    // Once more, there is nothing to do.
    #expect(try run.execute { _ in }.unchanged == 1)
  }

  @Test func twoCamerasAndTwoArmsAreWrittenAndReadBack() throws {
    let directory = try TemporaryDirectory()
    let input = try directory.write("in/take.twocameras", Array("x".utf8))
    let output = directory.path + "/out"
    let summary = try Run(inputs: [input], output: output, pipeline: pipeline(TwoCameras(), HDF5Writer()), tool: tool).execute { _ in }
    #expect(summary.written == 1)
    let dataset = try Dataset(directory: output)
    let paths = Set(try dataset.record(of: dataset.written[0]).output?.arrays.map(\.path) ?? [])
    // The first camera's image has the plain name.
    #expect(paths.isSuperset(of: ["/meta/demo_0/intrinsics", "/meta/demo_0/wrist_image_intrinsics", "/data/demo_0/obs/left_arm_valid"]))
    let episode = try dataset.episode(dataset.written[0])
    #expect(Set(episode.cameras.keys) == ["scene", "wrist"])
    let wrist = try #require(episode.streams["wrist_image"])
    #expect(episode.intrinsics(of: wrist, at: Row(0)) == Intrinsics(fx: 6.75, fy: 6.75, cx: 3, cy: 3))
    #expect(try Verification(directory: output, inputs: true).isSound)
  }

  /// A task and its result can go to another process and come back.
  @Test func tasksAndResultsArePlainData() throws {
    let directory = try TemporaryDirectory()
    var session = SimulatedSession()
    (session.seconds, session.size) = (0.3, ImageSize(width: 64, height: 48))
    try session.write(to: directory.path + "/session_1")
    let location = TakeLocation(path: directory.path + "/session_1", isDirectory: true)
    let task = TakeTask(id: "session_1", location: location, reader: StackSession())
    let sent = try JSONDecoder().decode(TakeTask.self, from: JSONEncoder().encode(task))
    let conversion = TakeConversion(pipeline: try PipelineFile.defaultPipeline(), tool: tool, context: RunContext())
    let alone = directory.path + "/alone", path = alone + "/episodes/session_1.h5"
    try FileManager.default.createDirectory(atPath: alone + "/episodes", withIntermediateDirectories: true)
    let result = try #require(conversion(sent, in: alone, threads: 2).first)
    #expect(result.record.outcome == .written && result.record.framesOut == 18)
    let received = try JSONDecoder().decode(TakeResult.self, from: JSONEncoder().encode(result))
    #expect(received.record == result.record && received.record.canonicalBytes == result.record.canonicalBytes)
    #expect(try TakeRecord(json: result.record.canonicalBytes) == result.record)
    // Alone or beside others, the bytes are the same.
    _ = try Run(inputs: [location.path], output: directory.path + "/out", pipeline: PipelineFile.defaultPipeline(), tool: tool).execute {
      _ in
    }
    #expect(
      try Data(contentsOf: URL(fileURLWithPath: path))
        == Data(contentsOf: URL(fileURLWithPath: directory.path + "/out/episodes/session_1.h5")))
  }

  @Test func whatIsWrongWithATakeIsInItsResult() throws {
    let directory = try TemporaryDirectory()
    try directory.write("session_1/poses.json", Array("[".utf8))
    let location = TakeLocation(path: directory.path + "/session_1", isDirectory: true)
    let conversion = TakeConversion(pipeline: try PipelineFile.defaultPipeline(), tool: tool, context: RunContext())
    let result = try #require(
      conversion(TakeTask(id: "session_1", location: location, reader: StackSession()), in: directory.path).first)
    #expect(result.record.outcome == .failed && result.record.output == nil)
    #expect(result.record.findings.contains { $0.code == .jsonInvalid })
    #expect(!FileManager.default.fileExists(atPath: directory.path + "/episodes"))
  }
}
