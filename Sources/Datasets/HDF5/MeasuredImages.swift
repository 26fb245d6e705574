package import Model
package import Rasters

/// The images of a shard that are measured while they are written: of the first camera by name, and of large images those of a few rows, so that
/// measuring takes little of the time of converting. Images whose files are stored as they came are not decoded for it.
package struct MeasuredImages: Sendable {
  let raster: Int
  let size: ImageSize
  /// Rows whose number is a multiple of this are measured.
  let every: Int

  /// The number of pixels that are measured on average of a row, unless the episode would have fewer images measured than this.
  private static let (pixels, fewest) = (8192, 16)

  /// `nil` where there is nothing to measure.
  init?(_ rasters: [ShardLayout.RasterArrays]) {
    guard let raster = rasters.firstIndex(where: { $0.stream.spec.kind == .image }), rasters[raster].sampleBytes != nil else { return nil }
    (self.raster, size) = (raster, rasters[raster].stream.spec.gridSize)
    every = Self.every(of: rasters[raster].rows.count, size)
  }

  package static func every(of rows: Int, _ size: ImageSize) -> Int {
    max(1, min((size.width * size.height + pixels - 1) / pixels, rows / fewest))
  }

  /// The readings of the rows that were measured, in order.
  package struct Readings {
    private(set) var sharpness: [Double] = []
    private var brightness = 0.0
    private var overexposed = 0.0

    package init() {}

    package mutating func add(_ reading: ImageMeter.Reading) {
      sharpness.append(reading.sharpness)
      brightness += reading.brightness
      overexposed += reading.overexposed
    }

    package func write(to measures: inout Measures) {
      guard !sharpness.isEmpty else { return }
      measures[.sharpness] = Statistics.quantile(0.1, of: sharpness)
      measures[.brightness] = brightness / Double(sharpness.count)
      measures[.overexposed] = overexposed / Double(sharpness.count)
    }
  }
}
