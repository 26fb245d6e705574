import Evidence
import Media
import Model
import Steps

/// Gray PNG files of one size: depth maps in whole millimeters (16 bits), or the confidence of each depth value (8 bits).
struct GrayPNGFiles: SampleSource {
  enum Content {
    case depth, confidence

    var bits: Int { self == .depth ? 16 : 8 }
    var undecodable: FindingCode { self == .depth ? .depthUndecodable : .confidenceUndecodable }
  }

  /// Byte limit that every allowed grid stays below.
  private static let byteLimit = 1 << 25
  /// Longest side of depth maps, in pixels: that of images to which some programs enlarge them.
  static let sideLimit = 2048
  /// Number of confidence levels: low, medium, high.
  private static let levels: UInt8 = 3

  let inputs: TakeInputs
  /// Entries of `inputs`; `nil` where the file is missing.
  let files: [Int?]
  let content: Content
  let size: ImageSize

  /// The most frequent size in the headers of the first files that have one, ties going to the size that occurs first; `nil` where no file has.
  /// And what is wrong with the first file that has none.
  static func size(of files: [Int], in inputs: TakeInputs, _ content: Content) throws -> (ImageSize?, wrong: Finding?) {
    var bytes: [UInt8] = []
    var found: [(size: ImageSize, count: Int)] = []
    var wrong: Finding?
    for file in files where found.reduce(0, { $0 + $1.count }) < 15 {
      do {
        try inputs.readSample(file, limit: byteLimit, hasher: SHA256(), as: content.undecodable, into: &bytes)
        let size = try bytes.withUnsafeBytes { try PNG.graySize(of: $0, bits: content.bits) }
        if let known = found.firstIndex(where: { $0.size == size }) { found[known].count += 1 } else { found.append((size, 1)) }
      } catch let failure as SampleFailure {
        wrong = wrong ?? failure.finding
      } catch let error as MediaError {
        wrong = wrong ?? Finding(content.undecodable, "\(error)", severity: .warning, file: inputs.entries[file].path)
      }
    }
    guard let most = found.map(\.count).max(), let size = found.first(where: { $0.count == most })?.size else { return (nil, wrong) }
    return (size, wrong)
  }

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { try files[sample].map { [try InputOrigin(inputs: inputs, entry: $0)()] } ?? [] }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private final class Cursor: SampleCursor {
    let source: GrayPNGFiles
    let hasher = SHA256()
    var file: [UInt8] = []
    var size: ImageSize? { nil }

    init(source: GrayPNGFiles) { self.source = source }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let content = source.content
      guard let entry = source.files[index] else {
        throw SampleFailure(finding: Finding(.confidenceMissing, "depth maps without a file of their number in confidence/"))
      }
      try source.inputs.readSample(entry, limit: GrayPNGFiles.byteLimit, hasher: hasher, as: content.undecodable, into: &file)
      func failure(_ message: String) -> SampleFailure {
        SampleFailure(finding: Finding(content.undecodable, message, severity: .warning, file: source.inputs.entries[entry].path))
      }
      do {
        try file.withUnsafeBytes { try PNG.decodeGray($0, bits: content.bits, size: source.size, into: &bytes) }
      } catch let error as MediaError {
        throw failure("\(error)")
      }
      if content == .confidence, let invalid = bytes.first(where: { $0 >= GrayPNGFiles.levels }) {
        throw failure("a confidence is \(invalid); expected 0, 1 or 2")
      }
    }
  }
}
