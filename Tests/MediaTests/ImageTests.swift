import Testing

@testable import Media

@Suite struct ImageResizerTests {
  @Test(arguments: [(640, 320), (1920, 320), (7, 3), (3, 7), (5, 5), (8192, 1)])
  func weightsAddUpToOneAndStayInside(source: Int, target: Int) {
    let taps = Taps(from: source, to: target)
    for position in 0..<target {
      let weights = taps.weights[(position * taps.count)..<((position + 1) * taps.count)]
      #expect(abs(weights.reduce(0, +) - 1) < 1e-5)
      #expect(taps.first[position] >= 0 && taps.first[position] + taps.count <= source)
    }
  }

  @Test func leavesAPlainPictureAsItIs() {
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

@Suite struct JPEGTests {
  private let size = ImageSize(width: 64, height: 48)

  private func picture() throws -> [UInt8] {
    var pixels: [UInt8] = []
    for y in 0..<48 { for x in 0..<64 { pixels += [UInt8(x * 4), UInt8(y * 5), 90] } }
    return try JPEGEncoder().encode(pixels, size: size, quality: 95)
  }

  private func decode(_ file: [UInt8], reduction: Int = 1, limit: Int = 8192) throws -> (ImageSize, [UInt8]) {
    var pixels: [UInt8] = []
    let size = try file.withUnsafeBytes { try JPEGDecoder().decode($0, reduction: reduction, limit: limit, into: &pixels) }
    return (size, pixels)
  }

  @Test func decodesWhatItEncodes() throws {
    let (decoded, pixels) = try decode(picture())
    #expect(decoded == size)
    #expect(abs(Int(pixels[(24 * 64 + 32) * 3]) - 128) < 6)
    #expect(abs(Int(pixels[(24 * 64 + 32) * 3 + 1]) - 120) < 6)
  }

  @Test func decodesSmallerByReduction() throws {
    let (decoded, pixels) = try decode(picture(), reduction: 4)
    #expect(decoded == ImageSize(width: 16, height: 12))
    #expect(pixels.count == 16 * 12 * 3)
  }

  @Test func choosesTheGreatestReductionThatCoversTheTarget() {
    let target = ImageSize(width: 320, height: 240)
    #expect(JPEGDecoder.reduction(from: ImageSize(width: 1920, height: 1440), covering: target) == 4)
    #expect(JPEGDecoder.reduction(from: ImageSize(width: 480, height: 360), covering: target) == 1)
    #expect(JPEGDecoder.reduction(from: ImageSize(width: 640, height: 480), covering: target) == 2)
  }

  @Test func refusesAnEmptyFile() { #expect(throws: MediaError.self) { try decode([]) } }

  @Test func refusesText() {
    let error = #expect(throws: MediaError.self) { try decode(Array("this is no picture at all".utf8)) }
    #expect(error?.message.contains("FF D8 FF") == true)
  }

  /// libjpeg fills what is missing with grey and warns; that must never pass for a picture.
  @Test func refusesAPictureCutAnywhere() throws {
    let whole = try picture()
    for length in stride(from: 1, to: whole.count - 2, by: 7) {
      #expect(throws: MediaError.self, "cut to \(length) of \(whole.count) bytes") { try decode(Array(whole[..<length])) }
    }
  }

  @Test func refusesAHugePictureFromItsHeader() throws {
    let error = #expect(throws: MediaError.self) { try decode(picture(), limit: 63) }
    #expect(error?.message.contains("larger than 63x63") == true)
  }
}
