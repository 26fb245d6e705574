import Evidence
import Media
import Model
import Steps

/// Color images of one size in PNG files.
struct PNGImages: SampleSource {
  let inputs: TakeInputs
  /// Entries of `inputs`.
  let entries: [Int]
  let size: ImageSize

  /// - Parameter limit: Longest side that is decoded, in pixels.
  /// - Throws: `TakeFailure` when so many of the first images cannot be decoded that the take fails anyway, or when one is larger.
  init(inputs: TakeInputs, entries: [Int], limit: Int) throws {
    (self.inputs, self.entries) = (inputs, entries)
    var bytes: [UInt8] = [], pixels: [UInt8] = []
    var first: Finding?
    for file in entries.prefix(entries.count / 5 + 1) {
      let path = inputs.entries[file].path
      do {
        try inputs.readSample(file, limit: JPEGFiles.byteLimit, hasher: SHA256(), as: .imageUndecodable, into: &bytes)
        let size = try bytes.withUnsafeBytes { try PNG.size(of: $0) }
        guard max(size.width, size.height) <= limit else {
          throw TakeFailure(.limit, "the image is \(size), over the limit of \(limit)x\(limit)", file: path)
        }
        // A damaged header can claim any size; an image that decodes is intact.
        try bytes.withUnsafeBytes { try PNG.decode($0, size: size, into: &pixels) }
        self.size = size
        return
      } catch let failure as SampleFailure {
        first = first ?? failure.finding
      } catch let error as MediaError {
        first = first ?? Finding(.imageUndecodable, "\(error)", file: path)
      }
    }
    guard let first else { throw TakeFailure(.noFrames, "no image has a pose with its number") }
    throw TakeFailure.tooManyUndecodable(of: entries.count, first: first)
  }

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { [try InputOrigin(inputs: inputs, entry: entries[sample])()] }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private final class Cursor: SampleCursor {
    let source: PNGImages
    let hasher = SHA256()
    var file: [UInt8] = []
    var size: ImageSize? { source.size }

    init(source: PNGImages) { self.source = source }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let entry = source.entries[index]
      let path = source.inputs.entries[entry].path
      try source.inputs.readSample(entry, limit: JPEGFiles.byteLimit, hasher: hasher, as: .imageUndecodable, into: &file)
      do {
        try file.withUnsafeBytes { file in
          let found = try PNG.size(of: file)
          guard found == source.size else {
            throw TakeFailure(.imageSizeChanged, "the image is \(found), the take's first is \(source.size)", file: path)
          }
          try PNG.decode(file, size: found, into: &bytes)
        }
      } catch let error as MediaError {
        throw SampleFailure(finding: Finding(.imageUndecodable, "\(error)", file: path))
      }
    }
  }
}
