import Model
import Testing
import TestSupport

@testable import Readers
@testable import Steps

@Suite struct SessionVariantTests {
  /// The variant of a session without depth and SLAM that declares 480x360 images, by its files and the size of its images.
  private func variant(_ files: [String], images size: ImageSize) throws -> SessionVariant {
    let directory = try TemporaryDirectory()
    let entries = try files.map { TakeInputs.Entry(path: $0, role: try #require(SessionFolder.role(of: $0))) }
    let folder = try SessionFolder(TakeInputs(root: directory.path, entries: entries))
    var metadata = try SessionMetadata(folder, limit: 1000, notes: FindingCollector())
    metadata.rgbResolution = SessionVariant.recordedSize
    return SessionVariant(metadata, nil, folder, imageSize: size)
  }

  private let square = ImageSize(width: 224, height: 224)

  @Test func smallSquareImagesWithoutVideoAndIMUArePacked() throws {
    let packed = try variant(["rgb/000000.jpg"], images: square)
    #expect(packed.name == .packed && packed.isPacked)
    for size in [SessionVariant.recordedSize, ImageSize(width: 240, height: 180)] {
      #expect(try variant(["rgb/000000.jpg"], images: size).name == .v2)
    }
  }

  /// The packing script leaves both out.
  @Test(arguments: [["imu.json"], ["video.mov"], ["imu.json", "video.mov"]])
  func aSessionWithVideoOrIMUIsNotPacked(files: [String]) throws {
    let whole = try variant(["rgb/000000.jpg"] + files, images: square)
    #expect(whole.name == .v2 && !whole.isPacked)
  }
}
