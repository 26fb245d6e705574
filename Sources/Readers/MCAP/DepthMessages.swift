import Evidence
import Media
import Model

/// Depth maps in whole millimeters, each a gray PNG of 16 bits in a message.
struct DepthMessages: SampleSource {
  private let samples: MessageSamples
  let size: ImageSize

  /// Throws `TakeFailure` where none of the first can be decoded.
  init(_ samples: MessageSamples) throws {
    self.samples = samples
    var bytes: [UInt8] = []
    var first: Finding?
    for sample in 0..<min(samples.count, samples.count / 5 + 1) {
      do {
        try samples.read(sample, hasher: SHA256(), as: .depthUndecodable, into: &bytes)
        let found = try bytes.withUnsafeBytes { try PNG.graySize(of: $0, bits: 16) }
        guard max(found.width, found.height) <= GrayPNGFiles.sideLimit else {
          throw TakeFailure(.limit, "the depth maps are \(found), over the limit of \(GrayPNGFiles.sideLimit)x\(GrayPNGFiles.sideLimit)")
        }
        size = found
        return
      } catch let failure as SampleFailure {
        first = first ?? failure.finding
      } catch let error as MediaError {
        let place = samples.place(of: sample)
        first = first ?? Finding(.depthUndecodable, "\(error)", file: place.file, field: place.field)
      }
    }
    throw TakeFailure(.depthUndecodable, "none of the first depth maps can be decoded: \(first?.message ?? "")", file: first?.file)
  }

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { [try samples.origin(of: sample)] }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(samples: samples, grid: size) }

  private final class Cursor: SampleCursor {
    private let samples: MessageSamples
    private let grid: ImageSize
    private let hasher = SHA256()
    private var file: [UInt8] = []
    var size: ImageSize? { nil }

    init(samples: MessageSamples, grid: ImageSize) { (self.samples, self.grid) = (samples, grid) }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try samples.read(index, hasher: hasher, as: .depthUndecodable, into: &file)
      do {
        try file.withUnsafeBytes { try PNG.decodeGray($0, bits: 16, size: grid, into: &bytes) }
      } catch let error as MediaError {
        let place = samples.place(of: index)
        throw SampleFailure(
          finding: Finding(.depthUndecodable, "\(error)", severity: .warning, file: place.file, field: place.field))
      }
    }
  }
}
