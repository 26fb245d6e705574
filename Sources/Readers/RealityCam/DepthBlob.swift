import Evidence
import Media
import Model
import Steps

/// The depth part of a bundle: consecutive keyframes of little-endian Float32 meters, top row first, in whichever container the sender
/// chose. Names and MIME types are not trusted.
///
/// - Containers: gzip, zlib, raw deflate (which Apple's COMPRESSION_ZLIB makes), none.
/// - Layouts: RLDP (magic, version 1, count, size, an index of times and offsets), or headerless, whose size follows from the number
///   of keyframes.
struct DepthBlob: Sendable {
  enum Layout: String, Sendable { case rldp, headerless }

  let container: Inflater.Container
  let layout: Layout
  let size: ImageSize
  /// Offset of each keyframe, in inflated bytes.
  let offsets: [Int64]
  /// Seconds since the video's first sample, where the layout has them.
  let seconds: [Double]?
  let inflatedBytes: Int64
  let inflatedDigest: Digest
  private(set) var findings: [Finding] = []

  var keyframes: Int { offsets.count }
  var keyframeBytes: Int { size.width * size.height * 4 }

  static let keyframeLimit = 200
  private static let sideLimit = 1000
  /// Depth map sizes that phones make, by number of pixels.
  private static let sizes: [Int: ImageSize] = Dictionary(
    uniqueKeysWithValues: [(256, 192), (320, 240), (384, 288), (640, 480)].map { ($0.0 * $0.1, ImageSize(width: $0.0, height: $0.1)) })
  /// Greatest size of headerless keyframes, in bytes.
  private static let headerlessLimit = Int64(keyframeLimit * 640 * 480 * 4)

  struct Undecodable: Error {
    var code: FindingCode
    var message: String
    init(_ message: String, code: FindingCode = .depthUndecodable) {
      self.code = code
      self.message = message
    }
  }

  /// Detects container and layout, and reads the part once to its end.
  ///
  /// - Parameter claimed: Number of keyframes according to the metadata.
  /// - Throws: `Undecodable`, or `FileSlice.Failure`.
  init(_ slice: FileSlice, claimed: Int64?, file: String) throws {
    let start = try slice.bytes(0..<4)
    var candidates: [Inflater.Container] = []
    if start.starts(with: [0x1F, 0x8B, 0x08]) {
      candidates = [.gzip]
    } else if start == Array("RLDP".utf8) {
      candidates = [.none]
    } else {
      if start.count >= 2, start[0] & 15 == 8, start[0] >> 4 <= 7, (Int(start[0]) << 8 | Int(start[1])) % 31 == 0 {
        candidates.append(.zlib)
      }
      candidates += [.deflate, .none]
    }
    var reasons: [String] = []
    for container in candidates {
      do {
        self = try DepthBlob(slice, container, claimed, file)
        return
      } catch let error as Undecodable {
        if error.code == .limit { throw error }
        reasons.append("as \(container == .none ? "uncompressed" : container.rawValue): \(error.message)")
      } catch let error as Inflater.Damaged {
        reasons.append("as \(container.rawValue): \(error.message)")
      }
    }
    throw Undecodable("the \(slice.count) bytes cannot be read; " + reasons.joined(separator: "; "))
  }

  private init(_ slice: FileSlice, _ container: Inflater.Container, _ claimed: Int64?, _ file: String) throws {
    let inflater = try Inflater(slice, container)
    let hasher = SHA256()
    var scan = Scan(limit: Self.headerlessLimit)
    try withBuffer(of: 1 << 16) { buffer in
      while true {
        let count = try inflater.read(into: buffer)
        if count == 0 { break }
        let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        hasher.update(piece)
        try scan.take(piece)
        if inflater.position > scan.limit {
          throw Undecodable("it inflates to more than the \(scan.limit) bytes that its keyframes can take", code: .limit)
        }
      }
    }
    self.container = container
    inflatedBytes = inflater.position
    inflatedDigest = hasher.finish()
    if let index = scan.index {
      guard Int64(index.end) <= inflatedBytes else {
        throw Undecodable(
          "its \(index.offsets.count) keyframes of \(index.size) should end at byte \(index.end), the inflated data has \(inflatedBytes)")
      }
      layout = .rldp
      size = index.size
      offsets = index.offsets
      seconds = index.seconds
      if let claimed, claimed != Int64(index.offsets.count) {
        findings.append(Self.mismatch("the depth part has \(index.offsets.count) keyframes, the metadata say \(claimed)", file))
      }
      if !index.isOrdered {
        findings.append(Finding(.depthTimesUnordered, "times in the depth index do not ascend; they are not used", file: file))
      }
    } else {
      if scan.isCutHeader { throw Undecodable("it ends within its RLDP header, after \(inflatedBytes) bytes") }
      let (count, size, isAssumed) = try Self.headerless(inflatedBytes, claimed)
      layout = .headerless
      self.size = size
      offsets = (0..<count).map { Int64($0) * Int64(size.width * size.height * 4) }
      seconds = nil
      if isAssumed {
        let says = claimed.map { "the metadata say \($0), which does not divide them" } ?? "their number is not given"
        findings.append(
          Self.mismatch("the \(inflatedBytes) bytes of depth are read as \(count) keyframes of \(size); \(says)", file))
      }
    }
    // Reading keyframes out of order restarts from the beginning each time.
    let descents = zip(offsets, offsets.dropFirst()).count { $1 < $0 + Int64(size.width * size.height * 4) }
    guard Int64(descents) * inflatedBytes <= 4 << 30 else {
      throw Undecodable("the offsets of its keyframes do not ascend")
    }
    if inflater.trailingBytes > 0 {
      findings.append(
        Finding(.depthTrailingBytes, "\(inflater.trailingBytes) bytes follow the compressed data", file: file))
    }
    if inflater.members > 1 {
      findings.append(Finding(.depthSeveralMembers, "the gzip file has \(inflater.members) members", file: file))
    }
  }

  private static func mismatch(_ message: String, _ file: String) -> Finding {
    Finding(.depthCountMismatch, message, file: file)
  }

  private static func headerless(_ bytes: Int64, _ claimed: Int64?) throws -> (count: Int, size: ImageSize, isAssumed: Bool) {
    if let claimed, (1...Int64(keyframeLimit)).contains(claimed), bytes % (claimed * 4) == 0 {
      guard let size = sizes[Int(bytes / claimed / 4)] else {
        throw Undecodable(
          "\(bytes) bytes without a header are \(bytes / claimed / 4) pixels for each of \(claimed) keyframes, a size that no phone makes")
      }
      return (Int(claimed), size, false)
    }
    let usual = ImageSize(width: 256, height: 192)
    let usualBytes = Int64(usual.width * usual.height * 4)
    let count = bytes / usualBytes
    guard bytes % usualBytes == 0, count > 0 else {
      let says = claimed.map { "\($0) keyframes" } ?? "whole keyframes of \(usual)"
      throw Undecodable("\(bytes) bytes without a header are not \(says) of Float32 in a size that phones make")
    }
    guard count <= Int64(keyframeLimit) else {
      throw Undecodable("\(count) keyframes are over the limit of \(keyframeLimit)", code: .limit)
    }
    return (Int(count), usual, true)
  }

  /// Reads the header of the RLDP layout as bytes pass through.
  private struct Scan {
    struct Index {
      var size: ImageSize
      var offsets: [Int64]
      var seconds: [Double]?
      var end: Int64
      var isOrdered = true
    }

    private var header: [UInt8] = []
    private var wanted = 16
    private var isHeaderless = false
    private(set) var index: Index?
    /// Greatest number of bytes allowed so far.
    private(set) var limit: Int64

    init(limit: Int64) { self.limit = limit }

    var isCutHeader: Bool { !isHeaderless && header.count >= 4 && index == nil }

    mutating func take(_ piece: UnsafeRawBufferPointer) throws {
      var rest = piece[...]
      while !isHeaderless, index == nil, !rest.isEmpty {
        let taken = rest.prefix(wanted - header.count)
        header += taken
        rest = rest.dropFirst(taken.count)
        if header.count >= 4, header[..<4] != ArraySlice("RLDP".utf8) {
          isHeaderless = true
          header = []
        } else if header.count == wanted {
          if wanted == 16 { try readHeader() } else { try readIndex() }
        }
      }
    }

    private func number<T: FixedWidthInteger>(_ type: T.Type, at offset: Int) -> T {
      header.withUnsafeBytes { T(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: T.self)) }
    }

    private mutating func readHeader() throws {
      let version = number(UInt32.self, at: 4), count = number(UInt32.self, at: 8)
      let width = number(UInt16.self, at: 12), height = number(UInt16.self, at: 14)
      guard version == 1 else { throw Undecodable("the RLDP header says version \(version), expected 1") }
      guard count > 0 else { throw Undecodable("the RLDP header says 0 keyframes") }
      guard width > 0, height > 0 else { throw Undecodable("the RLDP header says keyframes of \(width)x\(height)") }
      guard count <= DepthBlob.keyframeLimit else {
        throw Undecodable("the RLDP header says \(count) keyframes, over the limit of \(DepthBlob.keyframeLimit)", code: .limit)
      }
      guard width <= DepthBlob.sideLimit, height <= DepthBlob.sideLimit else {
        let limit = "\(DepthBlob.sideLimit)x\(DepthBlob.sideLimit)"
        throw Undecodable("the RLDP header says keyframes of \(width)x\(height), over the limit of \(limit)", code: .limit)
      }
      wanted = 16 + 12 * Int(count)
    }

    private mutating func readIndex() throws {
      let count = (wanted - 16) / 12
      let size = ImageSize(width: Int(number(UInt16.self, at: 12)), height: Int(number(UInt16.self, at: 14)))
      let offsets = (0..<count).map { Int64(wanted) + Int64(number(UInt32.self, at: 16 + 12 * $0 + 8)) }
      let seconds = (0..<count).map { Double(bitPattern: number(UInt64.self, at: 16 + 12 * $0)) }
      let isOrdered =
        seconds.allSatisfy { $0.isFinite && $0 >= 0 && $0 < 1e6 } && zip(seconds, seconds.dropFirst()).allSatisfy { $0 < $1 }
      let end = (offsets.max() ?? 0) + Int64(size.width * size.height * 4)
      // A small gap between maps and after the last one is tolerated; more than that is not depth.
      let room: Int64 = 1 << 20
      guard end <= Int64(wanted) + Int64(count * size.width * size.height * 4) + room else {
        throw Undecodable("its index places a keyframe at byte \(offsets.max() ?? 0), far after the end of \(count) keyframes")
      }
      index = Index(size: size, offsets: offsets, seconds: isOrdered ? seconds : nil, end: end, isOrdered: isOrdered)
      limit = end + room
    }
  }
}

/// The keyframes of a depth part, inflated in order. Values that are not finite or not positive become 0, which means none.
struct DepthKeyframes: SampleSource {
  let keyframes: ForwardPrefetcher<DepthReader>
  private let blob: DepthBlob
  /// The depth part's place among the inputs.
  private let place: InputOrigin?

  init(_ blob: DepthBlob, _ slice: FileSlice, file: String, place: InputOrigin? = nil) {
    (self.blob, self.place) = (blob, place)
    keyframes = ForwardPrefetcher(sampleBytes: blob.keyframeBytes) { DepthReader(blob: blob, slice: slice, file: file) }
  }

  var access: SampleAccess { .forward(keyframes) }

  func origins(of sample: Int) throws -> [SampleOrigin] {
    guard var origin = try place?() else { return [] }
    origin.compression = blob.container == .none ? nil : blob.container.rawValue
    origin.range = blob.offsets[sample]..<(blob.offsets[sample] + Int64(blob.keyframeBytes))
    origin.record = SampleOrigin.Record(.keyframe, sample)
    return [origin]
  }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(keyframes: keyframes) }

  private struct Cursor: SampleCursor {
    let keyframes: ForwardPrefetcher<DepthReader>
    var size: ImageSize? { nil }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      bytes = try keyframes.sample(index)
      clearInvalidDepth(in: &bytes)
    }
  }
}

/// Sets every Float32 that is not finite or not positive to 0.
func clearInvalidDepth(in bytes: inout [UInt8]) {
  bytes.withUnsafeMutableBytes { buffer in
    let meters = buffer.bindMemory(to: Float.self)
    for pixel in meters.indices {
      let value = meters[pixel]
      meters[pixel] = value > 0 && value < .infinity ? value : 0
    }
  }
}

/// Inflates one keyframe after another.
struct DepthReader: ForwardReader {
  let blob: DepthBlob
  let slice: FileSlice
  let file: String
  private var inflater: Inflater?

  init(blob: DepthBlob, slice: FileSlice, file: String) {
    self.blob = blob
    self.slice = slice
    self.file = file
  }

  mutating func read(_ index: Int) throws -> [UInt8] {
    do {
      if let inflater, inflater.position > blob.offsets[index] { self.inflater = nil }
      let inflater = try self.inflater ?? Inflater(slice, blob.container)
      self.inflater = inflater
      var bytes = [UInt8](repeating: 0, count: blob.keyframeBytes)
      guard try inflater.skip(to: blob.offsets[index]),
        try bytes.withUnsafeMutableBytes({ try inflater.read(into: $0) }) == bytes.count
      else { throw Inflater.Damaged("it ends within keyframe \(index)") }
      return bytes
    } catch let error as Inflater.Damaged {
      throw TakeFailure(.changedWhileReading, "the depth part has changed since it was first read: \(error.message)", file: file)
    } catch let error as FileSlice.Failure {
      throw TakeFailure(.unreadable, "reading failed: \(error)", file: file)
    }
  }
}
