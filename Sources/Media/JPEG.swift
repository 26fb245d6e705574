import CJPEG
import Foundation
package import Model

/// A failure to decode or encode an image: the call, and the library's message.
package struct MediaError: Error, CustomStringConvertible, Equatable {
  package var call: String
  package var message: String
  package init(call: String, message: String) {
    self.call = call
    self.message = message
  }
  package var description: String { "\(call): \(message)" }
}

/// A decoder of JPEG files to rows of RGB bytes with libjpeg-turbo, with the defaults of libjpeg (accurate IDCT, smooth
/// chroma). EXIF rotation is not applied. One decoder serves one thread and reuses its buffers.
///
///     let full = try JPEGDecoder().decode(file, reduction: 2, into: &pixels)
package final class JPEGDecoder {
  /// The libjpeg-turbo instance of one file: the next one would be decoded with the tables of this one, where it has none of its own, and may
  /// fail as this one did.
  private var handle: tjhandle

  package init() throws {
    guard let handle = tjInitDecompress() else { throw MediaError(call: "tjInitDecompress", message: "out of memory") }
    self.handle = handle
  }

  deinit { tjDestroy(handle) }

  /// The file name of the linked libturbojpeg, as in "libturbojpeg.so.0.2.0"; the library does not report a version.
  package static var library: String {
    let mapped = FileHandle(forReadingAtPath: "/proc/self/maps")?.readDataToEndOfFile() ?? Data()
    let paths = String(decoding: mapped, as: UTF8.self).split(separator: "\n").compactMap { $0.split(separator: "/").last }
    return paths.first { $0.hasPrefix("libturbojpeg") }.map(String.init) ?? "libturbojpeg"
  }

  /// The size that the file's header declares. `tjDecompressHeader3`.
  package func size(of file: UnsafeRawBufferPointer) throws -> ImageSize {
    reset()
    var (width, height, subsampling, colorspace): (Int32, Int32, Int32, Int32) = (0, 0, 0, 0)
    let bytes = try marked(file)
    guard tjDecompressHeader3(handle, bytes, UInt(file.count), &width, &height, &subsampling, &colorspace) == 0 else {
      throw failure("JPEG header")
    }
    guard width > 0, height > 0 else {
      throw MediaError(call: "JPEG header", message: "the file ends before its header gives a size")
    }
    return ImageSize(width: Int(width), height: Int(height))
  }

  /// Replaces `pixels` with the image, RGB, top row first, at 1/`reduction` of its size (the inverse DCT then produces
  /// fewer pixels, each an average). A truncated or damaged file throws; no area is filled with gray. `tjDecompress2`.
  ///
  /// - Parameters:
  ///   - expected: The size that the image must have; an image of another size is not decoded.
  ///   - limit: Images wider or higher than this are refused from the header.
  /// - Returns: The size that the header declares; `pixels` has each side divided by `reduction`, rounded up.
  package func decode(
    _ file: UnsafeRawBufferPointer, reduction: Int = 1, expecting expected: ImageSize? = nil, limit: Int = 8192,
    into pixels: inout [UInt8]
  ) throws -> ImageSize {
    let full = try size(of: file)
    guard full.width <= limit, full.height <= limit else {
      throw MediaError(call: "JPEG header", message: "\(full) is larger than \(limit)x\(limit)")
    }
    if let expected, expected != full { return full }
    let size = Self.reduced(full, by: reduction)
    let count = size.width * size.height * 3
    if pixels.count != count { pixels = [UInt8](repeating: 0, count: count) }
    try checkScans(file)
    let bytes = try marked(file)
    let status = pixels.withUnsafeMutableBufferPointer {
      tjDecompress2(
        handle, bytes, UInt(file.count), $0.baseAddress, Int32(size.width), 0, Int32(size.height),
        Int32(TJPF_RGB.rawValue), TJFLAG_STOPONWARNING)
    }
    guard status == 0 else { throw failure("JPEG data") }
    return full
  }

  /// The most scans that a progressive image may have. Encoders write about ten; each costs a pass over all coefficients, so a small file
  /// with many scans takes seconds.
  package static let scanLimit = 100

  /// Counts the scans of a progressive image by their markers (ITU-T T.81, B.1.1), in one pass over its bytes.
  private func checkScans(_ file: UnsafeRawBufferPointer) throws {
    var (scans, offset) = (0, 2)
    while offset + 4 <= file.count {
      guard file[offset] == 0xFF else {
        // Entropy-coded data: skip to the next marker that is neither stuffing nor a restart.
        guard let start = file.baseAddress, let hit = memchr(start + offset, 0xFF, file.count - offset) else { return }
        offset = UnsafeRawPointer(hit) - start
        if offset + 1 < file.count, file[offset + 1] == 0 || (0xD0...0xD7).contains(file[offset + 1]) { offset += 2 }
        continue
      }
      switch file[offset + 1] {
      case 0xFF: offset += 1
      case 0, 0x01, 0xD0...0xD8: offset += 2
      case 0xD9: return
      // Baseline and extended sequential images have one scan, or one per component.
      case 0xC0, 0xC1: return
      case let marker:
        if marker == 0xDA { scans += 1 }
        if scans > Self.scanLimit { throw MediaError(call: "JPEG header", message: "the image has more than \(Self.scanLimit) scans") }
        offset += 2 + (Int(file[offset + 2]) << 8 | Int(file[offset + 3]))
      }
    }
  }

  /// The size to which an image of size `full` is decoded with this reduction.
  package static func reduced(_ full: ImageSize, by reduction: Int) -> ImageSize {
    ImageSize(
      width: (full.width + reduction - 1) / reduction, height: (full.height + reduction - 1) / reduction)
  }

  /// The greatest of 1, 2, 4 and 8 that still decodes to at least `target`, so that the resize that follows only downscales.
  package static func reduction(from full: ImageSize, covering target: ImageSize) -> Int {
    [8, 4, 2].first {
      let size = reduced(full, by: $0)
      return size.width >= target.width && size.height >= target.height
    } ?? 1
  }

  /// A pointer to the bytes of a file that starts with the JPEG marker.
  private func marked(_ file: UnsafeRawBufferPointer) throws -> UnsafePointer<UInt8> {
    guard file.count > 0, let bytes = file.bindMemory(to: UInt8.self).baseAddress else {
      throw MediaError(call: "JPEG header", message: "the file is empty")
    }
    guard file.count > 3, bytes[0] == 0xFF, bytes[1] == 0xD8, bytes[2] == 0xFF else {
      throw MediaError(call: "JPEG header", message: "the file does not start with a JPEG marker (FF D8 FF)")
    }
    return bytes
  }

  private func failure(_ call: String) -> MediaError {
    MediaError(call: call, message: String(cString: tjGetErrorStr2(handle)))
  }

  private func reset() {
    guard let fresh = tjInitDecompress() else { return }
    tjDestroy(handle)
    handle = fresh
  }
}

/// An encoder of RGB rows as JPEG. One encoder serves one thread.
package final class JPEGEncoder {
  private let handle: tjhandle

  package init() throws {
    guard let handle = tjInitCompress() else { throw MediaError(call: "tjInitCompress", message: "out of memory") }
    self.handle = handle
  }

  deinit { tjDestroy(handle) }

  /// Encodes one image, with full color resolution (4:4:4) above quality 90 and half of it (4:2:0) up to 90. `tjCompress2`.
  ///
  /// - Parameter quality: 1 to 100, on the scale of libjpeg.
  package func encode(_ pixels: [UInt8], size: ImageSize, quality: Int) throws -> [UInt8] {
    guard pixels.count == size.width * size.height * 3 else {
      throw MediaError(call: "tjCompress2", message: "\(pixels.count) bytes are not an RGB image of \(size)")
    }
    var output: UnsafeMutablePointer<UInt8>?
    var count: UInt = 0
    let status = tjCompress2(
      handle, pixels, Int32(size.width), 0, Int32(size.height), Int32(TJPF_RGB.rawValue), &output, &count,
      Int32(quality > 90 ? TJSAMP_444.rawValue : TJSAMP_420.rawValue), Int32(quality), 0)
    defer { tjFree(output) }
    guard status == 0, let output else {
      throw MediaError(call: "tjCompress2", message: String(cString: tjGetErrorStr2(handle)))
    }
    return Array(UnsafeBufferPointer(start: output, count: Int(count)))
  }
}
