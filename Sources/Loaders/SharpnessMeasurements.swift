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

  init(_ dataset: HDF5Array, _ image: ArrayMeasurements) throws {
    guard image.hasPixels else { return }
    var images = try StoredPixels(dataset, ImageSize(width: image.shape[1], height: image.shape[0]), encoding: image.encoding)
    var found: [Double] = []
    let count = min(image.rows, Self.sampled)
    for index in 0..<count {
      if let reading = try images.measured(row: index * image.rows / count) { found.append(reading.sharpness) }
    }
    // A masked image is black, and so is its Laplacian.
    found = found.filter { $0 > 0 }
    guard !found.isEmpty else { return }
    threshold = found.sorted()[found.count / 2] / 4
    self.images = found.count
    blurred = found.count { $0 < threshold }
  }
}

/// The images of an array, measured one by one.
struct StoredPixels {
  private let dataset: HDF5Array
  private let size: ImageSize
  /// `jpeg` or `png` for images that are stored as files.
  private let encoding: String?
  private let decoder: JPEGDecoder
  private var meter: ImageMeter
  private var pixels: [UInt8] = []

  init(_ dataset: HDF5Array, _ size: ImageSize, encoding: String?) throws {
    (self.dataset, self.size, self.encoding, decoder) = (dataset, size, encoding, try JPEGDecoder())
    meter = ImageMeter(of: size)
  }

  /// `nil` for an image that cannot be decoded, or of another size. Throws `HDF5Error`.
  mutating func measured(row: Int) throws -> ImageMeter.Reading? {
    do {
      switch encoding {
      case nil: pixels = try dataset.read(rows: row..<(row + 1))
      case "png": _ = try dataset.readSequence(row: row).withUnsafeBytes { try PNG.decode($0, size: size, into: &pixels) }
      default: _ = try dataset.readSequence(row: row).withUnsafeBytes { try decoder.decode($0, reduction: 1, into: &pixels) }
      }
    } catch is MediaError {
      return nil
    }
    return meter.read(pixels)
  }
}
