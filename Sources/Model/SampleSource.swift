/// A source of samples: files, a video, memory. Samples are read on demand, by several threads at once, each through its own cursor.
package protocol SampleSource: Sendable {
  var access: SampleAccess { get }
  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor
  /// Returns the places in the take's files that a sample comes from; several where it is computed from several, none where that is not
  /// known.
  func origins(of sample: Int) throws -> [SampleOrigin]
}

extension SampleSource {
  /// Returns no places: a source says nothing unless it implements this.
  package func origins(of sample: Int) throws -> [SampleOrigin] { [] }
}

/// The order in which the samples of a source may be read.
package enum SampleAccess: Sendable {
  /// Random access, by every cursor independently.
  case random
  /// Forward only: the feed prefetches samples in order, and cursors read them from it.
  case forward(any SamplePrefetcher)
  /// Forward within runs, which start at these samples, ascending from 0: by every cursor independently, or by all through the feed.
  case runs([Int], any SamplePrefetcher)

  package var feed: (any SamplePrefetcher)? {
    switch self {
    case .random: nil
    case .forward(let feed), .runs(_, let feed): feed
    }
  }

  package var runs: [Int]? { if case .runs(let runs, _) = self { runs } else { nil } }
}

/// The options of a cursor.
package struct SampleRequest: Equatable, Sendable {
  /// The form in which samples are read.
  package enum Form: Sendable {
    /// Decoded values, as the stream's spec describes.
    case decoded
    /// The source's stored bytes, where the spec has an encoding.
    case encoded
    /// A check whether samples can be decoded; the bytes are unspecified.
    case check
  }

  package var form = Form.decoded
  /// The smallest sufficient image size, at which a source may decode if that costs less. The cursor's `size` is the actual one.
  package var minimumSize: ImageSize?
  /// Whether the cursor reads runs independently, without prefetching.
  package var isStandalone = false

  package init(form: Form = .decoded, minimumSize: ImageSize? = nil, isStandalone: Bool = false) {
    (self.form, self.minimumSize, self.isStandalone) = (form, minimumSize, isStandalone)
  }
}

/// One thread's view of a source, with its buffers.
///
///     var cursor = try source.makeCursor(SampleRequest())
///     try cursor.read(0, into: &bytes)
package protocol SampleCursor {
  /// Size of the images read; `nil` for all but images.
  var size: ImageSize? { get }
  /// Replaces `bytes` with sample `index`: row-major, little-endian, of the spec's size.
  ///
  /// - Throws: `SampleFailure` when only this sample cannot be read.
  mutating func read(_ index: Int, into bytes: inout [UInt8]) throws
  /// The findings about the sample that was read last, which is usable.
  var notes: [Finding] { get }
}

extension SampleCursor {
  package var notes: [Finding] { [] }
}

/// A sequential prefetcher for a source that is read front to back: a video, a deflated file. Seeking back is costly, so the caller
/// prefetches the samples of each block of rows in order, one thread at a time; cursors then read them from here.
package protocol SamplePrefetcher: AnyObject, Sendable {
  /// Memory in bytes of a prefetched sample.
  var sampleBytes: Int { get }
  /// Reads these samples, in ascending order, and keeps them for cursors.
  func fetch(_ samples: [Int]) throws
  /// Releases prefetched samples.
  func release(_ samples: [Int])
  /// Reads the rest of the source after the last sample, so that damage there is found.
  func finish() throws
}

/// A change to every sample of another source: a resize, a rotation, a unit conversion.
package protocol SampleMap: Sendable {
  /// The request to the base source for a request to the result.
  func request(_ request: SampleRequest) -> SampleRequest
  /// One thread's mapper for samples of this size; `nil` where they need no change.
  func makeMapper(from size: ImageSize?) -> (any SampleMapper)?
}

/// One cursor's conversion of samples, with its buffers. Serves one thread.
package protocol SampleMapper {
  /// Size of the resulting images; `nil` for all but images.
  var size: ImageSize? { get }
  mutating func map(_ sample: [UInt8], into output: inout [UInt8]) throws
}

/// Samples of another source, each changed independently. It keeps all capabilities of the base source.
package struct MappedSource: SampleSource {
  package let base: any SampleSource
  package let map: any SampleMap

  package init(_ base: any SampleSource, _ map: any SampleMap) { (self.base, self.map) = (base, map) }

  package var access: SampleAccess { base.access }

  /// Returns the places of the sample before it was mapped.
  package func origins(of sample: Int) throws -> [SampleOrigin] { try base.origins(of: sample) }

  /// Makes a cursor of the base that converts each decoded sample; stored bytes and checks pass unchanged.
  package func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    let base = try base.makeCursor(map.request(request))
    guard request.form == .decoded, let mapper = map.makeMapper(from: base.size) else { return base }
    return Cursor(base: base, mapper: mapper)
  }

  private struct Cursor: SampleCursor {
    var base: any SampleCursor
    var mapper: any SampleMapper
    var sample: [UInt8] = []

    var size: ImageSize? { mapper.size }
    var notes: [Finding] { base.notes }

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try base.read(index, into: &sample)
      try mapper.map(sample, into: &bytes)
    }
  }
}

/// Vectors in memory, as Float32; NaN where a value is absent.
///
///     VectorSource(width: 3, values: [0, 0, 9.8, .nan, .nan, .nan])        // two samples, the second one absent
package struct VectorSource: SampleSource {
  package let width: Int
  package let values: [Float]
  /// Looks up where a vector comes from.
  package var locate: (@Sendable (_ sample: Int) throws -> SampleOrigin?)?

  package init(width: Int, values: [Float]) {
    self.width = width
    self.values = values
  }

  /// Stores poses as [x y z qx qy qz qw].
  package init(_ poses: [Pose]) {
    width = 7
    var values: [Float] = []
    values.reserveCapacity(7 * poses.count)
    for pose in poses { values += pose.floats }
    self.values = values
  }

  package var access: SampleAccess { .random }

  /// Returns one place by `locate`, or none without it.
  package func origins(of sample: Int) throws -> [SampleOrigin] { try locate?(sample).map { [$0] } ?? [] }

  /// Makes a cursor that calls the closure for each sample.
  package func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private struct Cursor: SampleCursor {
    let source: VectorSource
    var size: ImageSize? { nil }
    func read(_ index: Int, into bytes: inout [UInt8]) {
      source.values[(index * source.width)..<((index + 1) * source.width)].withUnsafeBytes { bytes = Array($0) }
    }
  }
}
