import Media

/// A contact sheet: for each take a row of pictures, evenly spaced in time, and below them their depth, near in cyan, far in
/// magenta, none in black.
package struct Preview {
  private static let cell = Pixels(width: 200, height: 150)
  private static let columns = 6
  private static let margin = 4

  private var sheet: [UInt8] = []
  private var height = 0
  private let width = columns * (cell.width + margin) + margin

  /// Reads a few samples of each episode. What cannot be read stays grey.
  package init(_ episodes: [Episode]) {
    for episode in episodes { try? add(episode) }
  }

  private mutating func add(_ episode: Episode) throws {
    // Depth has its own times in a source; the default alignment pairs it with pictures.
    let aligned = try Align().apply(to: episode)
    let count = min(Self.columns, aligned.frames.count)
    let rows = (0..<count).map { count > 1 ? $0 * (aligned.frames.count - 1) / (count - 1) : 0 }
    for name in ["camera_image", "camera_depth"] {
      guard let stream = aligned.streams[name], let samples = stream.rows else { continue }
      try addStrip(stream, samples: rows.map { samples[$0] })
    }
  }

  /// The sheet as a PNG; `nil` when there was nothing to draw.
  package func png() throws -> [UInt8]? {
    guard height > 0 else { return nil }
    return try PNG.encode(sheet, size: Pixels(width: width, height: height))
  }

  private mutating func addStrip(_ stream: Stream, samples: [Int?]) throws {
    let full = Pixels(width: stream.spec.shape[1], height: stream.spec.shape[0])
    // Small depth maps are enlarged to fill their cell.
    let size = Pixels(width: full.width * 8, height: full.height * 8).fitted(within: Self.cell)
    var (source, decoded) = (stream.source, full)
    if let reducible = source as? any ReducibleImageSource { (source, decoded) = reducible.reduced(covering: size) }
    var cursor = try source.makeCursor()
    let resizer = ImageResizer(from: decoded, to: size)
    let top = height + Self.margin
    height = top + size.height
    sheet += [UInt8](repeating: 48, count: width * height * 3 - sheet.count)
    for (column, sample) in samples.enumerated() {
      guard let sample else { continue }
      var bytes: [UInt8] = []
      do {
        try cursor.read(sample, into: &bytes)
      } catch is SampleFailure {
        continue
      }
      var picture: [UInt8] = []
      resizer.resize(stream.spec.kind == .image ? bytes : Self.colours(of: bytes), into: &picture)
      let left = Self.margin + column * (Self.cell.width + Self.margin)
      for y in 0..<size.height {
        let target = ((top + y) * width + left) * 3
        sheet.replaceSubrange(target..<(target + size.width * 3), with: picture[(y * size.width * 3)..<((y + 1) * size.width * 3)])
      }
    }
  }

  /// Colours of Float32 metres, on a scale that is linear in 1/distance from 0.3 m (cyan) to infinity (magenta).
  private static func colours(of depth: [UInt8]) -> [UInt8] {
    depth.withUnsafeBytes { bytes in
      bytes.bindMemory(to: Float.self).flatMap { metres -> [UInt8] in
        guard metres > 0 else { return [0, 0, 0] }
        let near = min(0.3 / metres, 1)
        let far = 1 - near.squareRoot()
        return [UInt8(255 * far), UInt8(255 * (1 - far)), 255]
      }
    }
  }
}
