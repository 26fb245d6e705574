package import Model

/// Whether images and depth maps of an episode show the same view, by a few rows: depth jumps at the outlines of things, and images have edges there.
///
/// For each change that may have been made to the images alone, the places where depth jumps are moved by it to the image. There the gradients
/// across the jump have a mean rank among all gradients of the image, which is 0.5 by chance at any exposure and 0.8 to 0.9 for the right change; and a
/// contrast to the ranks a little beside the jumps, which texture does not have.
package struct EdgeAgreement: Sendable {
  /// What may have been done to the images and not to the depth, as the stored images show it.
  enum Change: String, CaseIterable {
    case none
    case mirrored = "mirrored left to right"
    case flipped = "mirrored top to bottom"
    case turned = "turned by 180 degrees"
    case enlarged = "enlarged by a tenth"
    case reduced = "made smaller by a tenth"

    /// The factors of both axes about the center of the image.
    fileprivate var factors: (x: Double, y: Double) {
      switch self {
      case .none: (1, 1)
      case .mirrored: (-1, 1)
      case .flipped: (1, -1)
      case .turned: (-1, -1)
      case .enlarged: (1.1, 1.1)
      case .reduced: (1 / 1.1, 1 / 1.1)
      }
    }
  }

  /// How well the edges of a row's image lie on the jumps of its depth.
  struct Fit: Equatable {
    /// The mean rank of the gradients at the jumps, 0 to 1, and by how much it is above that beside them.
    var rank, contrast: Double
  }

  /// The fits of a row, by the cases of `Change`; `nil` where too much of the map is outside the image.
  package struct Row: Sendable { var fits: [Fit?] }

  package let image, depth: StreamName
  /// The rows that are examined.
  package let rows: Set<Int>
  private let imageRaster, depthRaster: Raster
  private let depthSpec: StreamSpec
  /// Size of the camera's image, about whose center changes are.
  private let full: ImageSize

  /// The most pixels of a side, to which an image is reduced.
  package static let side = 240
  /// Fewer jumps say nothing.
  private static let fewestJumps = 60
  /// By which part of it depth jumps at an outline.
  private static let jump: Float = 0.05
  /// How far beside a jump ranks are compared, in pixels of the reduced image.
  private static let beside = 8

  /// `nil` where images and depth are of different cameras, or of one in a way that is not known.
  ///
  /// - Parameter mostRows: Of how many rows at most images and depth are compared.
  package init?(_ episode: Episode, rows mostRows: Int = 8) {
    let streams = episode.streams.sorted { $0.key < $1.key }
    guard let (depth, map) = streams.first(where: { $0.value.spec.kind == .depth }), let depthRaster = map.spec.raster,
      let (image, pixels) = streams.first(where: { $0.value.spec.kind == .image && $0.value.spec.raster?.camera == depthRaster.camera }),
      let imageRaster = pixels.spec.raster, let full = episode.cameras[depthRaster.camera]?.size, let pictures = pixels.rows,
      let maps = map.rows
    else { return nil }
    // Of a map that is not as wide for its height as the camera's image, nobody knows how it lies in it, unless both were resized alike.
    let isKnown = [depthRaster.rasterFromFull, imageRaster.rasterFromFull.after(depthRaster.rasterFromFull.inverse)].contains { map in
      let (x, y) = (abs(map.xx) + abs(map.xy), abs(map.yx) + abs(map.yy))
      return abs(x - y) < 0.02 * x
    }
    guard isKnown else { return nil }
    let both = pictures.indices.filter { pictures[$0] != nil && maps[$0] != nil }
    let count = min(mostRows, both.count / 3)
    rows = Set((0..<count).map { both[$0 * (both.count - 1) / max(count - 1, 1)] })
    (self.image, self.depth, self.imageRaster, self.depthRaster, self.full) = (image, depth, imageRaster, depthRaster, full)
    depthSpec = map.spec
  }

  /// - Parameters:
  ///   - pixels: H x W x 3 RGB bytes.
  ///   - size: Of the image, which may have been read smaller than it is stored.
  ///   - map: The depth map as the stream has it.
  /// - Returns: `nil` where depth jumps too seldom.
  package func row(_ pixels: [UInt8], _ size: ImageSize, _ map: [UInt8]) -> Row? {
    let jumps = Self.jumps(depthSpec.meters(map), depthRaster.size)
    guard jumps.count >= Self.fewestJumps, pixels.count == 3 * size.width * size.height else { return nil }
    let small = ReducedImage(pixels, size, side: Self.side)
    let smallFromFull = Affine(xx: 1 / Double(small.factor), yy: 1 / Double(small.factor))
      .after(imageRaster.applying(.resize(size)).rasterFromFull)
    let fullFromMap = depthRaster.rasterFromFull.inverse
    let gradients = [small.gradients(alongX: true), small.gradients(alongX: false)]
    let isMapTurned = smallFromFull.after(fullFromMap).xx == 0
    return Row(
      fits: Change.allCases.map { change in
        let (x, y) = smallFromFull.xx == 0 ? (change.factors.y, change.factors.x) : change.factors
        let (centerX, centerY) = (Double(full.width) / 2, Double(full.height) / 2)
        let changed = Affine(xx: x, yy: y, x0: centerX * (1 - x), y0: centerY * (1 - y))
        let smallFromMap = smallFromFull.after(changed).after(fullFromMap)
        var (ranks, others, count): (Float, Float, Float) = (0, 0, 0)
        for jump in jumps {
          let (x, y) = smallFromMap(Double(jump.x) + 0.5, Double(jump.y) + 0.5)
          let (column, row) = (Int(x.rounded(.down)), Int(y.rounded(.down)))
          guard column >= Self.beside, row >= Self.beside, column < small.size.width - Self.beside, row < small.size.height - Self.beside
          else { continue }
          let isAlongX = jump.isAlongX != isMapTurned
          let step = Self.beside * (isAlongX ? 1 : small.size.width)
          let index = row * small.size.width + column
          gradients[isAlongX ? 0 : 1].add(index, step, to: &ranks, &others)
          count += 1
        }
        guard count >= Float(Self.fewestJumps), 2 * count >= Float(jumps.count) else { return nil }
        return Fit(rank: Double(ranks / count), contrast: Double((ranks - others) / count))
      })
  }

  struct Jump: Equatable {
    var x, y: Int
    var isAlongX: Bool
  }

  /// The pixels at which depth jumps. The inverse of the depth of a plane changes evenly, however steeply it is seen, so what changes unevenly is an
  /// outline.
  static func jumps(_ meters: [Float], _ size: ImageSize) -> [Jump] {
    guard meters.count == size.width * size.height else { return [] }
    let inverse = meters.map { $0 > 0 && $0.isFinite ? 1 / $0 : 0 }
    var jumps: [Jump] = []
    func look(_ step: Int, _ columns: Range<Int>, _ rows: Range<Int>) {
      inverse.withUnsafeBufferPointer { inverse in
        for y in rows {
          for x in columns {
            let index = y * size.width + x
            let (a, b, c, d) = (inverse[index - 3 * step], inverse[index - step], inverse[index + step], inverse[index + 3 * step])
            let (least, change) = (jump * min(b, c), c - b)
            guard abs(change) > least, a > 0, b > 0, c > 0, d > 0, abs(change - ((b - a) + (d - c)) / 2) > least else { continue }
            jumps.append(Jump(x: x, y: y, isAlongX: step == 1))
          }
        }
      }
    }
    guard size.width > 6, size.height > 6 else { return [] }
    look(1, 3..<(size.width - 3), 0..<size.height)
    look(size.width, 0..<size.width, 3..<(size.height - 3))
    return jumps
  }
}

// MARK: The finding

extension EdgeAgreement {
  private static let fewestRows = 3
  /// What the fit of a change must be, on average, and by how much it must be better than without. Sound takes are at -0.1 and below.
  private static let contrast = 0.15, better = 0.08

  /// The finding that the images were changed and the depth was not; `nil` where nothing can be said.
  ///
  /// - Parameter rows: Those of the examined rows of an episode that say something.
  package static func finding(_ rows: [Row]) -> Finding? {
    let found = Change.allCases.enumerated().dropFirst().compactMap {
      place, change -> (change: Change, contrast: Double, agree: Int, of: Int)? in
      let pairs = rows.compactMap { row in row.fits[place].flatMap { fit in row.fits[0].map { (fit, own: $0) } } }
      guard pairs.count >= fewestRows else { return nil }
      func mean(_ value: (Fit, Fit) -> Double) -> Double { pairs.reduce(0) { $0 + value($1.0, $1.own) } / Double(pairs.count) }
      let agree = pairs.count { $0.contrast > $1.contrast }
      let contrast = mean { fit, _ in fit.contrast }
      guard agree >= pairs.count - pairs.count / 8, contrast >= Self.contrast, mean({ $0.contrast - $1.contrast }) >= better,
        mean({ $0.rank - $1.rank }) >= better
      else { return nil }
      return (change, contrast, agree, pairs.count)
    }
    guard let best = found.max(by: { $0.contrast < $1.contrast }) else { return nil }
    return Finding(
      .geometryContradictory,
      "the images are \(best.change.rawValue) against the depth in \(best.agree) of \(best.of) frames examined")
  }
}

/// An image in gray, reduced by a whole factor to at most so many pixels of a side.
private struct ReducedImage {
  let size: ImageSize
  let factor: Int
  /// 0 to 765.
  private var gray: [Int32]

  init(_ pixels: [UInt8], _ full: ImageSize, side: Int) {
    factor = (max(full.width, full.height) + side - 1) / side
    size = ImageSize(width: full.width / factor, height: full.height / factor)
    gray = [Int32](repeating: 0, count: size.width * size.height)
    // Two or three lines of each square suffice.
    let lines = stride(from: 0, to: factor, by: max(factor / 2, 1))
    let count = Int32(lines.underestimatedCount * factor)
    pixels.withUnsafeBufferPointer { pixels in
      gray.withUnsafeMutableBufferPointer { gray in
        for y in 0..<size.height {
          for line in lines {
            var byte = (y * factor + line) * full.width * 3
            for x in 0..<size.width {
              var sum: Int32 = 0
              for _ in 0..<(3 * factor) {
                sum &+= Int32(pixels[byte])
                byte &+= 1
              }
              gray[y * size.width + x] &+= sum
            }
          }
        }
        for index in gray.indices { gray[index] /= count }
      }
    }
  }

  /// The greatest gradient along an axis of each pixel and its two neighbors along it.
  func gradients(alongX: Bool) -> Gradients {
    let (step, width, height) = (alongX ? 1 : size.width, size.width, size.height)
    let inner = alongX ? (x: 1..<max(width - 1, 1), y: 0..<height) : (x: 0..<width, y: 1..<max(height - 1, 1))
    var gradients = [Int32](repeating: 0, count: gray.count)
    var greatest = gradients
    gray.withUnsafeBufferPointer { gray in
      gradients.withUnsafeMutableBufferPointer { gradients in
        greatest.withUnsafeMutableBufferPointer { greatest in
          for y in inner.y {
            for index in (y * width + inner.x.lowerBound)..<(y * width + inner.x.upperBound) {
              gradients[index] = abs(gray[index + step] &- gray[index - step])
            }
          }
          for y in inner.y {
            for index in (y * width + inner.x.lowerBound)..<(y * width + inner.x.upperBound) {
              greatest[index] = max(gradients[index - step], gradients[index], gradients[index + step])
            }
          }
        }
      }
    }
    return Gradients(greatest)
  }
}

/// Gradients with their ranks among all.
private struct Gradients {
  private let values: [Int32]
  private let rank: [Float]

  init(_ values: [Int32]) {
    self.values = values
    var counts = [Int32](repeating: 0, count: 766)
    counts.withUnsafeMutableBufferPointer { counts in for value in values { counts[Int(value)] &+= 1 } }
    var below: Int32 = 0
    rank = counts.map { count in
      defer { below += count }
      return (Float(below) + Float(count) / 2) / Float(values.count)
    }
  }

  /// Adds the rank at an index, and the mean of those a step before and after it.
  func add(_ index: Int, _ step: Int, to own: inout Float, _ beside: inout Float) {
    own += rank[Int(values[index])]
    beside += (rank[Int(values[index - step])] + rank[Int(values[index + step])]) / 2
  }
}
