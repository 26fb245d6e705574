import Model
import Testing

@testable import Media

/// Noise, which does not compress, from a fixed seed.
private func noise(_ size: ImageSize) -> [UInt8] {
  var state: UInt64 = 1
  return (0..<(size.width * size.height * 3)).map { _ in
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return UInt8(truncatingIfNeeded: state >> 33)
  }
}

@Suite struct PNGTests {
  private func decode(_ file: [UInt8], _ size: ImageSize) throws -> [UInt8] {
    var pixels: [UInt8] = []
    _ = try file.withUnsafeBytes { try PNG.decode($0, size: size, into: &pixels) }
    return pixels
  }

  @Test(arguments: [(1, 1), (1, 9), (7, 1), (7, 3), (64, 48), (301, 199)], [false, true])
  func losesNothing(sides: (Int, Int), isFast: Bool) throws {
    let size = ImageSize(width: sides.0, height: sides.1)
    let pixels = noise(size)
    #expect(try decode(PNG.encode(pixels, size: size, isFast: isFast), size) == pixels)
    let plain = (0..<(size.width * size.height)).flatMap { _ in [255, 0, 128] as [UInt8] }
    #expect(try decode(PNG.encode(plain, size: size, isFast: isFast), size) == plain)
  }

  /// A ramp that filters predict: the fast way uses one filter and hardly searches.
  @Test func fastIsLargerThanSlow() throws {
    let size = ImageSize(width: 128, height: 96)
    var pixels: [UInt8] = []
    for y in 0..<96 { for x in 0..<128 { pixels += [UInt8(x + y), UInt8((x * y) % 251), UInt8(2 * x)] } }
    let (slow, fast) = (try PNG.encode(pixels, size: size), try PNG.encode(pixels, size: size, isFast: true))
    #expect(slow.count < fast.count && fast.count < pixels.count)
    #expect(try decode(slow, size) == decode(fast, size))
  }

  @Test func refusesPixelsOfAnotherSize() {
    for (count, size) in [(0, ImageSize(width: 0, height: 0)), (11, ImageSize(width: 2, height: 2)), (13, ImageSize(width: 2, height: 2))] {
      #expect(throws: MediaError.self) { try PNG.encode([UInt8](repeating: 0, count: count), size: size) }
    }
  }

  @Test func refusesAFileOfAnotherSize() throws {
    let size = ImageSize(width: 4, height: 6)
    let file = try PNG.encode(noise(size), size: size)
    for (width, height) in [(6, 4), (4, 5), (4, 7), (5, 6), (3, 6)] {
      let other = ImageSize(width: width, height: height)
      let error = #expect(throws: MediaError.self) { try decode(file, other) }
      #expect(error?.message == "the image is 4x6, expected \(other)")
    }
  }

  @Test(arguments: [false, true]) func refusesAFileCutAnywhere(isFast: Bool) throws {
    let size = ImageSize(width: 9, height: 7)
    let file = try PNG.encode(noise(size), size: size, isFast: isFast)
    // Without the chunk at its end, which has 12 bytes, an image is still complete.
    for length in 0..<(file.count - 13) {
      #expect(throws: MediaError.self, "cut to \(length) of \(file.count) bytes") { try decode(Array(file[..<length]), size) }
    }
  }

  @Test func refusesAFileThatIsNone() {
    #expect(throws: MediaError.self) { try decode([], ImageSize(width: 1, height: 1)) }
    #expect(throws: MediaError.self) { try decode(Array("no image at all".utf8), ImageSize(width: 1, height: 1)) }
  }

  @Test func aBufferIsReplacedWhateverItsLength() throws {
    let size = ImageSize(width: 5, height: 4)
    let pixels = noise(size)
    let file = try PNG.encode(pixels, size: size)
    for count in [0, 1, 60, 1000] {
      var buffer = [UInt8](repeating: 7, count: count)
      _ = try file.withUnsafeBytes { try PNG.decode($0, size: size, into: &buffer) }
      #expect(buffer == pixels)
    }
  }
}

@Suite struct JPEGEncoderTests {
  /// The sampling factors of the three components, of the frame header (ITU-T T.81, B.2.2).
  private func sampling(_ file: [UInt8]) throws -> [UInt8] {
    var offset = 2
    while offset + 19 < file.count {
      #expect(file[offset] == 0xFF)
      if file[offset + 1] == 0xC0 {
        #expect(file[offset + 9] == 3, "three components")
        return [file[offset + 11], file[offset + 14], file[offset + 17]]
      }
      offset += 2 + (Int(file[offset + 2]) << 8 | Int(file[offset + 3]))
    }
    return []
  }

  private func decode(_ file: [UInt8]) throws -> (size: ImageSize, pixels: [UInt8]) {
    var pixels: [UInt8] = []
    let size = try file.withUnsafeBytes { try JPEGDecoder().decode($0, into: &pixels) }
    return (size, pixels)
  }

  @Test(
    arguments: [
      (1, 0x22), (50, 0x22), (89, 0x22), (90, 0x22), (91, 0x11), (95, 0x11), (100, 0x11),
    ] as [(Int, UInt8)]) func colorHasFullResolutionAboveNinety(quality: Int, luma: UInt8) throws
  {
    let size = ImageSize(width: 32, height: 16)
    #expect(try sampling(JPEGEncoder().encode(noise(size), size: size, quality: quality)) == [luma, 0x11, 0x11])
  }

  /// Columns of red and blue with the same brightness.
  @Test func halfTheColorResolutionMixesNeighbors() throws {
    let size = ImageSize(width: 16, height: 16)
    let (red, blue) = ([200, 0, 0] as [UInt8], [0, 78, 122] as [UInt8])
    let pixels = (0..<256).flatMap { $0 % 2 == 0 ? red : blue }
    let (fine, coarse) = (
      try decode(JPEGEncoder().encode(pixels, size: size, quality: 91)), try decode(JPEGEncoder().encode(pixels, size: size, quality: 90))
    )
    let row = 8 * 16 * 3
    #expect(abs(Int(fine.pixels[row + 24]) - Int(fine.pixels[row + 27])) > 120)
    #expect(abs(Int(coarse.pixels[row + 24]) - Int(coarse.pixels[row + 27])) < 40)
  }

  @Test(arguments: [(1, 1), (5, 3), (17, 9), (8, 16)], [90, 95]) func keepsOddSizes(sides: (Int, Int), quality: Int) throws {
    let size = ImageSize(width: sides.0, height: sides.1)
    let plain = (0..<(size.width * size.height)).flatMap { _ in [120, 60, 200] as [UInt8] }
    let decoded = try decode(JPEGEncoder().encode(plain, size: size, quality: quality))
    #expect(decoded.size == size)
    #expect(zip(decoded.pixels, plain).allSatisfy { abs(Int($0) - Int($1)) <= 3 })
  }

  @Test func higherQualityIsNearerAndLarger() throws {
    let size = ImageSize(width: 48, height: 32)
    let pixels = noise(size)
    let encoder = try JPEGEncoder()
    let files = try [10, 50, 90, 91, 100].map { try encoder.encode(pixels, size: size, quality: $0) }
    let errors = try files.map { zip(try decode($0).pixels, pixels).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) } }
    #expect(zip(files, files.dropFirst()).allSatisfy { $0.count < $1.count })
    #expect(zip(errors, errors.dropFirst()).allSatisfy { $0 > $1 })
  }

  @Test func refusesPixelsOfAnotherSize() throws {
    let encoder = try JPEGEncoder()
    let error = #expect(throws: MediaError.self) {
      try encoder.encode([UInt8](repeating: 0, count: 11), size: ImageSize(width: 2, height: 2), quality: 95)
    }
    #expect(error?.message == "11 bytes are not an RGB image of 2x2")
    // And goes on with the next image.
    let size = ImageSize(width: 2, height: 2)
    #expect(try decode(encoder.encode(noise(size), size: size, quality: 95)).size == size)
  }
}
