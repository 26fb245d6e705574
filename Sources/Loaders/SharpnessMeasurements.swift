import HDF5
import Media
import Model
import Rasters

/// The sharpness of a few images of an episode, spread evenly over it.
struct SharpnessMeasurements: Sendable {
  var images = 0
  /// Those with less than a quarter of the median sharpness.
  var blurred = 0
  /// A quarter of the median: a threshold for `drop-frames: {blur: …}`.
  var threshold = 0.0

  private static let sampled = 24
  private static let longestSide = 16384

  init(_ dataset: HDF5Array, _ image: ArrayMeasurements) throws {
    guard image.shape.count == 3, image.shape[2] == 3, image.rows > 0, image.shape.allSatisfy({ (1...Self.longestSide).contains($0) })
    else { return }
    let size = ImageSize(width: image.shape[1], height: image.shape[0])
    var meter = ImageMeter(of: size)
    let decoder = try JPEGDecoder()
    var pixels: [UInt8] = []
    var found: [Double] = []
    let count = min(image.rows, Self.sampled)
    for index in 0..<count {
      let row = index * image.rows / count
      do {
        switch image.encoding {
        case nil: pixels = try dataset.read(rows: row..<(row + 1))
        case "png": _ = try dataset.readSequence(row: row).withUnsafeBytes { try PNG.decode($0, size: size, into: &pixels) }
        default: _ = try dataset.readSequence(row: row).withUnsafeBytes { try decoder.decode($0, reduction: 1, into: &pixels) }
        }
      } catch is MediaError {
        continue
      }
      if let reading = meter.read(pixels) { found.append(reading.sharpness) }
    }
    // A masked image is black, and so is its Laplacian.
    found = found.filter { $0 > 0 }
    guard !found.isEmpty else { return }
    threshold = found.sorted()[found.count / 2] / 4
    images = found.count
    blurred = found.count { $0 < threshold }
  }
}
