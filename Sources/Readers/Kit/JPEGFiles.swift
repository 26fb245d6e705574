import Evidence
import Media
import Model
import Steps

/// JPEG files of one size.
struct JPEGFiles: SampleSource {
  /// Byte limit that even an image of the greatest allowed size stays below.
  static let byteLimit = 1 << 28

  let inputs: TakeInputs
  /// Entries of `inputs`.
  let entries: [Int]
  /// Image size, according to the headers.
  let size: ImageSize
  /// Longest side that is decoded, in pixels.
  let limit: Int
  /// Whether encoded images keep what they say beside the pixels: places, names, serial numbers.
  var keepsMetadata = false

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { [try InputOrigin(inputs: inputs, entry: entries[sample])()] }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    // The decoder reads all of the data at any reduction, which is sufficient for a check.
    let enough = request.form == .check ? ImageSize(width: 1, height: 1) : request.enough ?? size
    return try Cursor(
      source: self, isEncoded: request.form == .encoded, reduction: JPEGDecoder.reduction(from: size, covering: enough))
  }

  /// Size of the first image that can be decoded; an image of another size fails the take later. Throws when so many of the first images
  /// cannot be decoded that the take fails anyway.
  static func size(of files: [Int], in inputs: TakeInputs, limit: Int, keepsLocation: Bool, notes: FindingCollector) throws -> ImageSize {
    let decoder = try JPEGDecoder()
    var bytes: [UInt8] = [], pixels: [UInt8] = []
    var first: TakeFailure?
    for file in files.prefix(files.count / 5 + 1) {
      let path = inputs.entries[file].path
      do {
        try inputs.readSample(file, limit: byteLimit, hasher: SHA256(), as: .imageUndecodable, into: &bytes)
        let size = try bytes.withUnsafeBytes { bytes in
          let size = try decoder.size(of: bytes)
          guard max(size.width, size.height) <= limit else {
            first = first ?? TakeFailure(.limit, "the image is \(size), over the limit of \(limit)x\(limit)", file: path)
            throw MediaError(call: "JPEG header", message: "\(size) is over the limit of \(limit)x\(limit)")
          }
          // A damaged header can claim any size; an image that decodes is intact.
          _ = try decoder.decode(bytes, reduction: 8, limit: limit, into: &pixels)
          return size
        }
        if let orientation = JPEGMetadata.orientation(of: bytes), orientation != 1 {
          notes.add(.exifRotation, "the EXIF orientation is \(orientation), at least in this image; images are stored as coded", file: path)
        }
        if !keepsLocation, JPEGMetadata.hasLocation(bytes) { notes.add(.locationRemoved(file: path)) }
        return size
      } catch let failure as SampleFailure {
        first = first ?? .tooManyUndecodable(of: files.count, first: failure.finding)
      } catch let error as MediaError {
        first = first ?? .tooManyUndecodable(of: files.count, first: Finding(.imageUndecodable, "\(error)", file: path))
      }
    }
    throw first ?? TakeFailure(.noFrames, "no image has a pose with its number")
  }

  private final class Cursor: SampleCursor {
    private let source: JPEGFiles
    private let isEncoded: Bool
    private let reduction: Int
    private let decoder: JPEGDecoder
    private let hasher = SHA256()
    private var file: [UInt8] = []

    init(source: JPEGFiles, isEncoded: Bool, reduction: Int) throws {
      (self.source, self.isEncoded, self.reduction) = (source, isEncoded, reduction)
      decoder = try JPEGDecoder()
    }

    var size: ImageSize? { isEncoded ? nil : JPEGDecoder.reduced(source.size, by: reduction) }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      if isEncoded {
        try load(index, into: &bytes)
        if !source.keepsMetadata { JPEGMetadata.remove(from: &bytes) }
        try bytes.withUnsafeBytes { try checkComplete($0, index) }
      } else {
        try load(index, into: &file)
        try decoding(index) {
          try file.withUnsafeBytes { file in
            let found = try decoder.decode(file, reduction: reduction, expecting: source.size, limit: source.limit, into: &bytes)
            if found != source.size { try refuse(found, file, index) }
          }
        }
      }
    }

    private func load(_ index: Int, into bytes: inout [UInt8]) throws {
      try source.inputs.readSample(source.entries[index], limit: JPEGFiles.byteLimit, hasher: hasher, as: .imageUndecodable, into: &bytes)
    }

    private func checkComplete(_ file: UnsafeRawBufferPointer, _ index: Int) throws {
      try decoding(index) {
        let found = try decoder.size(of: file)
        if found != source.size { try refuse(found, file, index) }
        // Some encoders pad after the end marker; a cut file has none in its last bytes.
        let tail = file.suffix(JPEGMetadata.padding + 2)
        if !zip(tail, tail.dropFirst()).contains(where: { $0 == 0xFF && $1 == 0xD9 }) {
          throw MediaError(call: "JPEG data", message: "the file ends before its end marker (FF D9)")
        }
      }
    }

    /// Throws for an image of another size: it belongs to another take, or, where only its header differs, is damaged.
    private func refuse(_ found: ImageSize, _ file: UnsafeRawBufferPointer, _ index: Int) throws {
      var pixels: [UInt8] = []
      _ = try decoder.decode(file, reduction: 8, expecting: found, limit: source.limit, into: &pixels)
      throw TakeFailure(
        .imageSizeChanged, "the image is \(found), the session's first is \(source.size)",
        file: source.inputs.entries[source.entries[index]].path)
    }

    private func decoding(_ index: Int, _ body: () throws -> Void) throws {
      do {
        try body()
      } catch let error as MediaError {
        let path = source.inputs.entries[source.entries[index]].path
        throw SampleFailure(finding: Finding(.imageUndecodable, "\(error)", file: path))
      }
    }
  }
}
