import Evidence
import Media
import Model
import Steps

/// Storage format of a session's depth maps: rows of little-endian numbers, top row first, no header. The app writes Float32 without
/// padding; other writers are known to use half floats and padded rows.
struct DepthFormat: Equatable {
  enum Element: String { case float32, float16 }

  var size: ImageSize
  var element: Element
  var bytesPerRow: Int

  var fileBytes: Int { bytesPerRow * size.height }
  var isUsual: Bool { element == .float32 && bytesPerRow == 4 * size.width }
  var description: String {
    let padding = bytesPerRow - size.width * (element == .float32 ? 4 : 2)
    return "\(size) \(element.rawValue)" + (padding > 0 ? ", rows padded by \(padding) bytes" : "")
  }

  /// Grids that phones make; tried when no declared size fits.
  private static let sizes = [(256, 192), (320, 240), (384, 288), (640, 480), (192, 144), (128, 96)].map {
    ImageSize(width: $0, height: $1)
  }

  /// Formats that a file of this length can be in, the most likely first.
  static func candidates(bytes: Int, declared: ImageSize?) -> [DepthFormat] {
    guard bytes > 0 else { return [] }
    func formats(_ size: ImageSize) -> [DepthFormat] {
      let (full, half) = (4 * size.width, 2 * size.width)
      if bytes == full * size.height { return [DepthFormat(size: size, element: .float32, bytesPerRow: full)] }
      if bytes == half * size.height { return [DepthFormat(size: size, element: .float16, bytesPerRow: half)] }
      guard bytes % size.height == 0 else { return [] }
      let row = bytes / size.height
      // Padding is for alignment; a row twice as long as necessary is another format.
      var found: [DepthFormat] = []
      if row >= full, row <= full + 256, row % 4 == 0 { found.append(DepthFormat(size: size, element: .float32, bytesPerRow: row)) }
      if row >= half, row <= half + 256, row % 2 == 0 { found.append(DepthFormat(size: size, element: .float16, bytesPerRow: row)) }
      return found
    }
    let own = declared.map(formats) ?? []
    return own.isEmpty ? sizes.filter { $0 != declared }.flatMap { formats($0).filter { $0.bytesPerRow % $0.size.width == 0 } } : own
  }

  /// Replaces `bytes`, a file in this format, by rows of Float32 without padding, 0 where there is no depth value.
  func decode(_ bytes: inout [UInt8]) {
    if !isUsual {
      let (width, height) = (size.width, size.height)
      var meters = [UInt8](repeating: 0, count: width * height * 4)
      bytes.withUnsafeBytes { source in
        meters.withUnsafeMutableBytes { target in
          let output = target.bindMemory(to: Float.self)
          for y in 0..<height {
            for x in 0..<width {
              output[y * width + x] =
                element == .float32
                ? source.loadUnaligned(fromByteOffset: y * bytesPerRow + 4 * x, as: Float.self)
                : Float(HalfFloat.value(source.loadUnaligned(fromByteOffset: y * bytesPerRow + 2 * x, as: UInt16.self)))
            }
          }
        }
      }
      bytes = meters
    }
    clearInvalidDepth(in: &bytes)
  }

  /// Whether nearly all depth values of a decoded map are in a phone's measuring range.
  static func isPlausible(_ meters: [UInt8]) -> Bool {
    meters.withUnsafeBytes { bytes in
      let positive = bytes.bindMemory(to: Float.self).filter { $0 > 0 }
      return positive.isEmpty || positive.count { (0.05...20).contains($0) } * 100 >= positive.count * 95
    }
  }
}

/// Depth maps in one file each.
struct DepthFiles: SampleSource {
  let inputs: TakeInputs
  let files: [Int]
  let format: DepthFormat

  /// The format, inferred from the first files: the most frequent size, and the plausibility of the decoded values.
  static func format(of files: [Int], in inputs: TakeInputs, declared: ImageSize?, notes: FindingCollector) throws -> DepthFormat {
    let usual = declared ?? ImageSize(width: 256, height: 192)
    let first = Array(files.prefix(15))
    let sizes = try first.map { try inputs.bytes(of: $0) }
    let counts = Dictionary(sizes.map { ($0, 1) }, uniquingKeysWith: +)
    // Ties go to the size that occurs first.
    guard let bytes = sizes.max(by: { counts[$0, default: 0] < counts[$1, default: 0] }), bytes < 1 << 24,
      let file = zip(first, sizes).first(where: { $1 == bytes })?.0
    else { return DepthFormat(size: usual, element: .float32, bytesPerRow: 4 * usual.width) }
    let candidates = DepthFormat.candidates(bytes: Int(bytes), declared: usual)
    guard let likeliest = candidates.first else { return DepthFormat(size: usual, element: .float32, bytesPerRow: 4 * usual.width) }
    var whole: [UInt8] = []
    try inputs.read(file, limit: 1 << 24, hasher: SHA256(), into: &whole)
    let format =
      candidates.first { candidate in
        var decoded = whole
        guard whole.count == candidate.fileBytes else { return false }
        candidate.decode(&decoded)
        return DepthFormat.isPlausible(decoded)
      } ?? likeliest
    if !format.isUsual || format.size != usual {
      notes.add(
        .depthFormat,
        "depth maps of \(bytes) bytes are decoded as \(format.description)"
          + (declared.map { ", depthResolution says \($0)" } ?? ""), file: inputs.entries[file].path)
    }
    return format
  }

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { [try InputOrigin(inputs: inputs, entry: files[sample])()] }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(files: self) }

  private func failure(_ index: Int, found: Int) -> SampleFailure {
    SampleFailure(
      finding: Finding(
        .depthWrongSize, "\(found) bytes; expected \(format.fileBytes) for \(format.description)",
        file: inputs.entries[files[index]].path))
  }

  private final class Cursor: SampleCursor {
    let files: DepthFiles
    let hasher = SHA256()
    var size: ImageSize? { nil }

    init(files: DepthFiles) { self.files = files }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try files.inputs.readSample(files.files[index], limit: 1 << 26, hasher: hasher, as: .depthUndecodable, into: &bytes)
      guard bytes.count == files.format.fileBytes else { throw files.failure(index, found: bytes.count) }
      files.format.decode(&bytes)
    }
  }
}
