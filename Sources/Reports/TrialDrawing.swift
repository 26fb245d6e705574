import Foundation
import Media
import Model
import Steps
import Transforms

/// The picture of a step's trial: some frames, and what the step made of them. A mask lies over its image, numbers are curves under the frames,
/// and frames that a step would drop are framed in red.
struct TrialDrawing {
  private let rows: Range<Int>
  private let pictured: [Int]
  private let size: ImageSize
  /// The images before the step; gray where there is none.
  private var frames: [[UInt8]?] = []
  private var results: [[UInt8]?] = []
  /// Numbers of each row; none where it is not valid.
  private var values: [[Float]] = []
  private var (isOfMask, isOfDrops) = (false, false)
  private let imageName: StreamName?

  /// Reads the images of some rows: those of the stream that the step replaces, or else of the first that it reads, or that the take has.
  init(_ declared: StepDeclaration, _ episode: Episode, rows: Range<Int>, pictured: [Int]) throws {
    (self.rows, self.pictured) = (rows, pictured)
    let names = [declared.writes?.name].compactMap(\.self) + declared.reads
    let images = episode.streams.filter { $0.value.spec.kind == .image && $0.value.rows != nil }
    imageName = names.map { StreamName($0) }.first { images[$0] != nil } ?? images.keys.min()
    guard let stream = imageName.flatMap({ images[$0] }) else {
      size = ContactSheet.cell
      return
    }
    size = stream.spec.gridSize.fitted(within: ContactSheet.cell, enlarging: true)
    let cursor = try stream.source.makeCursor(SampleRequest())
    frames = try ContactSheet.samples(stream, pictured, cursor).map { $0.map { Self.resized($0, stream.spec, size) } }
  }

  private static func resized(_ image: [UInt8], _ spec: StreamSpec, _ size: ImageSize) -> [UInt8] {
    var output: [UInt8] = []
    ImageResizer(from: spec.gridSize, to: size).resize(image, into: &output)
    return output
  }

  /// Adds the numbers of the next row.
  mutating func add(_ values: [Float]) { self.values.append(values) }

  /// Adds the image or mask of one of the pictured rows, in their order.
  mutating func add(_ sample: [UInt8]?, _ spec: StreamSpec, of row: Int) {
    isOfMask = spec.kind != .image
    guard let sample else { return results.append(nil) }
    if !isOfMask { return results.append(Self.resized(sample, spec, size)) }
    // A mask is resized as a gray image, and any value but 0 tints what is below.
    let mask = Self.resized(sample.flatMap { [UInt8](repeating: $0 == 0 ? 0 : 255, count: 3) }, spec, size)
    var image = frames.indices.contains(results.count) ? frames[results.count] ?? [] : []
    if image.isEmpty { image = [UInt8](repeating: 96, count: mask.count) }
    for index in stride(from: 0, to: mask.count, by: 3) where mask[index] >= 128 {
      image[index] = UInt8((Int(image[index]) + 255) / 2)
      image[index + 1] /= 2
      image[index + 2] = UInt8((Int(image[index + 2]) + 255) / 2)
    }
    results.append(image)
  }

  /// Frames images of rows that are dropped.
  mutating func mark(_ isKept: [Bool]) {
    isOfDrops = true
    results = zip(frames, isKept).map { image, isKept in
      guard var image, !isKept else { return image }
      for y in 0..<size.height {
        for x in 0..<size.width where min(x, y, size.width - 1 - x, size.height - 1 - y) < 6 {
          image.replaceSubrange((y * size.width + x) * 3..<(y * size.width + x + 1) * 3, with: [230, 40, 40])
        }
      }
      return image
    }
  }

  /// The strips from the top: the frames, and what was made of them.
  func sheet(take: String) -> ContactSheet {
    var (sheet, strips) = (ContactSheet(), [String]())
    if !frames.isEmpty {
      sheet.add(frames, size)
      strips.append("\(imageName?.rawValue ?? "images") before the step")
    }
    if !results.isEmpty {
      sheet.add(results, size)
      strips.append(isOfMask ? "the mask over them" : isOfDrops ? "those that it drops in red" : "after it")
    }
    if !values.isEmpty {
      let plot = ImageSize(width: sheet.width - 2 * ContactSheet.margin, height: 150)
      sheet.add([plotted(plot, sheet)], plot)
      strips.append("its numbers, each from its least value at the bottom to its greatest at the top")
    }
    sheet.add(legend: "\(take): \(strips.joined(separator: ", ")); of rows \(pictured.map(String.init).joined(separator: ", "))")
    return sheet
  }

  private static let colors: [[UInt8]] = [
    [90, 170, 255], [255, 170, 60], [110, 220, 120], [240, 110, 160], [200, 160, 255], [230, 230, 90],
  ]

  /// The curves of all numbers; a row is under its frame.
  private func plotted(_ size: ImageSize, _ sheet: ContactSheet) -> [UInt8] {
    var image = [UInt8](repeating: 24, count: size.width * size.height * 3)
    let step = ContactSheet.cell.width + ContactSheet.margin
    let (first, last) = (Double(self.size.width) / 2, Double(self.size.width) / 2 + Double((max(pictured.count, 2) - 1) * step))
    func x(_ row: Int) -> Int { Int((first + (last - first) * Double(row) / Double(max(rows.count - 1, 1))).rounded()) }
    func set(_ x: Int, _ y: Int, _ color: [UInt8]) {
      guard (0..<size.width).contains(x), (0..<size.height).contains(y) else { return }
      image.replaceSubrange((y * size.width + x) * 3..<(y * size.width + x + 1) * 3, with: color)
    }
    for row in pictured { for y in 0..<size.height { set(x(row - rows.lowerBound), y, [60, 60, 60]) } }
    for element in 0..<(values.map(\.count).max() ?? 0) {
      let own = values.map { $0.indices.contains(element) ? $0[element] : .nan }
      let finite = own.filter(\.isFinite)
      guard let least = finite.min(), let most = finite.max() else { continue }
      let color = Self.colors[element % Self.colors.count]
      func y(_ value: Float) -> Int {
        let part = most > least ? Double(value - least) / Double(most - least) : 0.5
        return size.height - 6 - Int((part * Double(size.height - 12)).rounded())
      }
      for (row, value) in own.enumerated() where value.isFinite {
        for dx in -1...1 { for dy in -1...1 { set(x(row) + dx, y(value) + dy, color) } }
        guard row > 0, own[row - 1].isFinite else { continue }
        let (a, b) = ((x(row - 1), y(own[row - 1])), (x(row), y(value)))
        let steps = max(abs(b.0 - a.0), abs(b.1 - a.1), 1)
        for part in 0...steps { set(a.0 + (b.0 - a.0) * part / steps, a.1 + (b.1 - a.1) * part / steps, color) }
      }
    }
    return image
  }
}
