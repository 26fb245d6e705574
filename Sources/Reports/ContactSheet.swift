import CZlib
import EdgeOverlay
import Media
package import Model

/// A contact sheet. Each take has a row of images, evenly spaced in time, a row of their depth maps in the colors of the report,
/// and a row of the images overlaid with depth edges.
package struct ContactSheet {
  static let cell = ImageSize(width: 200, height: 150)
  private static let columns = 6
  static let margin = 4

  private var sheet: [UInt8] = []
  private var height = 0
  /// The meaning of the strips, from the top: one line for each episode. The sheet itself has no letters.
  package private(set) var legend: [String] = []
  let width = columns * (cell.width + margin) + margin

  package init() {}

  /// Adds an episode by reading a few of its samples. Cells that cannot be read stay gray.
  package mutating func add(_ episode: Episode) { try? addStrips(episode) }

  private mutating func addStrips(_ episode: Episode) throws {
    let rows = Self.spread(0..<episode.frames.count)
    var strips: [String] = []
    defer {
      let first = episode.frames.timestamps.first
      let times = rows.map { row in
        "\(row) (\(Figures.short(first.map { Double(episode.frames.timestamps[row].since($0)) / 1e9 } ?? 0)) s)"
      }
      if !strips.isEmpty { legend.append("\(episode.id): \(strips.joined(separator: ", ")) of rows \(times.joined(separator: ", "))") }
    }
    func first(_ kind: StreamKind) -> SampleStream? {
      episode.firstStream { $0.spec.kind == kind && $0.rows != nil }?.stream
    }
    let image = first(.image), depth = first(.depth)
    if let image {
      let size = image.spec.gridSize.fitted(within: Self.cell)
      add(try images(image, rows, size), size)
      strips.append("images")
    }
    guard let depth else { return }
    // Small maps are enlarged to fill their cell.
    let own = depth.spec.gridSize
    let size = ImageSize(width: own.width * 8, height: own.height * 8).fitted(within: Self.cell)
    let maps = try samples(depth, rows)
    let resizer = ImageResizer(from: own, to: size)
    func resized(_ image: [UInt8]) -> [UInt8] {
      var output: [UInt8] = []
      resizer.resize(image, into: &output)
      return output
    }
    add(maps.map { $0.map { resized(EdgeOverlay.painted($0)) } }, size)
    strips.append("depth")
    guard let image else { return }
    let painted = zip(try images(image, rows, own), maps).map { image, map -> [UInt8]? in
      guard var image, let map else { return nil }
      EdgeOverlay.draw(map, width: own.width, height: own.height, over: &image)
      return resized(image)
    }
    add(painted, size)
    strips.append("depth edges")
  }

  /// As many rows as there are columns, from the first to the last.
  static func spread(_ rows: Range<Int>) -> [Int] {
    let count = min(columns, rows.count)
    return (0..<count).map { rows.lowerBound + (count > 1 ? $0 * (rows.count - 1) / (count - 1) : 0) }
  }

  mutating func add(legend line: String) { legend.append(line) }

  /// The sheet as a PNG; `nil` when there was nothing to draw.
  package func png() throws -> [UInt8]? {
    guard height > 0 else { return nil }
    var png = try PNG.encode(sheet, size: ImageSize(width: width, height: height))
    // Behind the signature and the header, which are of 8 and 25 bytes: a text chunk, by which the next command knows the file.
    let text = Array("tEXt\(Self.mark)".utf8)
    func bytes(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }
    let checksum = text.withUnsafeBufferPointer { UInt32(crc32_z(0, $0.baseAddress, $0.count)) }
    png.insert(contentsOf: bytes(UInt32(text.count - 4)) + text + bytes(checksum), at: 33)
    return png
  }

  /// A keyword and a text, as PNG files have them.
  package static let mark = "Software\0Takeset contact sheet"

  /// Adds one strip of cells; absent ones are gray.
  mutating func add(_ cells: [[UInt8]?], _ size: ImageSize) {
    let top = height + Self.margin
    height = top + size.height
    sheet += [UInt8](repeating: 48, count: width * height * 3 - sheet.count)
    for (column, cell) in cells.enumerated() {
      guard let cell else { continue }
      let left = Self.margin + column * (Self.cell.width + Self.margin)
      for y in 0..<size.height {
        let target = ((top + y) * width + left) * 3
        sheet.replaceSubrange(target..<(target + size.width * 3), with: cell[(y * size.width * 3)..<((y + 1) * size.width * 3)])
      }
    }
  }

  // MARK: Samples

  /// The samples of some rows, as a cursor returns them; `nil` where unavailable.
  static func samples(_ stream: SampleStream, _ rows: [Int], _ cursor: any SampleCursor) throws -> [[UInt8]?] {
    var cursor = cursor
    return try rows.map { row in
      guard let sample = stream.rows?[row]?.nearest else { return nil }
      var bytes: [UInt8] = []
      do {
        try cursor.read(sample, into: &bytes)
      } catch is SampleFailure {
        return nil
      }
      return bytes
    }
  }

  private func samples(_ stream: SampleStream, _ rows: [Int]) throws -> [[Float]?] {
    try Self.samples(stream, rows, stream.source.makeCursor(SampleRequest())).map { $0.map(stream.spec.meters) }
  }

  private func images(_ stream: SampleStream, _ rows: [Int], _ size: ImageSize) throws -> [[UInt8]?] {
    let cursor = try stream.source.makeCursor(SampleRequest(minimumSize: size))
    let resizer = ImageResizer(from: cursor.size ?? stream.spec.gridSize, to: size)
    return try Self.samples(stream, rows, cursor).map { image in
      guard let image else { return nil }
      var output: [UInt8] = []
      resizer.resize(image, into: &output)
      return output
    }
  }
}

extension EdgeOverlay {
  /// The color of pixels without depth, which no distance has.
  static let hole: SIMD3<Float> = [0.9, 0.55, 0.1]

  /// The depth map as an RGB image: each value in the color of its distance, holes in theirs.
  static func painted(_ depth: [Float]) -> [UInt8] {
    depth.flatMap { meters -> [UInt8] in
      let color = meters > 0 && meters < .infinity ? color(meters) : hole
      return (0..<3).map { UInt8((color[$0] * 255).rounded()) }
    }
  }
}
