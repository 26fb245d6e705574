import Foundation
import Model
import Testing
import TestSupport

@testable import Media

/// Movies are made by libx264 and libx265 through `MovieEncoder`; the Python tests make others with the ffmpeg program.
@Suite struct MovieTests {
  private let directory: TemporaryDirectory
  private let size = ImageSize(width: 64, height: 48)

  init() throws { directory = try TemporaryDirectory() }

  private func flat(_ level: UInt8) -> [UInt8] { [UInt8](repeating: level, count: size.width * size.height * 3) }

  /// A movie whose frame i is gray of level 40 + 4 i.
  private func write(_ ticks: [Int64], _ change: (inout MovieEncoder.Options) -> Void = { _ in }) throws -> String {
    var options = MovieEncoder.Options(size: size)
    change(&options)
    let path = directory.path + "/\(UUID().uuidString).mov"
    let encoder = try MovieEncoder(path, options)
    for (index, tick) in ticks.enumerated() { try encoder.add(flat(40 + 4 * UInt8(index % 50)), at: tick) }
    try encoder.finish()
    return path
  }

  private func slice(_ path: String) throws -> FileSlice {
    let descriptor = open(path, O_RDONLY)
    try #require(descriptor >= 0)
    return FileSlice(descriptor: descriptor, count: Int64(try Data(contentsOf: URL(fileURLWithPath: path)).count))
  }

  private func levels(_ movie: Movie, _ samples: [Int]) throws -> [Int] {
    let decoder = try MovieDecoder(movie)
    let converter = FrameConverter(to: size)
    var pixels: [UInt8] = []
    return try samples.map { sample in
      try decoder.go(to: sample)
      try converter.convert(decoder.next(), into: &pixels)
      return Int(pixels[(size.height / 2 * size.width + size.width / 2) * 3])
    }
  }

  /// Frames before time 0 are hidden by an edit list; they are there for who asks.
  @Test(arguments: ["h264", "hevc"], [0, 2]) func hiddenFramesCanBeIncluded(codec: String, reordering: Int) throws {
    let path = try write((-1..<70).map { Int64($0) * 10 }) {
      $0.codec = codec
      $0.reordering = reordering
    }
    let shown = try Movie(slice(path))
    #expect(shown.hiddenSamples == 1 && shown.samples.count == 70 && shown.hasEditList && !shown.includesHidden)
    let all = try Movie(slice(path), includesHidden: true)
    #expect(all.hiddenSamples == 1 && all.samples.count == 71 && all.nanoseconds[70] == 1_166_666_667)
    let samples = [0, 1, 70, 2, 0, 35]
    for (sample, level) in zip(samples, try levels(all, samples)) { #expect(abs(level - (40 + 4 * (sample % 50))) <= 3) }
    #expect(abs(try levels(shown, [0])[0] - 44) <= 3)
    let decoder = try MovieDecoder(all)
    for run in all.runs.reversed() {
      try decoder.start(atRun: run)
      #expect(try decoder.next().size == size)
    }
    #expect(try all.packet(ofSample: 0)?.number == 0)
    let plain = try Movie(slice(write((0..<10).map { Int64($0) * 10 }) { $0.reordering = reordering }), includesHidden: true)
    #expect(plain.hiddenSamples == 0 && plain.samples.count == 10)
  }

  @Test func jumpsBackAndForth() throws {
    let movie = try Movie(slice(write((0..<90).map { Int64($0) * 20 })))
    #expect(movie.samples.count { $0.isSync } >= 3)
    let samples = [70, 3, 3, 4, 89, 0, 45]
    for (sample, level) in zip(samples, try levels(movie, samples)) { #expect(abs(level - (40 + 4 * (sample % 50))) <= 3) }
  }

  /// Every run gives the same frames whether it is reached from the front or started by itself.
  @Test(arguments: ["h264", "hevc"], [0, 2]) func runsCanBeDecodedByThemselves(codec: String, reordering: Int) throws {
    let movie = try Movie(
      slice(
        write((0..<130).map { Int64($0) * 20 }) {
          $0.codec = codec
          $0.reordering = reordering
        }))
    // HEVC with reordering lets frames refer across sync samples, so that nothing can be decoded by itself.
    #expect(movie.runs.count >= (codec == "hevc" && reordering > 0 ? 1 : 3) && movie.runs[0] == 0)
    #expect(zip(movie.runs, movie.runs.dropFirst()).allSatisfy { $1 - $0 >= 24 })
    let converter = FrameConverter(to: size)
    func frames(_ decoder: MovieDecoder, _ count: Int) throws -> [[UInt8]] {
      try (0..<count).map { _ in
        var pixels: [UInt8] = []
        try converter.convert(decoder.next(), into: &pixels)
        return pixels
      }
    }
    let all = try frames(MovieDecoder(movie), 130)
    let decoder = try MovieDecoder(movie)
    let ends = movie.runs.dropFirst() + [130]
    for (start, end) in zip(movie.runs, ends).reversed() {
      try decoder.start(atRun: start)
      #expect(try frames(decoder, end - start) == Array(all[start..<end]))
    }
  }

  /// Rounding from the exact value, where a product of 64 bits would overflow.
  @Test func nanosecondsAreExact() {
    #expect(Movie.nanoseconds(1, (1, 600)) == 1_666_667)
    #expect(Movie.nanoseconds(-1, (1, 600)) == -1_666_667)
    #expect(Movie.nanoseconds(1001, (1, 30_000)) == 33_366_667)
    #expect(Movie.nanoseconds(1 << 50, (1, 1_000_000)) == (1 << 50) * 1000)
    #expect(Movie.nanoseconds(.max, (1, 1)) == .max)
    #expect(Movie.nanoseconds(.min, (1, 1)) == .min)
    #expect(Movie.nanoseconds(1, (1, 2_000_000_000)) == 1)
  }

  // MARK: Movies that are none

  private func failure(_ bytes: [UInt8]) throws -> MovieError {
    let path = try directory.write(UUID().uuidString + ".mov", bytes)
    return try #require(throws: MovieError.self) { try Movie(slice(path)) }
  }

  private func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

  @Test func refusesWhatIsNoMovie() throws {
    #expect(try failure([]).code == .fileEmpty)
    #expect(try failure(Array("#EXTM3U\n/etc/passwd\n".utf8)).code == .notAMovie)
    #expect(try failure([0, 0]).code == .notAMovie)
    let error = try failure(Array("ffconcat version 1.0\nfile other.mov\n".utf8))
    #expect(error.code == .notAMovie && error.message.contains("ffconcat"))
  }

  @Test func survivesEveryCut() throws {
    let whole = try bytes(write((0..<12).map { Int64($0) * 20 }))
    for cut in stride(from: 0, to: whole.count, by: max(1, whole.count / 60)) {
      let code = try failure(Array(whole[..<cut])).code
      #expect([.fileEmpty, .notAMovie, .movieUnfinished, .movieTruncated, .movieCorrupt].contains(code), "cut at \(cut): \(code)")
    }
  }

  /// Whatever byte of the index is changed, the movie opens or is refused; nothing crashes, and nothing takes long.
  @Test func survivesMutationsOfTheIndex() throws {
    let whole = try bytes(write((0..<12).map { Int64($0) * 20 }))
    let moov = try #require(whole.indices.dropLast(4).first { Array(whole[$0..<($0 + 4)]) == Array("moov".utf8) })
    for place in stride(from: moov - 4, to: whole.count, by: 3) {
      for value in [0, 0x7F, 0xFF] as [UInt8] {
        var changed = whole
        changed[place] = value
        let path = try directory.write("mutated.mov", changed)
        if let movie = try? Movie(slice(path)), let decoder = try? MovieDecoder(movie) {
          for _ in movie.samples where (try? decoder.next()) == nil { break }
        }
      }
    }
  }

  /// A count that the file has no room for is refused before FFmpeg sees it.
  @Test(arguments: ["stsz", "stts", "stsc", "stco"]) func refusesCountsThatCannotBe(box: String) throws {
    var whole = try bytes(write((0..<12).map { Int64($0) * 20 + Int64($0 % 2) }))
    let place = try #require(whole.indices.dropLast(11).last { Array(whole[$0..<($0 + 4)]) == Array(box.utf8) })
    let count = place + (box == "stsz" ? 12 : 8)
    for byte in 0..<4 { whole[count + byte] = byte == 0 ? 0x7F : 0xFF }
    let error = try failure(whole)
    #expect([.movieCorrupt, .limit].contains(error.code) && error.message.contains("2147483647"))
  }

  /// BT.709 from RGB and back, against the matrix of ITU-R BT.709 itself.
  @Test func colorsSurviveTheCodec() throws {
    var options = MovieEncoder.Options(size: size)
    options.bitRate = 4_000_000
    let path = directory.path + "/colors.mov"
    let encoder = try MovieEncoder(path, options)
    let color: [UInt8] = [200, 60, 30]
    try encoder.add((0..<(size.width * size.height)).flatMap { _ in color }, at: 0)
    try encoder.finish()
    let movie = try Movie(slice(path))
    var pixels: [UInt8] = []
    for target in [size, ImageSize(width: 16, height: 12)] {
      try FrameConverter(to: target).convert(MovieDecoder(movie).next(), into: &pixels)
      #expect(pixels.count == target.width * target.height * 3)
      for channel in 0..<3 { #expect(abs(Int(pixels[channel]) - Int(color[channel])) <= 3) }
    }
  }
}
