import Media

/// The pictures of a movie, decoded in order, and brought to their size in the pass that makes them RGB.
struct MovieFrames: ReducibleImageSource {
  let frames: ForwardFeed<MovieReader>
  let size: Pixels

  init(_ movie: Movie, file: String, maxSeconds: Double) {
    // Planes of the codec: 4:2:0 takes 1.5 values a pixel.
    let bytes = movie.size.width * movie.size.height * 3 / 2 * (movie.colour.bits > 8 ? 2 : 1)
    frames = ForwardFeed(sampleBytes: bytes) {
      try naming(file) { try MovieReader(movie, file: file, maxSeconds: maxSeconds) }
    }
    size = movie.size
  }

  private init(frames: ForwardFeed<MovieReader>, size: Pixels) {
    self.frames = frames
    self.size = size
  }

  var feed: (any SampleFeed)? { frames }

  /// Decodes it: nothing less tells whether it can be.
  func probe(_ index: Int) throws { _ = try frames.sample(index) }

  func makeCursor() -> any SampleCursor { Cursor(frames: frames, converter: FrameConverter(to: size)) }

  func reduced(covering target: Pixels) -> (source: any SampleSource, size: Pixels) {
    (MovieFrames(frames: frames, size: target), target)
  }

  private struct Cursor: SampleCursor {
    let frames: ForwardFeed<MovieReader>
    let converter: FrameConverter

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let frame = try frames.sample(index)
      try naming("") { try converter.convert(frame, into: &bytes) }
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
