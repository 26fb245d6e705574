import Evidence
import Model
import Synchronization
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct DropFramesTests {
  private func step(_ options: JSONValue) throws -> DropFrames { try Options.decode(DropFrames.self, over: options, at: "drop-frames") }

  /// An image of 8x6 pixels whose variance of the Laplacian is 64 times the square of `contrast`.
  private func board(_ contrast: Int) -> [UInt8] {
    (0..<48).flatMap { pixel in
      [UInt8](repeating: UInt8(128 + ((pixel / 8 + pixel % 8) % 2 == 0 ? contrast : -contrast)), count: 3)
    }
  }

  /// An episode with an image of each contrast.
  private func episode(_ contrasts: [Int]) -> Episode {
    var episode = SyntheticEpisode(times: contrasts.indices.map { Int64($0) * 10_000_000 }).episode
    episode.streams[.image]?.source = CountingSource(contrasts.map(board))
    return episode
  }

  @Test func dropsFramesByTheirQuality() throws {
    var episode = episode([0, 0, 0, 0])
    episode.frames.quality = [[], .poseJump, [.poseJump, .poseRepeated], .poseRepeated]
    let dropped = try step(["with": ["pose-jump", "pose-repeated"]]).apply(to: episode)
    #expect(dropped.frames.sourceIndex == [0])
    #expect(dropped.dropped == [Episode.Dropped(reason: "pose-jump", count: 2), Episode.Dropped(reason: "pose-repeated", count: 1)])
  }

  @Test func dropsBlurredFrames() throws {
    // Variances 0, 64, 256, 576, 64.
    let episode = episode([0, 1, 2, 3, 1])
    let sharp = try step(["blur": 256]).apply(to: episode)
    #expect(sharp.frames.sourceIndex == [2, 3])
    #expect(sharp.streams[.pose]?.rows == [2, 3].rows)
    #expect(sharp.dropped == [Episode.Dropped(reason: "blurred", count: 3)])
    #expect(try step(["blur": .number(256.001)]).apply(to: episode).frames.sourceIndex == [3])
    #expect(try step(["blur": .number(63.999)]).apply(to: episode).frames.sourceIndex == [1, 2, 3, 4])
    #expect(try step(["blur": 1_000_000]).apply(to: episode).frames.count == 0)
  }

  @Test func decodesOnlyFramesThatItsOtherRulesLeave() throws {
    var episode = episode([0, 0, 3, 3])
    episode.frames.quality = [.poseJump, [], .poseJump, []]
    let source = CountingSource([0, 0, 3, 3].map(board))
    episode.streams[.image]?.source = source
    let dropped = try step(["with": ["pose-jump"], "blur": 1]).apply(to: episode)
    #expect(dropped.frames.sourceIndex == [3])
    #expect(dropped.dropped == [Episode.Dropped(reason: "pose-jump", count: 2), Episode.Dropped(reason: "blurred", count: 1)])
    #expect(source.readCount == 2)
  }

  @Test func readsImagesOnlyForBlur() throws {
    let synthetic = SyntheticEpisode()
    _ = try step(["with": ["pose-jump"]]).apply(to: synthetic.episode)
    #expect(synthetic.readCount == 0)
    #expect(try !step(["with": ["pose-jump"]]).readsSamples)
    #expect(try step(["blur": 1]).readsSamples)
  }

  @Test func keepsFramesWithoutAnImageThatCanBeDecoded() throws {
    var episode = episode([0, 0, 3, 0])
    episode.streams[.image]?.rows?[1] = nil
    episode.streams[.image]?.source = FilmSource([board(0), board(0), board(3), nil])
    #expect(try step(["blur": 1]).apply(to: episode).frames.sourceIndex == [1, 2, 3])
    // An image of another size: the writer says so.
    episode.streams[.image]?.source = CountingSource([board(0), [], [1, 2, 3], board(1)])
    #expect(try step(["blur": 1]).apply(to: episode).frames.sourceIndex == [1, 2, 3])
  }

  @Test func damageThatFailsTheTakeFailsIt() throws {
    var episode = episode([1, 1])
    episode.streams[.image]?.source = FilmSource([board(1), board(1)], failure: TakeFailure(.movieCorrupt, "damaged"))
    let failure = #expect(throws: TakeFailure.self) { try step(["blur": 1]).apply(to: episode) }
    #expect(failure?.code == .movieCorrupt)
  }

  @Test func readsAVideoOnceAndForward() throws {
    var episode = episode([0, 2, 2, 0, 2])
    let film = FilmSource([0, 2, 0, 2].map(board))
    episode.streams[.image]?.source = film
    episode.streams[.image]?.rows = [Row(0), Row(1), Row(1), Row(2), Row(3)]
    #expect(try step(["blur": 100]).apply(to: episode).frames.sourceIndex == [1, 2, 4])
    #expect(film.reads == [0, 1, 2, 3])
    #expect(film.requests == [SampleRequest(isStandalone: true)])
  }

  @Test func measuresImagesAsTheyAreAtThisPoint() throws {
    var episode = episode([3, 3])
    #expect(try step(["blur": 500]).apply(to: episode).frames.count == 2)
    let source = try #require(episode.streams[.image]?.source)
    // From another step: 2x1 pixels of luma 10 and 0, which have a variance of 400.
    episode.streams[.image]?.source = MappedSource(source, Replaced(image: [10, 10, 10, 0, 0, 0], size: ImageSize(width: 2, height: 1)))
    #expect(try step(["blur": 400]).apply(to: episode).frames.count == 2)
    #expect(try step(["blur": 401]).apply(to: episode).frames.count == 0)
  }

  @Test func measuresTheFirstStreamOfImages() throws {
    var episode = episode([0, 3])
    var other = try #require(episode.streams[.image])
    other.source = CountingSource([3, 0].map(board))
    episode.streams["wrist_image"] = other
    #expect(try step(["blur": 1]).apply(to: episode).frames.sourceIndex == [1])
    episode.streams["a_image"] = other
    #expect(try step(["blur": 1]).apply(to: episode).frames.sourceIndex == [0])
  }

  @Test func needsImagesOnTheTimeline() throws {
    var episode = episode([0, 3])
    episode.streams[.image]?.rows = nil
    let failure = #expect(throws: TakeFailure.self) { try step(["blur": 1]).apply(to: episode) }
    #expect(failure?.code == .notAligned)
    episode.streams[.image] = nil
    #expect(try step(["blur": 1]).apply(to: episode).frames.count == 2)
  }

  @Test(
    arguments: [
      ([:], "with", "without them nothing is dropped"), (["with": []], "with", "nothing is dropped"), (["blur": nil], "with", "nothing"),
      (["blur": 0], "blur", "above 0"), (["blur": -1], "blur", "above 0"), (["blur": "much"], "blur", "a number"),
      (["with": ["pose-jmp"]], "with", "expected a list of pose-repeated"), (["with": ["image-undecodable"]], "with", "expected"),
    ] as [(JSONValue, String, String)]) func refuses(options: JSONValue, option: String, message: String)
  {
    let error = #expect(throws: PipelineFileError.self) { try step(options) }
    #expect(error?.path == "drop-frames.\(option)")
    #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
  }
}

/// Images that are read forward, as those of a video. One that is `nil` cannot be decoded.
private final class FilmSource: SampleSource, SamplePrefetcher {
  private let images: [[UInt8]?]
  private let failure: TakeFailure?
  private let log = Mutex((reads: [Int](), requests: [SampleRequest]()))

  init(_ images: [[UInt8]?], failure: TakeFailure? = nil) { (self.images, self.failure) = (images, failure) }

  var reads: [Int] { log.withLock(\.reads) }
  var requests: [SampleRequest] { log.withLock(\.requests) }

  var access: SampleAccess { .runs([0], self) }
  var sampleBytes: Int { 144 }
  func fetch(_ samples: [Int]) {}
  func release(_ samples: [Int]) {}
  func finish() {}

  func makeCursor(_ request: SampleRequest) -> any SampleCursor {
    log.withLock { $0.requests.append(request) }
    return Cursor(source: self)
  }

  private struct Cursor: SampleCursor {
    let source: FilmSource
    var size: ImageSize? { ImageSize(width: 8, height: 6) }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      source.log.withLock { $0.reads.append(index) }
      if let failure = source.failure { throw failure }
      guard let image = source.images[index] else { throw SampleFailure(finding: Finding(.imageUndecodable, "damaged")) }
      bytes = image
    }
  }
}

/// Every image replaced by one of another size.
private struct Replaced: SampleMap, SampleMapper {
  let image: [UInt8]
  let size: ImageSize?
  func request(_ request: SampleRequest) -> SampleRequest { request }
  func makeMapper(from size: ImageSize?) -> (any SampleMapper)? { self }
  func map(_ sample: [UInt8], into output: inout [UInt8]) { output = image }
}
