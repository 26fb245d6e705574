import Model

@testable import HDF5
@testable import Media

extension FuzzTarget {
  /// Videos, images and the structure of HDF5 files.
  static let media = [movieBoxes, movie, jpeg, png, shard]

  private static let limits: MovieLimits = {
    var limits = MovieLimits()
    (limits.samples, limits.seconds, limits.side) = (500, 600, 512)
    return limits
  }()

  private static let movieBoxes = FuzzTarget("movie-boxes", throws: MovieError.self) { bytes in
    let boxes = try MovieBoxes(FileSlice(bytes), limits: limits)
    expect(boxes.fragmentSamples <= limits.samples, "more samples than the limit")
    expect(boxes.tracks.allSatisfy { $0.sampleCount <= limits.samples }, "more samples than the limit")
  }

  /// Index, sample headers and frames, by FFmpeg.
  private static let movie = FuzzTarget("movie", throws: MovieError.self) { bytes in
    let movie = try Movie(FileSlice(bytes), limits: limits)
    expect(isAscending(movie.samples.map(\.presentation)), "times of samples do not ascend")
    expect(isAscending(movie.nanoseconds, orEqual: true) && movie.tickNanoseconds > 0, "times of frames descend")
    expect(movie.runs.first == 0 && isAscending(movie.runs), "runs that do not ascend")
    if let packet = try movie.packet(ofSample: 0) {
      expect(packet.bytes.lowerBound >= 0, "a sample before the file")
    }
    try MovieDecoder(movie).finish()
  }

  private static let jpeg = FuzzTarget("jpeg", throws: MediaError.self) { bytes in
    let decoder = try JPEGDecoder()
    _ = JPEGMetadata.orientation(of: bytes)
    var pixels: [UInt8] = []
    try bytes.withUnsafeBytes { file in
      let size = try decoder.size(of: file)
      for reduction in [1, 8] {
        let found = try decoder.decode(file, reduction: reduction, limit: 512, into: &pixels)
        let reduced = JPEGDecoder.reduced(size, by: reduction)
        expect(found == size && pixels.count == reduced.width * reduced.height * 3, "\(pixels.count) bytes of \(reduced)")
      }
    }
  }

  /// Gray and color; gray pixels that are written read back.
  private static let png = FuzzTarget("png", throws: MediaError.self) { bytes in
    try bytes.withUnsafeBytes { file in
      var pixels: [UInt8] = []
      // The size in the header, which begins after the signature.
      if bytes.count >= 24 {
        let size = ImageSize(width: Int(bytes[18]) << 8 | Int(bytes[19]), height: Int(bytes[22]) << 8 | Int(bytes[23]))
        if size.width * size.height <= 1 << 18 { _ = try? PNG.decode(file, size: size, into: &pixels) }
      }
      for bits in [8, 16] {
        guard let size = try? PNG.graySize(of: file, bits: bits), size.width * size.height <= 1 << 18 else { continue }
        try PNG.decodeGray(file, bits: bits, size: size, into: &pixels)
        var again: [UInt8] = []
        let encoded = must("encoding") { try PNG.encodeGray(pixels, bits: bits, size: size) }
        must("decoding") { try encoded.withUnsafeBytes { try PNG.decodeGray($0, bits: bits, size: size, into: &again) } }
        expect(again == pixels, "other pixels when written and read")
      }
    }
  }

  private static let shard = FuzzTarget("shard", throws: FileMap.Damaged.self) { bytes in
    let map = try FileMap(size: Int64(bytes.count)) { Array(bytes[Int($0.lowerBound)..<Int($0.upperBound)]) }
    for (offset, count) in map.whole.values { expect(offset >= 0 && count >= 0, "an array at \(offset) of \(count) bytes") }
    let structure = try map.structure()
    expect(structure.allSatisfy { $0.lowerBound >= 0 && $0.upperBound <= Int64(bytes.count) && !$0.isEmpty }, "ranges outside of the file")
    expect(isAscending(structure.map(\.lowerBound)), "ranges that do not ascend")
  }
}
