import Media

/// Poses in memory as [x y z qx qy qz qw].
struct PoseSource: SampleSource {
  let poses: [Pose]

  func makeCursor() -> any SampleCursor { Cursor(poses: poses) }

  private struct Cursor: SampleCursor {
    let poses: [Pose]
    func read(_ index: Int, into bytes: inout [UInt8]) {
      let (p, q) = (poses[index].position, poses[index].quaternion)
      setFloats([p.x, p.y, p.z, q.x, q.y, q.z, q.w].map { Float($0) }, in: &bytes)
    }
  }
}

/// A few numbers a sample, in memory; NaN where there is none.
package struct NumbersSource: SampleSource {
  package let width: Int
  package let values: [Float]

  package init(width: Int, values: [Float]) {
    self.width = width
    self.values = values
  }

  package func makeCursor() -> any SampleCursor { Cursor(source: self) }

  private struct Cursor: SampleCursor {
    let source: NumbersSource
    func read(_ index: Int, into bytes: inout [UInt8]) {
      setFloats(Array(source.values[(index * source.width)..<((index + 1) * source.width)]), in: &bytes)
    }
  }
}

/// Replaces `bytes` by these numbers as little-endian Float32.
func setFloats(_ numbers: [Float], in bytes: inout [UInt8]) {
  numbers.withUnsafeBytes { bytes = Array($0) }
}

/// JPEG files of one size.
struct JPEGFiles: ReducibleImageSource, JPEGSource {
  /// No picture of the greatest size allowed needs more bytes.
  static let byteLimit = 1 << 28

  let inputs: TakeInputs
  /// Entries of `inputs`.
  let entries: [Int]
  /// As the headers say.
  let size: Pixels
  /// Sides longer than this are refused.
  let limit: Int
  var reduction = 1

  func makeCursor() throws -> any SampleCursor { try Cursor(source: self) }

  var files: any SampleSource { Undecoded(pictures: self) }

  func reduced(covering target: Pixels) -> (source: any SampleSource, size: Pixels) {
    var copy = self
    copy.reduction = JPEGDecoder.reduction(from: size, covering: target)
    return (copy, JPEGDecoder.reduced(size, by: copy.reduction))
  }

  /// Decodes the picture as small as can be, which reads all of its data.
  func probe(_ index: Int) throws {
    var smallest = self
    smallest.reduction = 8
    var pixels: [UInt8] = []
    try Cursor(source: smallest).read(index, into: &pixels)
  }

  private func checkWhole(_ file: [UInt8], _ index: Int, _ decoder: JPEGDecoder) throws {
    do {
      try check(file.withUnsafeBytes { try decoder.size(of: $0) }, index)
    } catch let error as MediaError {
      throw failure(index, error)
    }
    // Some encoders pad after the end marker; a cut file has none in its last bytes.
    let tail = file.suffix(64)
    if !zip(tail, tail.dropFirst()).contains(where: { $0 == 0xFF && $1 == 0xD9 }) {
      throw failure(index, MediaError(call: "JPEG data", message: "the file ends before its end marker (FF D9)"))
    }
  }

  private func check(_ found: Pixels, _ index: Int) throws {
    if found != size {
      throw TakeFailure(
        "image-size-changed", "the picture is \(found), the session's first is \(size)",
        file: inputs.entries[entries[index]].path)
    }
  }

  private func failure(_ index: Int, _ error: MediaError) -> SampleFailure {
    SampleFailure(
      finding: Finding(.warning, "image-undecodable", "\(error)", file: inputs.entries[entries[index]].path))
  }

  private final class Cursor: SampleCursor {
    let source: JPEGFiles
    let decoder: JPEGDecoder
    let hasher = SHA256()
    var file: [UInt8] = []

    init(source: JPEGFiles) throws {
      self.source = source
      decoder = try JPEGDecoder()
    }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try source.inputs.readSample(
        source.entries[index], limit: JPEGFiles.byteLimit, hasher: hasher, as: "image-undecodable", into: &file)
      do {
        try file.withUnsafeBytes { file in
          try source.check(try decoder.size(of: file), index)
          _ = try decoder.decode(file, reduction: source.reduction, limit: source.limit, into: &bytes)
        }
      } catch let error as MediaError {
        throw source.failure(index, error)
      }
    }
  }

  /// The same files, not decoded.
  private struct Undecoded: SampleSource {
    let pictures: JPEGFiles

    func makeCursor() throws -> any SampleCursor { FileCursor(pictures: pictures, decoder: try JPEGDecoder()) }

    private struct FileCursor: SampleCursor {
      let pictures: JPEGFiles
      let decoder: JPEGDecoder
      let hasher = SHA256()

      func read(_ index: Int, into bytes: inout [UInt8]) throws {
        try pictures.inputs.readSample(
          pictures.entries[index], limit: JPEGFiles.byteLimit, hasher: hasher, as: "image-undecodable", into: &bytes)
        try pictures.checkWhole(bytes, index, decoder)
      }
    }
  }
}
