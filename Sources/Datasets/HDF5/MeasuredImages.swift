package import Model
package import Rasters

/// The images of a shard that are measured while they are written: of the first camera by name, and of large images those of some rows, so that
/// a row costs the time of a small image. Images whose files are stored as they came are not decoded for it.
package struct MeasuredImages: Sendable {
  let raster: Int
  let size: ImageSize
  /// Rows whose number is a multiple of this are measured.
  let every: Int

  /// About the number of pixels that are measured of each row.
  private static let pixels = 1 << 16

  /// `nil` where there is nothing to measure.
  init?(_ rasters: [ShardLayout.RasterArrays]) {
    let images = rasters.indices.filter { rasters[$0].stream.spec.kind == .image }
    guard let raster = images.min(by: { rasters[$0].name < rasters[$1].name }), rasters[raster].sampleBytes != nil else { return nil }
    (self.raster, size) = (raster, rasters[raster].stream.spec.gridSize)
    every = Self.every(size)
  }

  package static func every(_ size: ImageSize) -> Int { max(1, (size.width * size.height + pixels - 1) / pixels) }

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
      measures[.sharpness] = Measures.quantile(0.1, of: sharpness)
      measures[.brightness] = brightness / Double(sharpness.count)
      measures[.overexposed] = overexposed / Double(sharpness.count)
    }
  }
}
