import Foundation
import Hosts
import Model
import Steps
import Synchronization

/// A stream that a step in Python reads, or the mask of one.
struct StepInput: Sendable {
  /// The name by which the step reads it, and the one that it has in the take.
  let name, stream: StreamName
  /// The stream of which it is the mask.
  private let masked: StreamName?

  /// Throws `TakeFailure` where the take, or that member of it, has no such stream on the frames' timeline.
  init(_ plain: StreamName, of member: String?, in episode: Episode, for title: String) throws {
    let name = plain.of(member)
    (self.name, stream) = (plain, name)
    let ending = "_valid"
    let base = name.rawValue.hasSuffix(ending) ? StreamName(String(name.rawValue.dropLast(ending.count))) : nil
    let isThere = { (name: StreamName) in episode.streams[name] != nil || episode.derived[name] != nil }
    masked = isThere(name) ? nil : base.flatMap { isThere($0) ? $0 : nil }
    guard isThere(name) || masked != nil else {
      let names = (Array(episode.streams.filter { $0.value.rows != nil }.keys) + Array(episode.derived.keys)).map(\.rawValue).sorted()
      throw TakeFailure(
        .streamMissing,
        "\(title) reads \(name), which the take does not have; it has \(names.joined(separator: ", "))\(Spelling.hint(for: name.rawValue, among: names))"
      )
    }
    if let stream = episode.streams[masked ?? name], stream.rows == nil {
      throw TakeFailure(.notAligned, "\(title) reads \(name), which is not on the frames' timeline; put align before the step")
    }
  }

  func makeReader(_ episode: Episode) throws -> Reader {
    let source = masked ?? stream
    if let stream = episode.streams[source], stream.spec.kind.isRaster {
      return Reader(
        name: name, shape: Array(stream.spec.shape.dropLast()) + [masked == nil ? stream.spec.shape.last ?? 1 : 1],
        type: masked == nil ? stream.spec.type.numpyName : "|u1",
        content: .raster(stream.rows ?? [], try stream.source.makeCursor(SampleRequest()), stream.spec, isMask: masked != nil))
    }
    let spec = episode.streams[source]?.spec ?? episode.derived[source]?.spec
    return Reader(
      name: name, shape: spec?.shape ?? [1], type: masked == nil ? "<f4" : "|u1",
      content: .numbers(RowReader(episode), source, isMask: masked != nil))
  }

  /// Reads the rows of blocks in order.
  struct Reader {
    let name: StreamName
    /// Shape of a row's value, and NumPy's name of its type.
    let shape: [Int]
    let type: String
    fileprivate var content: Content
    private var bytes: [UInt8] = []

    fileprivate enum Content {
      case raster([Row?], any SampleCursor, StreamSpec, isMask: Bool)
      case numbers(RowReader, StreamName, isMask: Bool)
    }

    fileprivate init(name: StreamName, shape: [Int], type: String, content: Content) {
      (self.name, self.shape, self.type, self.content) = (name, shape, type, content)
    }

    /// Writes rows and their validity to places in a block. Returns samples as they were read, by their number, where they are a stream's own.
    mutating func read(_ rows: Range<Int>, into block: SharedBlock, at offset: Int, valid: Int) throws -> [Int: StepSample] {
      switch content {
      case .raster(let all, var cursor, let spec, let isMask):
        defer { content = .raster(all, cursor, spec, isMask: isMask) }
        return try read(rows.map { all[$0]?.sample }, &cursor, spec, isMask, block, offset, valid)
      case .numbers(var reader, let source, let isMask):
        defer { content = .numbers(reader, source, isMask: isMask) }
        let width = shape.reduce(1, *)
        for (place, row) in rows.enumerated() {
          let values = try reader.values(of: source, at: row)
          block.bytes[valid + place] = values.allSatisfy(\.isFinite) ? 1 : 0
          for (index, value) in values.enumerated() {
            if isMask {
              block.bytes[offset + place * width + index] = value.isNaN ? 0 : 1
            } else {
              block.bytes.storeBytes(of: value, toByteOffset: offset + 4 * (place * width + index), as: Float.self)
            }
          }
        }
        return [:]
      }
    }

    private mutating func read(
      _ samples: [Int?], _ cursor: inout any SampleCursor, _ spec: StreamSpec, _ isMask: Bool, _ block: SharedBlock, _ offset: Int,
      _ valid: Int
    ) throws -> [Int: StepSample] {
      let size = isMask ? spec.elementCount : spec.sampleBytes
      var read: [Int: StepSample] = [:]
      for (place, sample) in samples.enumerated() {
        let target = UnsafeMutableRawBufferPointer(rebasing: block.bytes[(offset + place * size)..<(offset + (place + 1) * size)])
        block.bytes[valid + place] = 0
        guard let sample else {
          target.initializeMemory(as: UInt8.self, repeating: 0)
          continue
        }
        if let known = read[sample] {
          target.copyMemory(from: UnsafeRawBufferPointer(rebasing: block.bytes[known.offset..<(known.offset + size)]))
          block.bytes[valid + place] = known.failure == nil ? 1 : 0
          continue
        }
        var known = StepSample(block: block, offset: offset + place * size, count: size)
        do {
          try cursor.read(sample, into: &bytes)
          known.notes = cursor.notes
          guard bytes.count == spec.sampleBytes else {
            throw TakeFailure(.sampleSize, "a sample of \(name) has \(bytes.count) bytes, expected \(spec.sampleBytes)")
          }
          if isMask {
            var mask: [UInt8] = []
            _ = DepthMask.mark(bytes, spec.type, in: &mask)
            target.copyBytes(from: mask)
          } else {
            target.copyBytes(from: bytes)
          }
          block.bytes[valid + place] = 1
        } catch let failure as SampleFailure {
          target.initializeMemory(as: UInt8.self, repeating: 0)
          known.failure = failure
        }
        read[sample] = known
      }
      return isMask ? [:] : read
    }
  }
}

/// The samples of a stream that a step reads, for whoever stores them too: those of a block come from the step's pass, which has read them
/// already. Others are read again.
final class SharedInput: SampleSource, SamplePrefetcher {
  private let stream: SampleStream
  private let pass: StepPass
  /// The first row of each sample.
  private let rows: [Int: Int]
  private let state = Mutex<(held: [Int: StepSample], first: Int)>(([:], .max))

  init(_ stream: SampleStream, _ pass: StepPass) {
    (self.stream, self.pass) = (stream, pass)
    var rows: [Int: Int] = [:]
    for (row, sample) in (stream.rows ?? []).enumerated() { if let sample, rows[sample.sample] == nil { rows[sample.sample] = row } }
    self.rows = rows
  }

  var access: SampleAccess { .forward(self) }
  var sampleBytes: Int { stream.spec.sampleBytes }
  func origins(of sample: Int) throws -> [SampleOrigin] { try stream.source.origins(of: sample) }

  /// Keeps what a pass has read, in place of what nobody waits for: a sample from the first of the last fetch on may be fetched next.
  func add(_ samples: [Int: StepSample]) {
    state.withLock { state in
      state.held = state.held.filter { $0.value.uses > 0 || $0.key >= state.first }
      state.held.merge(samples) { old, _ in old }
    }
  }

  private func held(_ sample: Int) -> StepSample? { state.withLock { $0.held[sample] } }

  func fetch(_ samples: [Int]) throws {
    guard let first = samples.first else { return }
    state.withLock { state in
      state.first = first
      state.held = state.held.filter { $0.value.uses > 0 || $0.key >= first }
    }
    for sample in samples {
      if held(sample) == nil, let row = rows[sample] { try pass.advance(through: row) }
      state.withLock { $0.held[sample]?.uses += 1 }
    }
  }

  func release(_ samples: [Int]) {
    state.withLock { state in
      for sample in samples {
        state.held[sample]?.uses -= 1
        // A neighboring block may share it.
        if state.held[sample]?.uses == 0, sample != samples.last { state.held[sample] = nil }
      }
    }
  }

  func finish() throws {
    try pass.finish()
    try stream.source.access.feed?.finish()
  }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    // Stored bytes, and checks, are not what the step has read.
    if request.form != .decoded { return try stream.source.makeCursor(request) }
    return Cursor(source: self)
  }

  private struct Cursor: SampleCursor {
    let source: SharedInput
    var own: (any SampleCursor)?
    var notes: [Finding] = []

    init(source: SharedInput) { self.source = source }

    var size: ImageSize? { source.stream.spec.kind == .image ? source.stream.spec.gridSize : nil }

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      // A later step may read what this one is about to.
      if source.held(index) == nil, source.pass.canRun, let row = source.rows[index] {
        try source.pass.advance(through: row)
      }
      if let sample = source.held(index) {
        notes = sample.notes
        return try sample.copy(into: &bytes)
      }
      var cursor = try own ?? source.stream.source.makeCursor(SampleRequest())
      defer { own = cursor }
      try cursor.read(index, into: &bytes)
      notes = cursor.notes
    }
  }
}

/// The samples that a step makes, one for each row of its pass.
final class StepOutput: SampleSource, SamplePrefetcher {
  private let pass: StepPass
  private let spec: StreamSpec

  init(_ pass: StepPass, _ spec: StreamSpec) { (self.pass, self.spec) = (pass, spec) }

  var access: SampleAccess { spec.kind.isRaster ? .forward(self) : .random }
  var sampleBytes: Int { spec.sampleBytes }

  /// Returns the places of what the step reads in the row.
  func origins(of sample: Int) throws -> [SampleOrigin] {
    try pass.inputs.map(\.stream).flatMap { name -> [SampleOrigin] in
      guard let stream = pass.episode.streams[name], let row = stream.rows?[sample] else { return [] }
      return try stream.source.origins(of: row.sample) + (row.isBlend ? stream.source.origins(of: row.next) : [])
    }
  }

  func fetch(_ samples: [Int]) throws { try pass.hold(samples) }
  func release(_ samples: [Int]) { pass.release(samples) }
  func finish() throws { try pass.finish() }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor { Cursor(pass: pass, spec: spec) }

  private struct Cursor: SampleCursor {
    let pass: StepPass
    let spec: StreamSpec
    var size: ImageSize? { spec.kind == .image ? spec.gridSize : nil }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard !spec.kind.isRaster else { return try pass.image(at: index).copy(into: &bytes) }
      let values = try pass.vector(at: index, width: spec.elementCount)
      bytes = values.withUnsafeBytes { Array($0) }
    }
  }
}
