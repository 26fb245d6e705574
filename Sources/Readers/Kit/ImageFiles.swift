import Evidence
import Media
import Model
import Steps

/// The places of encoded samples: files of the take, or parts of one. Any thread may read.
protocol SampleBytes: Sendable {
  var count: Int { get }
  /// Whether all are JPEG images, as far as their names or formats say.
  var areJPEG: Bool { get }
  /// The file of a sample, and the place in it, for messages.
  func place(of sample: Int) -> (file: String, field: String?)
  /// Replaces `bytes` by a sample. Throws `SampleFailure` with this code where only the sample is unavailable.
  func read(_ sample: Int, hasher: SHA256, as code: FindingCode, into bytes: inout [UInt8]) throws
  func origin(of sample: Int) throws -> SampleOrigin
}

/// Files of a take, each a sample.
struct FileSamples: SampleBytes {
  let inputs: TakeInputs
  /// Entries of `inputs`.
  let entries: [Int]

  var count: Int { entries.count }
  var areJPEG: Bool { !entries.contains { inputs.entries[$0].path.lowercased().hasSuffix(".png") } }
  func place(of sample: Int) -> (file: String, field: String?) { (inputs.entries[entries[sample]].path, nil) }

  func read(_ sample: Int, hasher: SHA256, as code: FindingCode, into bytes: inout [UInt8]) throws {
    try inputs.readSample(entries[sample], limit: ImageFiles.byteLimit, hasher: hasher, as: code, into: &bytes)
  }

  func origin(of sample: Int) throws -> SampleOrigin { try InputOrigin(inputs: inputs, entry: entries[sample])() }
}

/// Color images of one size, each a JPEG or a PNG by its first bytes.
struct ImageFiles: SampleSource {
  /// Byte limit that even an image of the greatest allowed size stays below.
  static let byteLimit = 1 << 28

  let samples: any SampleBytes
  /// Image size, according to the headers.
  let size: ImageSize
  /// Longest side that is decoded, in pixels.
  let limit: Int
  /// Whether encoded images keep what they say beside the pixels: places, names, serial numbers.
  var keepsMetadata = false

  var access: SampleAccess { .random }

  /// `jpeg` where all are.
  var encoding: StreamSpec.ImageEncoding? { samples.areJPEG ? .jpeg : nil }

  func origins(of sample: Int) throws -> [SampleOrigin] { [try samples.origin(of: sample)] }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor { try Cursor(source: self, request) }

  /// Size of the first image that can be decoded; an image of another size fails the take later. Throws when so many of the first images
  /// cannot be decoded that the take fails anyway.
  static func size(of samples: any SampleBytes, limit: Int) throws -> ImageSize {
    let decoder = try ImageDecoder()
    var bytes: [UInt8] = [], pixels: [UInt8] = []
    var first: TakeFailure?
    for sample in 0..<min(samples.count, samples.count / 5 + 1) {
      let place = samples.place(of: sample)
      do {
        try samples.read(sample, hasher: SHA256(), as: .imageUndecodable, into: &bytes)
        return try bytes.withUnsafeBytes { bytes in
          let size = try decoder.size(of: bytes)
          guard max(size.width, size.height) <= limit else {
            first =
              first
              ?? TakeFailure(
                .limit, "the image is \(size), over the limit of \(limit)x\(limit)", file: place.file, field: place.field)
            throw MediaError(call: "image header", message: "\(size) is over the limit of \(limit)x\(limit)")
          }
          // A damaged header can claim any size; an image that decodes is intact.
          _ = try decoder.decode(bytes, reduction: 8, expecting: size, limit: limit, into: &pixels)
          return size
        }
      } catch let failure as SampleFailure {
        first = first ?? .tooManyUndecodable(of: samples.count, first: failure.finding)
      } catch let error as MediaError {
        first =
          first
          ?? .tooManyUndecodable(
            of: samples.count, first: Finding(.imageUndecodable, "\(error)", file: place.file, field: place.field))
      }
    }
    throw first ?? TakeFailure(.noFrames, "no image has a pose with its number")
  }

  private final class Cursor: SampleCursor {
    private let source: ImageFiles
    private let form: SampleRequest.Form
    private let reduction: Int
    private let decoder: ImageDecoder
    private let hasher = SHA256()
    private var file: [UInt8] = []
    private var pixels: [UInt8] = []
    private(set) var notes: [Finding] = []

    init(source: ImageFiles, _ request: SampleRequest) throws {
      (self.source, form) = (source, request.form)
      // The decoder reads all of the data at any reduction, which is sufficient for a check. PNG files are only decoded whole.
      let enough = form == .decoded ? request.minimumSize ?? source.size : ImageSize(width: 1, height: 1)
      reduction = source.encoding == nil ? 1 : JPEGDecoder.reduction(from: source.size, covering: enough)
      decoder = try ImageDecoder()
    }

    var size: ImageSize? { form == .encoded ? nil : JPEGDecoder.reduced(source.size, by: reduction) }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let place = source.samples.place(of: index)
      notes = []
      try source.samples.read(index, hasher: hasher, as: .imageUndecodable, into: &file)
      do {
        if form == .decoded { try decode(into: &bytes, place) } else { try decode(into: &pixels, place) }
        if form == .encoded, ImageDecoder.isPNG(file) {
          throw MediaError(call: "JPEG", message: "the file is a PNG image, whose name says JPEG")
        }
      } catch let error as MediaError {
        throw SampleFailure(finding: Finding(.imageUndecodable, "\(error)", file: place.file, field: place.field))
      }
      noteMetadata(place.file)
      guard form == .encoded else { return }
      if !source.keepsMetadata { JPEGMetadata.remove(from: &file) }
      swap(&file, &bytes)
    }

    private func decode(into pixels: inout [UInt8], _ place: (file: String, field: String?)) throws {
      let image = try file.withUnsafeBytes { file in
        let found = try decoder.decode(file, reduction: reduction, expecting: source.size, limit: source.limit, into: &pixels)
        if found.size != source.size {
          // It belongs to another take, or, where only its header differs, is damaged.
          _ = try decoder.decode(file, reduction: 8, expecting: found.size, limit: source.limit, into: &pixels)
          throw TakeFailure(
            .imageSizeChanged, "the image is \(found.size), the take's first is \(source.size)", file: place.file, field: place.field)
        }
        return found
      }
      if image.isTransparent {
        notes.append(
          Finding(.imageTransparent, "the image has transparent pixels; they are stored as on a black background", file: place.file))
      }
    }

    private func noteMetadata(_ path: String) {
      if ImageDecoder.isPNG(file) { return }
      if let orientation = JPEGMetadata.orientation(of: file), orientation != 1 {
        notes.append(Finding(.exifRotation, "the EXIF orientation is \(orientation); images are stored as coded", file: path))
      }
      if !source.keepsMetadata, JPEGMetadata.hasLocation(file) { notes.append(.locationRemoved(file: path)) }
    }
  }
}

/// A decoder of JPEG and PNG files. One decoder serves one thread.
private struct ImageDecoder {
  private let jpeg: JPEGDecoder

  init() throws { jpeg = try JPEGDecoder() }

  static func isPNG(_ file: some Sequence<UInt8>) -> Bool { file.starts(with: PNG.signature) }

  func size(of file: UnsafeRawBufferPointer) throws -> ImageSize {
    try Self.isPNG(file) ? PNG.size(of: file) : jpeg.size(of: file)
  }

  /// Replaces `pixels` with the image, at 1/`reduction` of its size, unless it has another one than expected.
  func decode(
    _ file: UnsafeRawBufferPointer, reduction: Int, expecting expected: ImageSize, limit: Int, into pixels: inout [UInt8]
  ) throws -> (size: ImageSize, isTransparent: Bool) {
    guard Self.isPNG(file) else {
      return (try jpeg.decode(file, reduction: reduction, expecting: expected, limit: limit, into: &pixels), false)
    }
    let size = try PNG.size(of: file)
    guard size == expected else { return (size, false) }
    let isTransparent = try PNG.decode(file, size: size, into: &pixels)
    if reduction > 1 {
      var reduced: [UInt8] = []
      ImageResizer(from: size, to: JPEGDecoder.reduced(size, by: reduction)).resize(pixels, into: &reduced)
      swap(&reduced, &pixels)
    }
    return (size, isTransparent)
  }
}
