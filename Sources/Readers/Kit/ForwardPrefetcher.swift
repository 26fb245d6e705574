import Model
import Synchronization

/// Reads samples from a source that is best read sequentially.
protocol ForwardReader {
  associatedtype Sample: Sendable
  /// Reads sample `index`; the next one is cheap, others may require a restart.
  mutating func read(_ index: Int) throws -> Sample
  /// Reads the rest, where damage would matter.
  mutating func finish() throws
}

extension ForwardReader {
  mutating func finish() throws {}
}

/// The only reader of a take's video or depth, shared by all threads, and a buffer of samples that wait for a cursor.
///
/// The reader and the buffer have separate locks: while one thread decodes, others look up samples that it prefetched.
final class ForwardPrefetcher<Reader: ForwardReader>: SamplePrefetcher {
  private struct Held {
    var sample: Reader.Sample
    /// Number of blocks that need it.
    var uses: Int
  }

  private struct Position {
    var reader: Reader?
    /// Neighboring blocks may share a sample.
    var last: (index: Int, sample: Reader.Sample)?
  }

  let sampleBytes: Int
  private let open: @Sendable () throws -> Reader
  private let position = Mutex(Position())
  private let held = Mutex<[Int: Held]>([:])

  /// - Parameter open: Called when the first sample is read, and again after an error.
  init(sampleBytes: Int, open: @escaping @Sendable () throws -> Reader) {
    self.sampleBytes = sampleBytes
    self.open = open
  }

  func fetch(_ samples: [Int]) throws {
    for index in samples {
      let isHeld = held.withLock { held in
        held[index]?.uses += 1
        return held[index] != nil
      }
      if isHeld { continue }
      let sample = try read(index)
      held.withLock { $0[index] = Held(sample: sample, uses: 1) }
    }
  }

  func release(_ samples: [Int]) {
    held.withLock { held in
      for index in samples {
        held[index]?.uses -= 1
        if held[index]?.uses == 0 { held[index] = nil }
      }
    }
  }

  func finish() throws {
    try position.withLock { position in
      guard var reader = position.reader else { return }
      position.reader = nil
      try reader.finish()
      position.reader = reader
    }
  }

  /// A prefetched sample, or one that is read now.
  func sample(_ index: Int) throws -> Reader.Sample {
    if let sample = held.withLock({ $0[index]?.sample }) { return sample }
    return try read(index)
  }

  private func read(_ index: Int) throws -> Reader.Sample {
    try position.withLock { position in
      if let last = position.last, last.index == index { return last.sample }
      var reader = try position.reader ?? open()
      position.reader = nil
      let sample = try reader.read(index)
      position.reader = reader
      position.last = (index, sample)
      return sample
    }
  }
}
