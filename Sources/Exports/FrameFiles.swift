import Media
import Model
import Steps

/// The file format in which an export stores images that are pixels in the dataset. Images that are stored as JPEG or PNG files keep their
/// bytes.
package enum ImageFileFormat: String, OptionChoice { case png, jpeg }

/// Reads images as files for an export. One reader serves one thread.
struct FrameFiles {
  private var reader: RasterReader
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

  init(_ name: StreamName, of episode: ExportedEpisode, as format: ImageFileFormat, quality: Int) throws {
    isStored = episode.episode.streams[name]?.spec.sourceEncoding != nil
    reader = try RasterReader(name, of: episode, isEncoded: isStored)
    self.quality = quality
    encoder = !isStored && format == .jpeg ? try JPEGEncoder() : nil
  }

  /// The image of a row as a file; `nil` where the row has none.
  mutating func image(_ row: Int) throws -> [UInt8]? {
    guard try reader.read(row, into: &bytes) else { return nil }
    if isStored { return bytes }
    let size = reader.stream.spec.gridSize
    return try encoder?.encode(bytes, size: size, quality: quality) ?? PNG.encode(bytes, size: size, isFast: true)
  }
}

/// Reads depth maps in whole millimeters for an export. One reader serves one thread.
struct DepthMillimeters {
  private var reader: RasterReader
  private var bytes: [UInt8] = []
  /// Number of valid values that are too far for 16 bits and became 0.
  private(set) var beyondRange = 0

  init(_ name: StreamName, of episode: ExportedEpisode) throws { reader = try RasterReader(name, of: episode) }

  /// The depth map of a row as a 16-bit gray PNG; `nil` where the row has none.
  mutating func png(_ row: Int) throws -> [UInt8]? {
    guard let values = try values(row) else { return nil }
    return try PNG.encodeGray(values.withUnsafeBytes { Array($0) }, bits: 16, size: reader.stream.spec.gridSize)
  }

  /// The depth values of a row, row-major, rounded to the nearest, 0 where unknown; `nil` where the row has none.
  mutating func values(_ row: Int) throws -> [UInt16]? {
    guard try reader.read(row, into: &bytes) else { return nil }
    let spec = reader.stream.spec
    if spec.type == .uint16 { return bytes.withUnsafeBytes { Array($0.bindMemory(to: UInt16.self)) } }
    var far = 0
    let values = spec.meters(bytes).map { meters -> UInt16 in
      let value = (meters * 1000).rounded()
      // NaN is not above 0.
      guard value > 0 else { return 0 }
      guard value <= 65535 else {
        far += 1
        return 0
      }
      return UInt16(value)
    }
    beyondRange += far
    return values
  }
}
