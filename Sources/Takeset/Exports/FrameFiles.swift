import Media
import Model

/// How an export stores images that are pixels in the dataset. Images that are stored as JPEG or PNG files keep their bytes.
package enum ImageFileFormat: String, OptionChoice { case png, jpeg }

/// Reads images and depth maps as files for an export. One reader serves one thread.
struct FrameFiles {
  private let stream: SampleStream
  private var cursor: any SampleCursor
  private let format: ImageFileFormat
  private let quality: Int
  private let isStored: Bool
  private let encoder: JPEGEncoder?
  private var bytes: [UInt8] = []

  /// The extension of the files of a stream: `jpg` or `png`.
  static func fileExtension(_ stream: SampleStream, _ format: ImageFileFormat) -> String {
    switch stream.spec.sourceEncoding {
    case .jpeg: "jpg"
    case .png: "png"
    case nil: format == .jpeg ? "jpg" : "png"
    }
  }

  init(images stream: SampleStream, as format: ImageFileFormat, quality: Int) throws {
    isStored = stream.spec.sourceEncoding != nil
    cursor = try stream.source.makeCursor(SampleRequest(form: isStored ? .encoded : .decoded))
    (self.stream, self.format, self.quality) = (stream, format, quality)
    encoder = !isStored && format == .jpeg ? try JPEGEncoder() : nil
  }

  /// The image of a row as a file; `nil` where the row has none.
  mutating func image(_ row: Int) throws -> [UInt8]? {
    guard try read(row) else { return nil }
    if isStored { return bytes }
    return try encoder?.encode(bytes, size: stream.spec.gridSize, quality: quality)
      ?? PNG.encode(bytes, size: stream.spec.gridSize, isFast: true)
  }

  private mutating func read(_ row: Int) throws -> Bool {
    guard let sample = stream.rows?[row]?.nearest else { return false }
    do {
      try cursor.read(sample, into: &bytes)
    } catch is SampleFailure {
      return false
    }
    return true
  }
}

/// Reads depth maps as 16-bit gray PNG files for an export. One reader serves one thread.
struct DepthFiles16 {
  private let stream: SampleStream
  private var cursor: any SampleCursor
  /// Steps per meter: 1000 for millimeters.
  private let scale: Float
  private var bytes: [UInt8] = []
  /// Number of valid values that are too far for 16 bits and became 0.
  private(set) var beyondRange = 0

  init(_ stream: SampleStream, stepsPerMeter scale: Float = 1000) throws {
    (self.stream, self.scale) = (stream, scale)
    cursor = try stream.source.makeCursor(SampleRequest())
  }

  /// The depth map of a row as a PNG, in steps rounded to the nearest, 0 where unknown; `nil` where the row has none.
  mutating func png(_ row: Int) throws -> [UInt8]? {
    guard let values = try steps(row) else { return nil }
    return try PNG.encodeGray(values.withUnsafeBytes { Array($0) }, bits: 16, size: stream.spec.gridSize)
  }

  /// The depth values of a row in steps, row-major; `nil` where the row has none.
  mutating func steps(_ row: Int) throws -> [UInt16]? {
    guard let sample = stream.rows?[row]?.nearest else { return nil }
    do {
      try cursor.read(sample, into: &bytes)
    } catch is SampleFailure {
      return nil
    }
    if stream.spec.type == .uint16, scale == 1000 { return bytes.withUnsafeBytes { Array($0.bindMemory(to: UInt16.self)) } }
    var far = 0
    let steps = stream.spec.meters(bytes).map { meters -> UInt16 in
      let value = (meters * scale).rounded()
      // NaN is not above 0.
      guard value > 0 else { return 0 }
      guard value <= 65535 else {
        far += 1
        return 0
      }
      return UInt16(value)
    }
    beyondRange += far
    return steps
  }
}
