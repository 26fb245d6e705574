import EdgeOverlay
import Foundation
import Media
import Model

/// Some images or depth maps of an episode, evenly spaced in time, in one JPEG file: side by side, in lines of 24.
struct ContactStrip: Sendable {
  /// Key of the stream.
  var key: StreamName
  /// Size of one image.
  var cell: ImageSize
  /// Images in a line; the last line may have fewer.
  var columns: Int
  /// Rows of the images, and their seconds since the first row.
  var rows: [Int]
  var seconds: [Double]
  /// Images that cannot be read; they are gray.
  var missing: Int
  /// Whether they are depth maps, in the colors of their distances.
  var isDepth: Bool
  var jpeg: [UInt8]

  /// An image in this form costs some bytes: sizes and qualities, from the best to the least.
  private static let forms: [(box: ImageSize, quality: Int)] = [
    (224, 78), (192, 74), (160, 70), (144, 66), (128, 62), (112, 58), (96, 54), (80, 50), (64, 45), (48, 40),
  ].map { (ImageSize(width: $0.0, height: $0.0 * 3 / 4), $0.1) }

  /// The least bytes that a useful pair of strips needs.
  static let leastBytes = 3000

  private static let columns = 24

  /// Reads the strips of an episode: its images, and the depth maps of every `step`th one; of a joined take those of each member, at the same
  /// moments. Their files have no more than `bytes` together: they
  /// are as large as that allows, down to the smallest form, and then there are fewer of them. Empty without images and depth, or where not
  /// even one fits.
  static func strips(of episode: Episode, count: Int, depthOfEvery step: Int = 2, bytes: Int) throws -> [ContactStrip] {
    guard count > 0, episode.frames.count > 0 else { return [] }
    let rows = self.rows(min(count, episode.frames.count), of: episode.frames.count)
    var originals: [Original] = []
    let members = Set(episode.streams.values.map(\.spec.member)).sorted { $0 ?? "" < $1 ?? "" }
    for member in members {
      func first(_ kind: StreamKind) -> (name: StreamName, stream: SampleStream)? {
        episode.firstStream { $0.spec.member == member && $0.spec.kind == kind && $0.rows != nil && $0.spec.gridSize.width > 0 }
      }
      let image = first(.image)
      if let image { originals.append(try Original(images: image.stream, key: image.name, rows: rows)) }
      guard let depth = first(.depth) else { continue }
      let some = rows.enumerated().filter { $0.offset % step == 0 }.map(\.element)
      originals.append(try Original(depth: depth.stream, besides: image?.stream, key: depth.name, rows: some))
    }
    // Images of all phones first, one below the other.
    originals = originals.filter { !$0.isDepth } + originals.filter(\.isDepth)
    originals.removeAll { !$0.cells.contains { $0 != nil } }
    return try fitted(originals, of: episode, within: bytes)
  }

  /// Rows evenly spaced from the first to the last.
  static func rows(_ count: Int, of all: Int) -> [Int] {
    count == 1 ? [all / 2] : (0..<count).map { $0 * (all - 1) / (count - 1) }
  }

  private static func fitted(_ originals: [Original], of episode: Episode, within bytes: Int) throws -> [ContactStrip] {
    guard let most = originals.map(\.cells.count).max() else { return [] }
    for form in forms {
      if let strips = try encoded(originals, episode, form, within: bytes) { return strips }
    }
    var count = most
    while count > 1 {
      count = (count + 1) / 2
      let fewer = originals.map { $0.keeping(count) }
      for form in forms.suffix(2) {
        if let strips = try encoded(fewer, episode, form, within: bytes) { return strips }
      }
    }
    // One image is worth more than its depth map.
    for form in forms.suffix(2) {
      if let strips = try encoded(originals.prefix(1).map { $0.keeping(1) }, episode, form, within: bytes) { return strips }
    }
    return []
  }

  private static func encoded(
    _ originals: [Original], _ episode: Episode, _ form: (box: ImageSize, quality: Int), within bytes: Int
  ) throws -> [ContactStrip]? {
    var (strips, rest): ([ContactStrip], Int) = ([], bytes)
    for original in originals {
      let strip = try original.encoded(episode, form)
      rest -= strip.jpeg.count
      if rest < 0 { return nil }
      strips.append(strip)
    }
    return strips
  }

  // MARK: Samples

  /// The images of a strip at the largest size.
  private struct Original {
    var key: StreamName
    var size: ImageSize
    var rows: [Int]
    /// RGB; `nil` where unreadable.
    var cells: [[UInt8]?]
    var isDepth = false

    init(images stream: SampleStream, key: StreamName, rows: [Int]) throws {
      (self.key, self.rows) = (key, rows)
      size = stream.spec.gridSize.fitted(within: forms[0].box)
      cells = try ContactStrip.images(stream, rows, size)
    }

    /// Depth maps in the colors of their distances, at the size of the images.
    init(depth: SampleStream, besides image: SampleStream?, key: StreamName, rows: [Int]) throws {
      (self.key, self.rows, isDepth) = (key, rows, true)
      let own = depth.spec.gridSize
      // Both strips have one size; without images, small maps are enlarged to fill their cell.
      let shown = image?.spec.gridSize ?? ImageSize(width: own.width * 8, height: own.height * 8)
      size = shown.fitted(within: forms[0].box)
      let resizer = ImageResizer(from: own, to: size)
      let cursor = try depth.source.makeCursor(SampleRequest())
      let maps = ContactStrip.samples(depth, rows, cursor)
      cells = maps.map { map in
        guard let map else { return nil }
        var output: [UInt8] = []
        resizer.resize(EdgeOverlay.painted(depth.spec.meters(map)), into: &output)
        return output
      }
    }

    /// This many of the images, evenly chosen.
    func keeping(_ count: Int) -> Original {
      guard count < rows.count else { return self }
      let chosen = ContactStrip.rows(count, of: rows.count)
      var kept = self
      (kept.rows, kept.cells) = (chosen.map { rows[$0] }, chosen.map { cells[$0] })
      return kept
    }

    func encoded(_ episode: Episode, _ form: (box: ImageSize, quality: Int)) throws -> ContactStrip {
      let cell = size.fitted(within: form.box)
      let resizer = ImageResizer(from: size, to: cell)
      let columns = min(cells.count, ContactStrip.columns)
      let width = cell.width * columns
      let height = cell.height * ((cells.count + columns - 1) / columns)
      var sheet = [UInt8](repeating: 128, count: width * height * 3)
      var scaled: [UInt8] = []
      for (index, image) in cells.enumerated() {
        guard let image else { continue }
        let place = (index / columns * cell.height * width + index % columns * cell.width) * 3
        if cell == size { scaled = image } else { resizer.resize(image, into: &scaled) }
        for y in 0..<cell.height {
          let target = place + y * width * 3
          sheet.replaceSubrange(target..<(target + cell.width * 3), with: scaled[(y * cell.width * 3)..<((y + 1) * cell.width * 3)])
        }
      }
      let times = episode.frames.timestamps
      return ContactStrip(
        key: key, cell: cell, columns: columns, rows: rows, seconds: rows.map { Double(times[$0].since(times[0])) / 1e9 },
        missing: cells.count { $0 == nil },
        isDepth: isDepth,
        jpeg: try JPEGEncoder().encode(sheet, size: ImageSize(width: width, height: height), quality: form.quality))
    }
  }

  private static func images(_ stream: SampleStream, _ rows: [Int], _ size: ImageSize) throws -> [[UInt8]?] {
    let cursor = try stream.source.makeCursor(SampleRequest(minimumSize: size))
    let resizer = ImageResizer(from: cursor.size ?? stream.spec.gridSize, to: size)
    return samples(stream, rows, cursor).map { image in
      guard let image, image.count == resizer.source.width * resizer.source.height * 3 else { return nil }
      var output: [UInt8] = []
      resizer.resize(image, into: &output)
      return output
    }
  }

  /// The samples of some rows; `nil` where a row has none or it cannot be decoded.
  private static func samples(_ stream: SampleStream, _ rows: [Int], _ cursor: any SampleCursor) -> [[UInt8]?] {
    var cursor = cursor
    return rows.map { row in
      guard let all = stream.rows, row < all.count, let sample = all[row]?.nearest else { return nil }
      var bytes: [UInt8] = []
      // A sample that is damaged does not keep others from being shown.
      return (try? cursor.read(sample, into: &bytes)).map { bytes }
    }
  }
}
