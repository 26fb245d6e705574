/// Brings depth maps to another grid by taking, for each new pixel, the old one that its centre falls in. No distance is
/// ever blended with another or with a hole; holes stay holes.
///
///     - resample-depth: {width: 256, height: 192}
package struct ResampleDepth: Transform {
  package static let name = "resample-depth"
  package static let summary = "Resamples depth maps and their confidence to a grid, nearest pixel; holes stay holes, intrinsics follow"
  package static let help = ["width": "pixels", "height": "pixels"]

  var width = 256
  var height = 192

  package init() {}

  package func validate() throws {
    if !(1...4096).contains(width) { throw OptionError("width", "expected 1 to 4096, found \(width)") }
    if !(1...4096).contains(height) { throw OptionError("height", "expected 1 to 4096, found \(height)") }
  }

  package func apply(to episode: Episode) throws -> Episode {
    var resampled = episode
    for (name, stream) in episode.streams where stream.spec.kind == .depth || stream.spec.kind == .confidence {
      let (oldHeight, oldWidth) = (stream.spec.shape[0], stream.spec.shape[1])
      guard (oldWidth, oldHeight) != (width, height) else { continue }
      var new = stream
      new.spec.shape = [height, width, 1]
      new.spec.intrinsics = stream.spec.intrinsics?.scaled(
        x: Double(width) / Double(oldWidth), y: Double(height) / Double(oldHeight))
      new.source = NearestPixels(
        base: stream.source, size: stream.spec.type.size, oldWidth: oldWidth,
        columns: Self.nearest(from: oldWidth, to: width), rows: Self.nearest(from: oldHeight, to: height))
      resampled.streams[name] = new
    }
    return resampled
  }

  /// The old position whose pixel holds the centre of each new one: floor((i + 1/2) * old / new), in whole numbers.
  static func nearest(from old: Int, to new: Int) -> [Int] {
    (0..<new).map { (2 * $0 + 1) * old / (2 * new) }
  }
}

/// Chosen pixels of another source's grids.
struct NearestPixels: SampleSource {
  let base: any SampleSource
  /// Bytes of a pixel.
  let size: Int
  let oldWidth: Int
  let columns: [Int]
  let rows: [Int]

  func makeCursor() throws -> any SampleCursor { Cursor(base: try base.makeCursor(), grid: self) }

  func probe(_ index: Int) throws { try base.probe(index) }

  var feed: (any SampleFeed)? { base.feed }

  private struct Cursor: SampleCursor {
    var base: any SampleCursor
    let grid: NearestPixels
    var old: [UInt8] = []

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try base.read(index, into: &old)
      let count = grid.rows.count * grid.columns.count * grid.size
      if bytes.count != count { bytes = [UInt8](repeating: 0, count: count) }
      old.withUnsafeBytes { old in
        bytes.withUnsafeMutableBytes { new in
          var target = 0
          for row in grid.rows {
            for column in grid.columns {
              let source = (row * grid.oldWidth + column) * grid.size
              for byte in 0..<grid.size { new[target + byte] = old[source + byte] }
              target += grid.size
            }
          }
        }
      }
    }
  }
}
