import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Transforms

@Suite struct ShardLayoutTests {
  private func arrays(_ episode: Episode, _ change: @escaping (inout SampleStorage) -> Void = { _ in }) throws -> [String: ArrayRecord] {
    var writer = HDF5Writer()
    change(&writer.storage)
    return Dictionary(uniqueKeysWithValues: try writer.plan(episode).map { ($0.path, $0) })
  }

  @Test func theArraysOfAnEpisodeWithEveryKindOfStream() throws {
    let arrays = try arrays(Align().apply(to: SyntheticEpisode().episode))
    #expect(
      arrays.keys.sorted().filter { $0.hasPrefix("/data") } == [
        "/data/demo_0/obs/camera_depth", "/data/demo_0/obs/camera_depth_valid", "/data/demo_0/obs/camera_image", "/data/demo_0/obs/joints",
        "/data/demo_0/obs/joints_valid", "/data/demo_0/obs/pose",
      ])
    let image = try #require(arrays["/data/demo_0/obs/camera_image"])
    #expect((image.dtype, image.shape, image.chunk, image.filters) == ("|u1", [6, 6, 8, 3], [1, 6, 8, 3], []))
    let depth = try #require(arrays["/data/demo_0/obs/camera_depth"])
    #expect((depth.dtype, depth.shape, depth.chunk, depth.filters) == ("<f4", [6, 3, 4, 1], [1, 3, 4, 1], ["shuffle", "deflate 4"]))
    #expect(arrays["/data/demo_0/obs/pose"]?.shape == [6, 7] && arrays["/data/demo_0/obs/pose"]?.chunk == nil)
    for path in [
      "timestamp_ns", "source_index", "quality", "streams/pose/dt_ns", "streams/joints/valid", "streams/camera_depth/next_index",
    ] {
      #expect(arrays["/meta/demo_0/\(path)"]?.shape == [6], "\(path)")
    }
    #expect(arrays["/meta/demo_0/intrinsics"]?.shape == [6, 4])
  }

  @Test func compressionIsWhatTheOptionsSay() throws {
    let episode = try Align().apply(to: SyntheticEpisode().episode)
    let none = try arrays(episode) { ($0.compression, $0.imageCompression) = (.level(0), .level(9)) }
    #expect(none["/data/demo_0/obs/camera_depth"]?.filters == [])
    #expect(none["/data/demo_0/obs/camera_image"]?.filters == ["deflate 9"])
  }

  @Test func aStreamThatIsNotAlignedIsRefused() {
    let failure = #expect(throws: TakeFailure.self) { try arrays(SyntheticEpisode().episode) }
    #expect(failure?.code == .notAligned)
  }

  @Test func imagesThatAreNotTheSourcesJPEGFilesCannotBeStoredAsSuch() throws {
    let episode = try Align().apply(to: SyntheticEpisode().episode)
    let failure = #expect(throws: TakeFailure.self) { try arrays(episode) { $0.image = .jpegSource } }
    #expect(failure?.code == .notJPEG)
  }
}
