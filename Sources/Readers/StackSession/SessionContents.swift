import Foundation
import Media
import Model
import Steps

/// Contents of a session's files, before any policy is applied.
struct SessionContents {
  let folder: SessionFolder
  let metadata: SessionMetadata
  private(set) var poses: PosesFile?
  /// Entries of the inputs by image number, ascending.
  let images: [(key: Int64, value: Int)]
  /// Size of the images; `nil` when there are none.
  let size: ImageSize?
  let variant: SessionVariant
  let imu: IMUFile?
  /// Capture times of the images, in sessions whose poses have no times of their own.
  private(set) var capture: CaptureTimes?
  private(set) var slam: SLAMNumbers?

  var inputs: TakeInputs { folder.inputs }
  /// The frames' clock.
  var clock: Clock { capture?.clock ?? .deviceUptime }

  /// Size limit; the metadata are a page of text.
  private static let metadataLimit = 1 << 20

  init(_ inputs: TakeInputs, jsonLimit: Int, maxImageSide: Int, notes: FindingCollector) throws {
    folder = try SessionFolder(inputs)
    metadata = try SessionMetadata(folder, limit: min(jsonLimit, Self.metadataLimit), notes: notes)
    poses = try Self.poses(folder, metadata, limit: jsonLimit, notes)
    images = folder.images.sorted { $0.key < $1.key }
    size = try images.isEmpty ? nil : ImageFiles.size(of: FileSamples(inputs: inputs, entries: images.map(\.value)), limit: maxImageSide)
    variant = SessionVariant(metadata, poses, folder, imageSize: size)
    imu = try folder.imu.map { try IMUFile(inputs, $0, limit: jsonLimit, notes: notes) }
  }

  private static func poses(_ folder: SessionFolder, _ metadata: SessionMetadata, limit: Int, _ notes: FindingCollector) throws
    -> PosesFile?
  {
    guard let file = folder.poses else { return nil }
    do {
      return try PosesFile(folder.inputs, file, limit: limit, notes: notes)
    } catch let failure as TakeFailure where failure.code == .jsonInvalid && metadata.needsSLAM {
      // Poses from SLAM can be computed again.
      notes.add(.posesUnreadable, failure.message, file: failure.file, field: failure.field)
      return nil
    }
  }

  /// Determines when images were taken, where the poses do not say, and gives poses from SLAM these times.
  mutating func timeImages(_ notes: FindingCollector) {
    guard variant.poses.isSLAM || variant.poses == .none else { return }
    slam = variant.poses.isSLAM ? poses.map { SLAMNumbers($0, images.map(\.key)) } : nil
    let capture = CaptureTimes(images: slam?.recorded ?? images.count, movie: movie(notes), imuSpan: imu?.span, notes: notes)
    self.capture = capture
    guard let slam, var list = poses?.list else { return }
    slam.retime(&list, capture)
    poses?.list = list
    if slam.arePlaces {
      notes.add(
        .slamOrdinals, "file numbers in rgb/ have gaps; rgbIndex of poses from SLAM is taken as the position in the listing",
        file: PosesFile.name)
    }
  }

  /// The video that v2 and later record next to the images; only its times are used.
  private func movie(_ notes: FindingCollector) -> Movie? {
    guard let file = folder.movie else { return nil }
    let path = inputs.entries[file].path
    do {
      let slice = try inputs.slice(file)
      return try naming(path) { try Movie(slice) }
    } catch {
      let words = (error as? TakeFailure)?.message ?? "\(error)"
      notes.add(.movieUnusable, "the video's times cannot be read: \(words)", file: path)
      return nil
    }
  }

  /// Capture time of the first image. Where the first poses are missing, the time is extrapolated back by as many periods.
  var captureStart: Timestamp? {
    if let first = capture?.times.first { return first }
    let ordered = poses?.entries.filter(\.isInOrder) ?? []
    guard let first = ordered.first else { return nil }
    guard let image = images.first?.key, image < first.number, let period = Cadence(ordered.map(\.timestamp)).nominalPeriod else {
      return first.timestamp
    }
    return first.timestamp.advanced(byNanoseconds: -Double(first.number - image) * period)
  }
}
