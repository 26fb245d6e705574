/// Where samples come from: files, a movie, memory. Samples are read on demand, by several threads at once, each through a cursor of its
/// own.
package protocol SampleSource: Sendable {
  var access: SampleAccess { get }
  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor
}

/// How the samples of a source may be read.
package enum SampleAccess: Sendable {
  /// In any order, by every cursor by itself.
  case random
  /// Forwards only: the feed fetches samples in order, cursors find them there.
  case forward(any SampleFeed)
  /// Cheaply within runs, which start at these samples, ascending from 0: every cursor by itself, or all through the feed.
  case runs([Int], any SampleFeed)

  package var feed: (any SampleFeed)? {
    switch self {
    case .random: nil
    case .forward(let feed), .runs(_, let feed): feed
    }
  }

  package var runs: [Int]? { if case .runs(let runs, _) = self { runs } else { nil } }
}

/// What is wanted of a cursor.
package struct SampleRequest: Equatable, Sendable {
  package enum Form: Sendable {
    /// Numbers, as the stream's spec says.
    case decoded
    /// Bytes as the source stores them, where the spec names an encoding.
    case encoded
    /// Nothing: only whether samples can be decoded. What comes is unspecified.
    case check
  }

  package var form = Form.decoded
  /// An image at least as large is enough; a source that decodes smaller ones at less cost does. The cursor says what it gives.
  package var enough: ImageSize?
  /// Nobody fetches for this cursor: it reads runs by itself.
  package var isStandalone = false

  package init(form: Form = .decoded, enough: ImageSize? = nil, isStandalone: Bool = false) {
    (self.form, self.enough, self.isStandalone) = (form, enough, isStandalone)
  }
}

/// One thread's view of a source, with the buffers it needs.
package protocol SampleCursor {
  /// The size of the images that come; `nil` for all but images.
  var size: ImageSize? { get }
  /// Replaces `bytes` by sample `index`: row-major, little-endian, as many as the spec says. Throws `SampleFailure` when
  /// this sample alone cannot be read.
  mutating func read(_ index: Int, into bytes: inout [UInt8]) throws
}

/// What reads the samples of a source front to back: a movie, a deflated file. Going back costs, so whoever needs samples fetches those of
/// each block of rows in order, by one thread at a time; cursors then find them there.
package protocol SampleFeed: AnyObject, Sendable {
  /// Bytes that a fetched sample takes.
  var sampleBytes: Int { get }
  /// Reads these samples, which ascend, and keeps them for cursors.
  func fetch(_ samples: [Int]) throws
  /// Forgets samples that were fetched.
  func release(_ samples: [Int])
  /// After the last sample: reads what is left, where damage would count.
  func finish() throws
}

/// What is done to every sample of another source: a resize, a rotation, another unit.
package protocol SampleMap: Sendable {
  /// What to ask of the base, given what is asked of the result.
  func request(_ request: SampleRequest) -> SampleRequest
  /// One thread's means to do it, for samples of this size; `nil` where these are right as they are.
  func makeMapper(from size: ImageSize?) -> (any SampleMapper)?
}

package protocol SampleMapper {
  /// The size of the images that come out; `nil` for all but images.
  var size: ImageSize? { get }
  mutating func map(_ sample: [UInt8], into output: inout [UInt8]) throws
}

/// Samples of another source, each changed by itself. The only wrapper there is: what a source can do, it can do through this.
package struct MappedSource: SampleSource {
  package let base: any SampleSource
  package let map: any SampleMap

  package init(_ base: any SampleSource, _ map: any SampleMap) { (self.base, self.map) = (base, map) }

  package var access: SampleAccess { base.access }

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

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try base.read(index, into: &sample)
      try mapper.map(sample, into: &bytes)
    }
  }
}

/// Vectors in memory, as Float32; NaN where there is none.
package struct VectorSource: SampleSource {
  package let width: Int
  package let values: [Float]

  package init(width: Int, values: [Float]) {
    self.width = width
    self.values = values
  }

  /// Poses as [x y z qx qy qz qw].
  package init(_ poses: [Pose]) {
    width = 7
    var values: [Float] = []
    values.reserveCapacity(7 * poses.count)
    for pose in poses { values += pose.floats }
    self.values = values
  }

  package var access: SampleAccess { .random }

  package func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private struct Cursor: SampleCursor {
    let source: VectorSource
    var size: ImageSize? { nil }
    func read(_ index: Int, into bytes: inout [UInt8]) {
      source.values[(index * source.width)..<((index + 1) * source.width)].withUnsafeBytes { bytes = Array($0) }
    }
  }
}
