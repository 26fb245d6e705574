import Media

/// The pictures of a movie, decoded in order, and brought to their size in the pass that makes them RGB.
///
/// One decoder feeds all cursors, or, where a writer asks for it, each cursor has its own and starts it anew at each run of pictures: so
/// several threads decode one movie, and what they decode does not depend on who did what before.
struct MovieFrames: ReducibleImageSource {
  private let shared: ForwardFeed<MovieReader>
  private let open: @Sendable () throws -> MovieReader
  private let movieRuns: [Int]
  private var size: Pixels
  private var isFed = true

  init(_ movie: Movie, file: String, maxSeconds: Double) {
    // Planes of the codec: 4:2:0 takes 1.5 values a pixel.
    let bytes = movie.size.width * movie.size.height * 3 / 2 * (movie.colour.bits > 8 ? 2 : 1)
    let open: @Sendable () throws -> MovieReader = { try naming(file) { try MovieReader(movie, file: file, maxSeconds: maxSeconds) } }
    shared = ForwardFeed(sampleBytes: bytes, open: open)
    self.open = open
    movieRuns = movie.runs
    size = movie.size
  }

  var feed: (any SampleFeed)? { isFed ? shared : nil }

  var runs: [Int]? { movieRuns }

  var unfed: any SampleSource {
    var copy = self
    copy.isFed = false
    return copy
  }

  /// Decodes it: nothing less tells whether it can be.
  func probe(_ index: Int) throws { _ = try shared.sample(index) }

  func makeCursor() -> any SampleCursor { Cursor(source: self, converter: FrameConverter(to: size)) }

  func reduced(covering target: Pixels) -> (source: any SampleSource, size: Pixels) {
    var copy = self
    copy.size = target
    return (copy, target)
  }

  private struct Cursor: SampleCursor {
    let source: MovieFrames
    let converter: FrameConverter
    var reader: MovieReader?
    /// The run that the reader is in.
    var run: Int?

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let frame = try source.isFed ? source.shared.sample(index) : decoded(index)
      try naming("") { try converter.convert(frame, into: &bytes) }
    }

    private mutating func decoded(_ index: Int) throws -> MovieFrame {
      var (low, high) = (0, source.movieRuns.count)
      while high - low > 1 {
        let middle = (low + high) / 2
        if source.movieRuns[middle] <= index { low = middle } else { high = middle }
      }
      var reader = try self.reader ?? source.open()
      if run != low || reader.position > index { try reader.start(atRun: source.movieRuns[low]) }
      (self.reader, run) = (nil, low)
      let frame = try reader.read(index)
      self.reader = reader
      return frame
    }
  }
}

/// Decodes a movie and keeps an eye on how long that takes.
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
      throw TakeFailure("limit", "decoding has taken more than \(Int(maxSeconds)) s", file: file)
    }
    return try naming(file) { try body(decoder) }
  }
}

/// Errors of a movie as failures of the take.
func naming<Result>(_ file: String, _ body: () throws -> Result) throws -> Result {
  do {
    return try body()
  } catch let error as MovieError {
    throw TakeFailure(error.kind.rawValue, error.message, file: file.isEmpty ? nil : file)
  } catch let error as FileSlice.Failure {
    throw TakeFailure("unreadable", "reading failed: \(error)", file: file.isEmpty ? nil : file)
  }
}
