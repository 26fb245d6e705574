import CPNG
package import Model

/// Reading and writing of PNG files with libpng.
package enum PNG {
  /// Encodes RGB rows with the simplified API, which returns errors instead of using `longjmp`.
  ///
  /// - Parameter pixels: RGB, top row first. `png_image_write_to_memory`.
  /// - Parameter isFast: Whether to compress less in a fraction of the time (libpng's `PNG_IMAGE_FLAG_FAST`).
  package static func encode(_ pixels: [UInt8], size: ImageSize, isFast: Bool = false) throws -> [UInt8] {
    guard pixels.count == size.width * size.height * 3, !pixels.isEmpty else {
      throw MediaError(call: "PNG", message: "\(pixels.count) bytes are not an RGB image of \(size)")
    }
    var image = png_image()
    image.version = UInt32(PNG_IMAGE_VERSION)
    image.width = UInt32(size.width)
    image.height = UInt32(size.height)
    image.format = UInt32(PNG_FORMAT_FLAG_COLOR)
    image.flags = isFast ? UInt32(PNG_IMAGE_FLAG_FAST) : 0
    defer { png_image_free(&image) }
    // Deflate adds a few bytes per block to what it cannot compress, and PNG one per row.
    var count = pixels.count + pixels.count / 8 + size.height + 4096
    var output = [UInt8](repeating: 0, count: count)
    guard png_image_write_to_memory(&image, &output, &count, 0, pixels, 0, nil) != 0 else { throw failure(image) }
    output.removeLast(output.count - count)
    return output
  }

  /// The size in the header of a PNG of any kind. `png_image_begin_read_from_memory`.
  package static func size(of file: UnsafeRawBufferPointer) throws -> ImageSize {
    var image = png_image()
    image.version = UInt32(PNG_IMAGE_VERSION)
    defer { png_image_free(&image) }
    guard png_image_begin_read_from_memory(&image, file.baseAddress, file.count) != 0 else { throw failure(image) }
    return ImageSize(width: Int(image.width), height: Int(image.height))
  }

  /// The first bytes of every PNG.
  package static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

  /// Replaces `pixels` with the RGB rows of a PNG of this size, in 8 bits of sRGB. `png_image_finish_read`.
  ///
  /// Transparent pixels are composed on black: each value is multiplied by its opacity, without regard to gamma, as loaders of such images
  /// do. Other depths become 8 bits; gray and palettes become colors. Values are taken for those of sRGB, unless the file has a `gAMA` that
  /// says otherwise; they are then converted. Other color spaces (`iCCP`, `cHRM`, `cICP`) and the background (`bKGD`) are not looked at.
  ///
  /// - Returns: Whether a pixel is transparent, wholly or in part.
  @discardableResult
  package static func decode(_ file: UnsafeRawBufferPointer, size: ImageSize, into pixels: inout [UInt8]) throws -> Bool {
    var image = png_image()
    image.version = UInt32(PNG_IMAGE_VERSION)
    defer { png_image_free(&image) }
    guard png_image_begin_read_from_memory(&image, file.baseAddress, file.count) != 0 else { throw failure(image) }
    guard image.width == UInt32(size.width), image.height == UInt32(size.height) else {
      throw MediaError(call: "PNG", message: "the image is \(image.width)x\(image.height), expected \(size)")
    }
    // Without it, libpng takes 16 bits for linear light.
    image.flags |= UInt32(PNG_IMAGE_FLAG_16BIT_sRGB)
    let hasAlpha = image.format & UInt32(PNG_FORMAT_FLAG_ALPHA) != 0
    image.format = UInt32(PNG_FORMAT_FLAG_COLOR) | (hasAlpha ? UInt32(PNG_FORMAT_FLAG_ALPHA) : 0)
    let count = size.width * size.height * (hasAlpha ? 4 : 3)
    // The header has the bits of a channel and the kind of color, which tell the bytes of the file's own rows (PNG 1.2, 4.1.1).
    let channels =
      switch file[25] {
      case 0, 3: 1
      case 4: 2
      case 2: 3
      default: 4
      }
    try checkData(file, pixels: (size.width * channels * Int(file[24]) + 7) / 8 * size.height, rows: size.height)
    if pixels.count != count { pixels = [UInt8](repeating: 0, count: count) }
    guard png_image_finish_read(&image, nil, &pixels, 0, nil) != 0 else { throw failure(image) }
    return hasAlpha && composeOnBlack(&pixels)
  }

  /// Makes RGB of RGBA; returns whether a pixel is not opaque.
  private static func composeOnBlack(_ pixels: inout [UInt8]) -> Bool {
    let count = pixels.count / 4
    var lowest = UInt8.max
    pixels.withUnsafeMutableBufferPointer { bytes in
      for pixel in 0..<count {
        let alpha = bytes[4 * pixel + 3]
        lowest = min(lowest, alpha)
        for channel in 0..<3 { bytes[3 * pixel + channel] = UInt8((Int(bytes[4 * pixel + channel]) * Int(alpha) + 127) / 255) }
      }
    }
    pixels.removeLast(count)
    return lowest < .max
  }

  /// Throws where the chunks of compressed data are longer than any encoder makes them for so many bytes of rows: libpng inflates all that
  /// is there, and what follows the last row can be a thousand times as much as the file. (PNG 1.2, 3.2 and 10.1: stored blocks of deflate
  /// have 5 bytes each, rows one byte for their filter, and interlacing has up to twice as many rows.)
  private static func checkData(_ file: UnsafeRawBufferPointer, pixels: Int, rows: Int) throws {
    var (offset, data) = (8, 0)
    while offset + 8 <= file.count {
      let length = Int(UInt32(bigEndian: file.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
      if file[(offset + 4)..<(offset + 8)].elementsEqual("IDAT".utf8) { data += length }
      offset += 12 + length
    }
    let most = pixels + pixels / 8 + 16 * rows + 4096
    guard data <= most else {
      throw MediaError(call: "PNG", message: "it has \(data) bytes of compressed data; its rows need at most \(most)")
    }
  }

  private static func failure(_ image: png_image) -> MediaError {
    withUnsafeBytes(of: image.message) {
      MediaError(call: "PNG", message: String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self))
    }
  }

  /// The longest side in pixels; larger images are refused.
  package static let graySideLimit = 4096

  /// The size in the header of a gray PNG with this many bits per pixel, 8 or 16.
  package static func graySize(of file: UnsafeRawBufferPointer, bits: Int) throws -> ImageSize {
    var (width, height): (UInt32, UInt32) = (0, 0)
    try decodeGray(file, bits, &width, &height, nil)
    return ImageSize(width: Int(width), height: Int(height))
  }

  /// Replaces `pixels` with those of a gray PNG of this size and bit depth, unscaled, 16 bits little-endian. A damaged or truncated file
  /// throws.
  package static func decodeGray(_ file: UnsafeRawBufferPointer, bits: Int, size: ImageSize, into pixels: inout [UInt8]) throws {
    let count = size.width * size.height * bits / 8
    try checkData(file, pixels: count, rows: size.height)
    if pixels.count != count { pixels = [UInt8](repeating: 0, count: count) }
    var (width, height) = (UInt32(size.width), UInt32(size.height))
    try pixels.withUnsafeMutableBufferPointer { try decodeGray(file, bits, &width, &height, $0.baseAddress) }
  }

  private static func decodeGray(
    _ file: UnsafeRawBufferPointer, _ bits: Int, _ width: inout UInt32, _ height: inout UInt32, _ output: UnsafeMutablePointer<UInt8>?
  ) throws {
    try withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { message in
      let bytes = file.bindMemory(to: UInt8.self)
      guard
        cpng_decode_gray(bytes.baseAddress, bytes.count, Int32(bits), UInt32(graySideLimit), &width, &height, output, message.baseAddress)
          == 1
      else { throw MediaError(call: "PNG", message: String(cString: message.baseAddress!)) }
    }
  }

  /// Encodes gray rows of 8 or 16 bits, 16 bits little-endian.
  package static func encodeGray(_ pixels: [UInt8], bits: Int, size: ImageSize) throws -> [UInt8] {
    guard pixels.count == size.width * size.height * bits / 8, !pixels.isEmpty else {
      throw MediaError(call: "PNG", message: "\(pixels.count) bytes are not a gray image of \(size)")
    }
    var output: [UInt8] = []
    let done = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { message -> String? in
      output = [UInt8](repeating: 0, count: pixels.count + pixels.count / 8 + 4096)
      let count = cpng_encode_gray(pixels, Int32(bits), UInt32(size.width), UInt32(size.height), &output, output.count, message.baseAddress)
      guard count > 0 else { return String(cString: message.baseAddress!) }
      output.removeLast(output.count - count)
      return nil
    }
    if let done { throw MediaError(call: "PNG", message: done) }
    return output
  }
}
