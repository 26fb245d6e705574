import Model
import Testing

@testable import Media

@Suite struct ImageResizerTests {
  @Test(arguments: [(640, 320), (1920, 320), (7, 3), (3, 7), (5, 5), (8192, 1)])
  func weightsAddUpToOneAndStayInside(source: Int, target: Int) {
    let taps = Taps(from: source, to: target)
    for position in 0..<target {
      let weights = taps.weights[(position * taps.count)..<((position + 1) * taps.count)]
      #expect(abs(weights.reduce(0, +) - 1) < 1e-5)
      #expect(taps.first[position] >= 0 && Int(taps.first[position]) + taps.count <= source)
    }
  }

  @Test func leavesAPlainImageAsItIs() {
    let resizer = ImageResizer(from: ImageSize(width: 40, height: 30), to: ImageSize(width: 13, height: 7))
    var output: [UInt8] = []
    resizer.resize((0..<1200).flatMap { _ in [10, 128, 255] as [UInt8] }, into: &output)
    #expect(output == (0..<91).flatMap { _ in [10, 128, 255] as [UInt8] })
  }

  @Test func averagesWhatEachNewPixelCovers() {
    // Stripes of one pixel vanish into their mean; without antialiasing they would alias to black or white.
    let row = (0..<32).flatMap { [UInt8](repeating: $0 % 2 == 0 ? 0 : 200, count: 3) }
    let pixels = (0..<32).flatMap { _ in row }
    var output: [UInt8] = []
    ImageResizer(from: ImageSize(width: 32, height: 32), to: ImageSize(width: 8, height: 8)).resize(pixels, into: &output)
    let inner = (2..<6).map { output[($0 * 8 + 4) * 3] }
    #expect(inner.allSatisfy { abs(Int($0) - 100) <= 1 })
  }

  @Test func fitsWithinABoxWithoutEnlarging() {
    let box = ImageSize(width: 320, height: 240)
    #expect(ImageSize(width: 1920, height: 1440).fitted(within: box) == box)
    #expect(ImageSize(width: 1920, height: 1080).fitted(within: box) == ImageSize(width: 320, height: 180))
    #expect(ImageSize(width: 224, height: 224).fitted(within: box) == ImageSize(width: 224, height: 224))
    #expect(ImageSize(width: 8000, height: 1).fitted(within: box) == ImageSize(width: 320, height: 1))
  }
}

@Suite struct PlanarReducerTests {
  /// Planes of noise, seeded.
  private func plane(_ count: Int, seed: UInt64) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 33)
    }
  }

  /// The filter by its definition: every output sample from all input samples, in 64-bit floats.
  private func reduced(_ plane: [UInt8], _ size: ImageSize, to target: ImageSize) -> [Double] {
    func weights(_ from: Int, _ to: Int, _ position: Int) -> [(Int, Double)] {
      let scale = Double(from) / Double(to)
      let (center, support) = ((Double(position) + 0.5) * scale, max(scale, 1))
      let all: [(Int, Double)] = (0..<from).map { ($0, 1 - abs(Double($0) + 0.5 - center) / support) }.filter { $0.1 > 0 }
      let sum = all.reduce(0) { $0 + $1.1 }
      return all.map { ($0.0, $0.1 / sum) }
    }
    let columns = (0..<target.width).map { weights(size.width, target.width, $0) }
    return (0..<target.height).flatMap { y in
      let rows = weights(size.height, target.height, y)
      return columns.map { column -> Double in
        var sum = 0.0
        for (row, rowWeight) in rows {
          for (index, weight) in column { sum += rowWeight * weight * Double(plane[row * size.width + index]) }
        }
        return sum
      }
    }
  }

  /// BT.709 after ITU-R BT.709-6, 3.3 and 4.6; full range after ITU-T H.273, 8.3.
  @Test(arguments: [(96, 54, 32, 18), (96, 54, 95, 53), (64, 48, 20, 47), (8, 8, 1, 1)], [false, true])
  func roundsTheExactValue(sides: (Int, Int, Int, Int), isFullRange: Bool) throws {
    let (size, target) = (ImageSize(width: sides.0, height: sides.1), ImageSize(width: sides.2, height: sides.3))
    let half = ImageSize(width: size.width / 2, height: size.height / 2)
    let planes = [
      plane(size.width * size.height, seed: 1), plane(half.width * half.height, seed: 2), plane(half.width * half.height, seed: 3),
    ]
    let coefficients: [Int32] = [117_489, 138_438, 13975, 34925]
    let reducer = try #require(YUVDownscaler(from: size, to: target, coefficients: coefficients, isFullRange: isFullRange))
    var pixels = [UInt8](repeating: 0, count: target.width * target.height * 3)
    planes[0].withUnsafeBufferPointer { luma in
      planes[1].withUnsafeBufferPointer { cb in
        planes[2].withUnsafeBufferPointer { cr in
          guard let luma = luma.baseAddress, let cb = cb.baseAddress, let cr = cr.baseAddress else { return }
          reducer.reduce((luma, size.width), (cb, half.width), (cr, half.width), into: &pixels)
        }
      }
    }

    let (y, cb, cr) = (
      reduced(planes[0], size, to: target), reduced(planes[1], half, to: target), reduced(planes[2], half, to: target)
    )
    let (black, luma, chroma) = isFullRange ? (0.0, 1.0, 1.0) : (16.0, 255.0 / 219, 255.0 / 224)
    for index in y.indices {
      let (gray, blue, red) = ((y[index] - black) * luma, (cb[index] - 128) * chroma, (cr[index] - 128) * chroma)
      let (redPart, bluePart) = (2 * (1 - 0.2126) * red, 2 * (1 - 0.0722) * blue)
      let green = gray - (0.2126 * redPart + 0.0722 * bluePart) / 0.7152
      let exact = [gray + redPart, green, gray + bluePart].map { min(max($0, 0), 255) }
      for color in 0..<3 { #expect(abs(Double(pixels[3 * index + color]) - exact[color]) < 0.502) }
    }
  }

  @Test func leavesOtherImagesToOthers() {
    let coefficients: [Int32] = [117_489, 138_438, 13975, 34925]
    for (source, target) in [((64, 48), (64, 48)), ((64, 48), (32, 48)), ((63, 48), (32, 24)), ((64, 48), (128, 96))] {
      #expect(
        YUVDownscaler(
          from: ImageSize(width: source.0, height: source.1), to: ImageSize(width: target.0, height: target.1), coefficients: coefficients,
          isFullRange: false) == nil)
    }
  }
}

@Suite struct JPEGTests {
  private let size = ImageSize(width: 64, height: 48)

  private func image() throws -> [UInt8] {
    var pixels: [UInt8] = []
    for y in 0..<48 { for x in 0..<64 { pixels += [UInt8(x * 4), UInt8(y * 5), 90] } }
    return try JPEGEncoder().encode(pixels, size: size, quality: 95)
  }

  private func decode(_ file: [UInt8], reduction: Int = 1, limit: Int = 8192) throws -> (ImageSize, [UInt8]) {
    var pixels: [UInt8] = []
    let size = try file.withUnsafeBytes { try JPEGDecoder().decode($0, reduction: reduction, limit: limit, into: &pixels) }
    return (size, pixels)
  }

  /// libjpeg keeps the tables of the image before.
  @Test(arguments: [0xDB, 0xC4] as [UInt8]) func anImageWithoutTablesIsTheSameWhateverWasDecodedBefore(marker: UInt8) throws {
    let whole = try image()
    var bare: [UInt8] = Array(whole[..<2])
    var offset = 2
    while whole[offset + 1] != 0xDA {
      let end = offset + 2 + (Int(whole[offset + 2]) << 8 | Int(whole[offset + 3]))
      if whole[offset + 1] != marker { bare += whole[offset..<end] }
      offset = end
    }
    bare += whole[offset...]
    func pixels(_ decoder: JPEGDecoder) -> [UInt8]? {
      var pixels: [UInt8] = []
      return (try? bare.withUnsafeBytes { try decoder.decode($0, into: &pixels) }) == nil ? nil : pixels
    }
    let used = try JPEGDecoder()
    var ignored: [UInt8] = []
    _ = try JPEGEncoder().encode([UInt8](repeating: 128, count: 192), size: ImageSize(width: 8, height: 8), quality: 30)
      .withUnsafeBytes { try used.decode($0, into: &ignored) }
    #expect(try pixels(used) == pixels(JPEGDecoder()))
  }

  @Test func decodesSmallerByReduction() throws {
    let (declared, pixels) = try decode(image(), reduction: 4)
    #expect(declared == ImageSize(width: 64, height: 48))
    #expect(pixels.count == 16 * 12 * 3)
  }

  @Test func choosesTheGreatestReductionThatCoversTheTarget() {
    let target = ImageSize(width: 320, height: 240)
    #expect(JPEGDecoder.reduction(from: ImageSize(width: 1920, height: 1440), covering: target) == 4)
    #expect(JPEGDecoder.reduction(from: ImageSize(width: 480, height: 360), covering: target) == 1)
    #expect(JPEGDecoder.reduction(from: ImageSize(width: 640, height: 480), covering: target) == 2)
  }

  /// libjpeg fills what is missing with gray and warns; that must never pass for a image.
  @Test func refusesAImageCutAnywhere() throws {
    let whole = try image()
    for length in stride(from: 1, to: whole.count - 2, by: 7) {
      #expect(throws: MediaError.self, "cut to \(length) of \(whole.count) bytes") { try decode(Array(whole[..<length])) }
    }
  }

  @Test func refusesAHugeImageFromItsHeader() throws {
    let error = #expect(throws: MediaError.self) { try decode(image(), limit: 63) }
    #expect(error?.message.contains("larger than 63x63") == true)
  }
}
