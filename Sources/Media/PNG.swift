import CPNG

/// Encodes RGB rows as PNG with libpng's simplified interface, whose errors are values and not jumps.
package enum PNG {
  /// - Parameter pixels: RGB, top row first. `png_image_write_to_memory`.
  package static func encode(_ pixels: [UInt8], size: ImageSize) throws -> [UInt8] {
    guard pixels.count == size.width * size.height * 3, !pixels.isEmpty else {
      throw MediaError(call: "PNG", message: "\(pixels.count) bytes are not an RGB picture of \(size)")
    }
    var image = png_image()
    image.version = UInt32(PNG_IMAGE_VERSION)
    image.width = UInt32(size.width)
    image.height = UInt32(size.height)
    image.format = UInt32(PNG_FORMAT_FLAG_COLOR)
    defer { png_image_free(&image) }
    var count = 0
    guard png_image_write_to_memory(&image, nil, &count, 0, pixels, 0, nil) != 0 else { throw failure(image) }
    var output = [UInt8](repeating: 0, count: count)
    guard png_image_write_to_memory(&image, &output, &count, 0, pixels, 0, nil) != 0 else { throw failure(image) }
    return output
  }

  private static func failure(_ image: png_image) -> MediaError {
    withUnsafeBytes(of: image.message) {
      MediaError(call: "PNG", message: String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self))
    }
  }
}
