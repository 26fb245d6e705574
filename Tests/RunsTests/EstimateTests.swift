import Evidence
import HDF5
import Media
import Model
import Synchronization
import Testing
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Steps
@testable import Transforms

/// Samples that note which of them were read, and of which some cannot be.
private final class NotingSource: SampleSource {
  /// A feed that is never asked for anything.
  private final class Feed: SamplePrefetcher {
    var sampleBytes: Int { 1 }
    func fetch(_ samples: [Int]) {}
    func release(_ samples: [Int]) {}
    func finish() {}
  }

  private let sample: [UInt8]
  private let unreadable: Set<Int>
  private let isForward: Bool
  private let noted = Mutex<[Int]>([])
  var read: [Int] { noted.withLock(\.self) }

  init(_ sample: [UInt8], unreadable: Set<Int> = [], isForward: Bool = false) {
    (self.sample, self.unreadable, self.isForward) = (sample, unreadable, isForward)
  }

  var access: SampleAccess { isForward ? .forward(Feed()) : .random }
  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private struct Cursor: SampleCursor {
    let source: NotingSource
    var size: ImageSize? { nil }
    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      source.noted.withLock { $0.append(index) }
      if source.unreadable.contains(index) { throw SampleFailure(finding: Finding(.imageUndecodable, "unreadable")) }
      bytes = source.sample
    }
  }
}

@Suite struct EstimateTests {
  private func writer(_ options: JSONValue) throws -> HDF5Writer { try Options.decode(HDF5Writer.self, over: options, at: "hdf5") }

  private func estimate(_ writer: any Writer, _ episodes: [Episode], threads: Int = 1) throws -> Estimate {
    var estimate = Estimate(pipeline: Pipeline(readers: .auto, join: nil, transforms: [], writer: writer), threads: threads)
    for episode in episodes { estimate.add(episode, try writer.plan(episode)) }
    estimate.finish()
    return estimate
  }

  /// Frames every 16 ms with 8x6 images, or times as large, and 4x3 depth maps.
  private func episode(_ count: Int, times scale: Int = 1, image: (any SampleSource)? = nil) throws -> Episode {
    var episode = try Align().apply(to: SyntheticEpisode(times: (0..<count).map { Int64($0) * 16_000_000 }).episode)
    let size = ImageSize(width: 8 * scale, height: 6 * scale)
    episode.streams[.image]?.spec.raster = Raster(size: size, covering: size)
    episode.streams[.image]?.spec.shape = [size.height, size.width, 3]
    episode.streams[.image]?.source = image ?? NotingSource(pixels(size))
    return episode
  }

  private func pixels(_ size: ImageSize) -> [UInt8] { (0..<(size.width * size.height * 3)).map { UInt8($0 * 7 % 256) } }

  private func planned(_ writer: any Writer, _ episodes: [Episode]) throws -> Int64 {
    Int64(try episodes.reduce(0) { sum, episode in try sum + writer.plan(episode).reduce(0) { $0 + $1.rawBytes } })
  }

  private func bytes(_ estimate: Estimate, _ image: SampleStorage.ImageEncoding) -> Int64? {
    estimate.choices.first { $0.image == image }?.bytes
  }

  // MARK: Bytes

  @Test func withoutCompressionItIsWhatThePlanSays() throws {
    let plain = try writer(["compression": 0])
    for episodes in [[try episode(1)], [try episode(7), try episode(20, times: 3)]] {
      let found = try estimate(plain, episodes)
      // Sums of floating-point shares may be off by less than a byte.
      #expect(abs(found.bytes - (try planned(plain, episodes))) <= 1)
      #expect(found.bytes == bytes(found, .raw))
    }
  }

  @Test func rowsAreCountedByPixelsEvenWhereNoneIsMeasured() throws {
    let plain = try writer(["compression": 0])
    let episodes = try (0..<9).map { _ in try episode(2) } + [episode(3, times: 4)]
    #expect(abs(try estimate(plain, episodes).bytes - planned(plain, episodes)) <= 1)
  }

  @Test func everyEncodingOfImagesHasItsOwnSize() throws {
    let (size, count) = (ImageSize(width: 32, height: 24), 10)
    let episodes = [try episode(count, times: 4)]
    for quality in [40, 95] {
      let found = try estimate(writer(["compression": 0, "quality": .integer(Int64(quality))]), episodes)
      #expect(found.choices.map(\.image) == [.raw, .jpeg, .png])
      let raw = try #require(bytes(found, .raw))
      let jpeg = try JPEGEncoder().encode(pixels(size), size: size, quality: quality).count
      let png = try PNG.encode(pixels(size), size: size, isFast: true).count
      #expect(abs(raw - (try #require(bytes(found, .jpeg))) - Int64(count * (32 * 24 * 3 - jpeg))) <= 1)
      #expect(abs(raw - (try #require(bytes(found, .png))) - Int64(count * (32 * 24 * 3 - png))) <= 1)
    }
  }

  /// Whatever the writer is set to, the choices are the same, and the total is that of its own encoding.
  @Test(arguments: [("raw", SampleStorage.ImageEncoding.raw), ("jpeg", .jpeg), ("png", .png), ("jpeg-source", .jpeg)])
  func theTotalIsThatOfTheWritersEncoding(word: String, choice: SampleStorage.ImageEncoding) throws {
    var episodes = [try episode(6)]
    let raw = try estimate(writer([:]), episodes)
    if word == "jpeg-source" { episodes[0].streams[.image]?.spec.sourceEncoding = .jpeg }
    let found = try estimate(writer(["image": .string(word)]), episodes)
    #expect(found.bytes == bytes(found, choice))
    #expect(found.choices.map(\.bytes) == raw.choices.map(\.bytes))
  }

  @Test func depthAndItsMaskAreDeflated() throws {
    let (size, count) = (ImageSize(width: 32, height: 24), 32 * 24)
    var ramp = try episode(6)
    let depth = floats((0..<count).map { $0 % 5 == 0 ? 0 : 1 + Float($0) / 97 })
    ramp.streams[.depth]?.source = NotingSource(depth)
    ramp.streams[.depth]?.spec.raster = Raster(size: size, covering: size)
    ramp.streams[.depth]?.spec.shape = [24, 32, 1]
    let (plain, deflating) = (try writer(["compression": 0]), try writer(["compression": 9]))
    let encoder = try ChunkEncoder(level: 9)
    var chunk: [UInt8] = []
    func length(_ bytes: [UInt8], _ size: Int) -> Int {
      _ = bytes.withUnsafeBytes { encoder.encode($0, elementSize: size, into: &chunk) }
      return chunk.count
    }
    let mask = (0..<count).map { UInt8($0 % 5 == 0 ? 0 : 1) }
    let saved = Int64(6 * (5 * count - length(depth, 4) - length(mask, 1)))
    #expect(saved > 6 * count)
    // Of deflated chunks, checksums are stored too.
    let checksums = try planned(deflating, [ramp]) - planned(plain, [ramp])
    let found = try estimate(plain, [ramp]).bytes - estimate(deflating, [ramp]).bytes
    #expect(abs(found - (saved - checksums)) <= 1)
  }

  @Test func nextObservationsAreStoredOnceMore() throws {
    let plain = try writer(["compression": 0])
    var acting = try episode(5)
    acting.storesNextObservations = true
    #expect(abs(try estimate(plain, [acting]).bytes - planned(plain, [acting])) <= 1)
  }

  @Test func withoutImagesThereIsNoChoice() throws {
    let plain = try writer(["compression": 0])
    var blind = try episode(4)
    blind.streams[.image] = nil
    let found = try estimate(plain, [blind])
    #expect(found.choices.isEmpty && found.rows == 4)
    #expect(abs(found.bytes - (try planned(plain, [blind]))) <= 1)
    let nothing = try estimate(plain, [])
    #expect(nothing.bytes == 0 && nothing.seconds == 0 && nothing.rows == 0)
  }

  // MARK: What is read

  @Test func aFewRowsOfEveryPartOfAnEpisodeAreRead() throws {
    for (count, expected) in [(10, [0, 2, 5, 7]), (4, [0, 1, 2, 3]), (3, [0, 1, 2]), (1, [0]), (101, [0, 25, 50, 75])] {
      let source = NotingSource(pixels(ImageSize(width: 8, height: 6)))
      _ = try estimate(writer([:]), [episode(count, image: source)])
      #expect(source.read == expected, "of \(count)")
    }
  }

  @Test func aVideoIsReadFromItsStart() throws {
    let source = NotingSource(pixels(ImageSize(width: 8, height: 6)), isForward: true)
    _ = try estimate(writer([:]), [episode(100, image: source)])
    #expect(source.read == [0, 1, 2, 3])
  }

  @Test func ofManyEpisodesAFewAreRead() throws {
    let source = NotingSource(pixels(ImageSize(width: 8, height: 6)))
    let one = try episode(4, image: source)
    let found = try estimate(writer(["compression": 0]), Array(repeating: one, count: 120))
    // The first eight, the 50th and the 100th: four images and four depth maps of each.
    #expect(source.read.count == 40 && found.rows == 80)
    #expect(abs(found.bytes - (try planned(writer(["compression": 0]), [one])) * 120) <= 1)
  }

  @Test func rowsThatCannotBeReadAreLeftOut() throws {
    let plain = try writer(["compression": 0])
    let source = NotingSource(pixels(ImageSize(width: 8, height: 6)), unreadable: [0, 1])
    let found = try estimate(plain, [episode(4, image: source)])
    #expect(source.read == [0, 1, 2, 3] && found.rows == 2 + 4)
    #expect(abs(found.bytes - (try planned(plain, [episode(4)]))) <= 1)
    var missing = try episode(4)
    missing.streams[.image]?.rows = [nil, Row(1), nil, Row(3)]
    #expect(try estimate(plain, [missing]).rows == 2 + 4)
  }

  // MARK: The rest

  @Test func timeIsSharedByTheThreads() throws {
    let episodes = [try episode(50, times: 20)]
    for threads in [0, 1, 64] {
      let found = try estimate(writer(["image": "png"]), episodes, threads: threads)
      #expect(found.seconds > 0 && found.seconds.isFinite)
      #expect(found.json["threads"] == JSONValue(threads))
    }
    // Sixty-four threads against one: far more than two measurements differ by.
    let one = try estimate(writer(["image": "png"]), episodes).seconds
    #expect(try estimate(writer(["image": "png"]), episodes, threads: 640).seconds < one)
  }

  @Test func anotherWriterStoresImagesAsTheyAre() throws {
    let found = try estimate(MemoryWriter(), [episode(6)])
    #expect(found.bytes == bytes(found, .raw) && found.json["image_choices"]?.object?.keys.sorted() == ["jpeg", "png", "raw"])
    #expect(found.json["bytes"] == .integer(found.bytes) && found.json["rows_measured"] == 8)
  }
}
