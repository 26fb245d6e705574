import Media
import Model

/// The frames of a video, decoded in order, and resized in the same pass that converts them to RGB.
///
/// One decoder serves all cursors, or, on request, each cursor has its own decoder and restarts it at each run of frames. Several threads
/// can then decode one video, and the decoded frames do not depend on the order of decoding.
struct MovieFrames: SampleSource {
  private let shared: ForwardPrefetcher<MovieReader>
  private let open: @Sendable () throws -> MovieReader
  private let runs: [Int]
  private let size: ImageSize
  private let movie: Movie
  private let file: String
  private let place: Place

  /// Where frames are among the inputs.
  enum Place: Sendable {
    /// In a video, which says where in it.
    case file(InputOrigin)
    /// Each by itself.
    case found(@Sendable (_ frame: Int) throws -> SampleOrigin)
  }

  init(_ movie: Movie, file: String, place: Place, maxSeconds: Double) {
    (self.movie, self.file, self.place) = (movie, file, place)
    // Planes of the codec: 4:2:0 takes 1.5 values per pixel.
    let bytes = movie.size.width * movie.size.height * 3 / 2 * (movie.color.bits > 8 ? 2 : 1)
    let open: @Sendable () throws -> MovieReader = { try naming(file) { try MovieReader(movie, file: file, maxSeconds: maxSeconds) } }
    shared = ForwardPrefetcher(sampleBytes: bytes, open: open)
    self.open = open
    runs = movie.runs
    size = movie.size
  }

  var access: SampleAccess { .runs(runs, shared) }

  func origins(of sample: Int) throws -> [SampleOrigin] {
    switch place {
    case .found(let find): return [try find(sample)]
    case .file(let place): return try origin(of: sample, in: place)
    }
  }

  private func origin(of sample: Int, in place: InputOrigin) throws -> [SampleOrigin] {
    var origin = try place()
    guard let packet = try naming(file, { try movie.packet(ofSample: sample) }) else { return [] }
    (origin.range, origin.record) = (packet.bytes, SampleOrigin.Record(.packet, packet.number))
    return [origin]
  }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor {
    Cursor(
      source: self, isStandalone: request.isStandalone,
      converter: request.form == .check ? nil : FrameConverter(to: request.minimumSize ?? size))
  }

  private struct Cursor: SampleCursor {
    let source: MovieFrames
    let isStandalone: Bool
    /// The converter to RGB; absent where the frames are only checked.
    let converter: FrameConverter?
    var reader: MovieReader?
    /// The run that the reader is in.
    var run: Int?

    var size: ImageSize? { converter?.target }

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let frame = try isStandalone ? decoded(index) : source.shared.sample(index)
      try naming("") { try converter?.convert(frame, into: &bytes) }
    }

    private mutating func decoded(_ index: Int) throws -> MovieFrame {
      var (low, high) = (0, source.runs.count)
      while high - low > 1 {
        let middle = (low + high) / 2
        if source.runs[middle] <= index { low = middle } else { high = middle }
      }
      var reader = try self.reader ?? source.open()
      if run != low || reader.position > index { try reader.start(atRun: source.runs[low]) }
      (self.reader, run) = (nil, low)
      let frame = try reader.read(index)
      self.reader = reader
      return frame
    }
  }
}

/// Decodes a video and limits the time that this takes.
struct MovieReader: ForwardReader {
  private let decoder: MovieDecoder
  private let file: String
  private let maxSeconds: Double
  private var spent = Duration.zero

  init(_ movie: Movie, file: String, maxSeconds: Double) throws {
    self.file = file
    self.maxSeconds = maxSeconds
    decoder = try MovieDecoder(movie)
  }

  var position: Int { decoder.position }

  mutating func start(atRun sample: Int) throws { try timed { try $0.start(atRun: sample) } }

  mutating func read(_ index: Int) throws -> MovieFrame {
    try timed { decoder in
      try decoder.go(to: index)
      return try decoder.next()
    }
  }

  mutating func finish() throws { try timed { try $0.finish() } }

  private mutating func timed<Result>(_ body: (MovieDecoder) throws -> Result) throws -> Result {
    let start = ContinuousClock.now
    defer { spent += start.duration(to: .now) }
    guard spent < .seconds(maxSeconds) else {
      throw TakeFailure(.limit, "decoding has taken more than \(Int(maxSeconds)) s", file: file)
    }
    return try naming(file) { try body(decoder) }
  }
}

/// Converts errors of a video to failures of the take.
func naming<Result>(_ file: String, _ body: () throws -> Result) throws -> Result {
  do {
    return try body()
  } catch let error as MovieError {
    throw TakeFailure(error.code, error.message, file: file.isEmpty ? nil : file)
  } catch let error as FileSlice.Failure {
    throw TakeFailure(.unreadable, "reading failed: \(error)", file: file.isEmpty ? nil : file)
  }
}
