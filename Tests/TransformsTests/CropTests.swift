import Evidence
import Model
import Testing
import TestSupport

@testable import Rasters
@testable import Steps
@testable import Transforms

@Suite struct CropTests {
  private func crop(_ options: JSONValue, _ episode: Episode) throws -> Episode {
    try Options.decode(Crop.self, over: options, at: "crop").apply(to: episode)
  }

  /// The synthetic episode, 8x6 images and 4x3 depth maps, whose pixels hold their own place.
  private func numbered() -> Episode {
    var episode = SyntheticEpisode(times: [0]).episode
    episode.streams[.image]?.source = CountingSource([(0..<48).flatMap { [UInt8($0 % 8), UInt8($0 / 8), 5] }])
    episode.streams[.depth]?.source = CountingSource([floats((0..<12).map { Float($0) + 1 })])
    return episode
  }

  private func read(_ episode: Episode, _ name: StreamName) throws -> [UInt8] {
    var bytes: [UInt8] = []
    var cursor = try #require(episode.streams[name]).source.makeCursor(SampleRequest())
    try cursor.read(0, into: &bytes)
    return bytes
  }

  /// The columns and rows that the images have left.
  private func view(_ options: JSONValue, _ episode: Episode? = nil) throws -> [Range<Int>] {
    let bytes = try read(crop(options, episode ?? numbered()), .image)
    let columns = stride(from: 0, to: bytes.count, by: 3).map { Int(bytes[$0]) }
    let rows = stride(from: 1, to: bytes.count, by: 3).map { Int(bytes[$0]) }
    let (left, right) = (try #require(columns.min()), try #require(columns.max()))
    let (top, bottom) = (try #require(rows.min()), try #require(rows.max()))
    #expect(bytes.count == 3 * (right - left + 1) * (bottom - top + 1))
    return [left..<(right + 1), top..<(bottom + 1)]
  }

  // MARK: Windows

  @Test func aBoxIsLeftTopWidthAndHeight() throws {
    #expect(try view(["box": [1, 2, 4, 3]]) == [1..<5, 2..<5])
    #expect(try view(["box": [7, 5, 1, 1]]) == [7..<8, 5..<6])
    let cropped = try crop(["box": [1, 2, 4, 3]], numbered())
    #expect(cropped.streams[.image]?.spec.shape == [3, 4, 3])
    #expect(cropped.intrinsics(of: try #require(cropped.streams[.image]), at: Row(0)) == Intrinsics(fx: 8, fy: 8, cx: 3, cy: 1))
  }

  @Test func depthIsCroppedToTheSameViewOutward() throws {
    // Columns 1 to 4 of the image are depth columns 0 to 2, rows 2 to 4 are 1 and 2.
    let outward = try crop(["box": [1, 2, 4, 3]], numbered())
    #expect(try read(outward, .depth) == floats([5, 6, 7, 9, 10, 11]))
    #expect(outward.intrinsics(of: try #require(outward.streams[.depth]), at: Row(0)) == Intrinsics(fx: 4, fy: 4, cx: 2, cy: 0.5))
    let exact = try crop(["box": [2, 2, 4, 2]], numbered())
    #expect(try read(exact, .depth) == floats([6, 7]))
  }

  @Test(
    arguments: [
      ([4, 2], [2..<6, 2..<4]), ([8, 6], [0..<8, 0..<6]), ([3, 3], [2..<5, 1..<4]), ([1, 1], [3..<4, 2..<3]), ([7, 5], [0..<7, 0..<5]),
    ] as [([Int], [Range<Int>])]) func theCenterLeavesTheOddPixelAtTheEnd(center: [Int], expected: [Range<Int>]) throws
  {
    #expect(try view(["center": .array(center.map { .integer(Int64($0)) })]) == expected)
  }

  @Test(
    arguments: [
      (1, [1..<7, 0..<6]), (2, [0..<8, 1..<5]), (8.0 / 6, [0..<8, 0..<6]), (1.5, [0..<8, 0..<5]), (0.7, [2..<6, 0..<6]),
      (1000, [0..<8, 2..<3]), (0.001, [3..<4, 0..<6]),
    ] as [(Double, [Range<Int>])]) func anAspectIsTheLargestOfItsKind(aspect: Double, expected: [Range<Int>]) throws
  {
    #expect(try view(["aspect": .number(aspect)]) == expected)
  }

  @Test(arguments: [["box": [0, 0, 8, 6]], ["center": [8, 6]], ["aspect": .number(8.0 / 6)]] as [JSONValue])
  func aCropToEverythingChangesNothing(options: JSONValue) throws {
    let cropped = try crop(options, numbered())
    #expect(cropped.streams[.image]?.source is CountingSource && cropped.streams[.depth]?.source is CountingSource)
  }

  // MARK: Not fitting

  @Test(
    arguments: [
      (["box": [1, 0, 8, 6]], "box [1, 0, 8, 6]"), (["box": [0, 1, 8, 6]], "box [0, 1, 8, 6]"),
      (["box": [8, 0, 1, 1]], "box [8, 0, 1, 1]"),
      (["center": [9, 2]], "center [9, 2]"), (["center": [2, 7]], "center [2, 7]"),
    ] as [(JSONValue, String)]) func aCropThatDoesNotFitFailsTheTake(options: JSONValue, words: String) throws
  {
    let failure = #expect(throws: TakeFailure.self) { try crop(options, numbered()) }
    #expect(failure?.code == .cropOutside)
    #expect(failure?.message == "the images of camera_image are 8x6, and the crop \(words) does not fit within them")
  }

  @Test func boxesAreInPixelsOfTheImageAsItIs() throws {
    var small = ResizeImage()
    (small.width, small.height) = (4, 3)
    #expect(throws: TakeFailure.self) { try crop(["box": [0, 0, 5, 3]], small.apply(to: numbered())) }
    let twice = try crop(["box": [1, 1, 2, 1]], crop(["box": [2, 1, 5, 4]], numbered()))
    #expect(try view(["aspect": 2], twice) == [3..<5, 2..<3])
    // Turned to the right, the top right corner was the top left one.
    let turned = try crop(["box": [4, 0, 2, 3]], numbered().rotating(.phone, by: .right))
    #expect(try read(turned, .image) == [0, 1, 5, 0, 0, 5, 1, 1, 5, 1, 0, 5, 2, 1, 5, 2, 0, 5])
    #expect(try read(turned, .depth) == floats([1, 2]))
  }

  // MARK: Several cameras

  @Test func eachCameraIsCroppedByItself() throws {
    var episode = numbered()
    let size = ImageSize(width: 20, height: 10)
    for (name, kind, channels) in [("wrist_image", StreamKind.image, 3), ("wrist_depth", .depth, 1)] as [(StreamName, StreamKind, Int)] {
      var other = try #require(episode.streams[.image])
      other.spec = StreamSpec(
        raster: Raster(camera: "wrist", size: size, covering: size), kind: kind, type: .uint8, channels: channels, unit: "1",
        clock: .deviceUptime)
      episode.streams[name] = other
    }
    let cropped = try crop(["aspect": 1], episode)
    #expect(cropped.streams[.image]?.spec.raster?.size == ImageSize(width: 6, height: 6))
    #expect(cropped.streams[.depth]?.spec.raster?.size == ImageSize(width: 4, height: 3))
    #expect(cropped.streams["wrist_image"]?.spec.raster?.size == ImageSize(width: 10, height: 10))
    #expect(cropped.streams["wrist_depth"]?.spec.raster?.rasterFromFull == Affine(xx: 1, yy: 1, x0: -5))
    // A box that fits one camera alone fails, with the name of the other.
    let failure = #expect(throws: TakeFailure.self) { try crop(["box": [0, 0, 9, 4]], episode) }
    #expect(failure?.message.contains("the images of camera_image are 8x6") == true)
  }

  @Test func aTakeWithoutImagesIsLeftAlone() throws {
    var episode = numbered()
    episode.streams[.image] = nil
    #expect(try crop(["box": [0, 0, 100, 100]], episode).streams[.depth]?.source is CountingSource)
  }

  // MARK: Options

  @Test(
    arguments: [
      ([:], "box"), (["box": [0, 0, 1, 1], "aspect": 1], "aspect"), (["center": [1, 1], "box": [0, 0, 1, 1]], "center"),
      (["box": [0, 0, 1]], "box"), (["box": [-1, 0, 1, 1]], "box"), (["box": [0, 0, 0, 1]], "box"), (["box": [0, 0, 16385, 1]], "box"),
      (["center": [1]], "center"), (["center": [0, 1]], "center"), (["center": [1, 16385]], "center"), (["aspect": 0], "aspect"),
    ] as [(JSONValue, String)]) func refuses(options: JSONValue, name: String)
  {
    let error = #expect(throws: PipelineFileError.self) { try Options.decode(Crop.self, over: options, at: "crop") }
    #expect(error?.path == "crop.\(name)")
  }
}
