import Synchronization
package import Takeset

/// Samples in memory that count how often they are read.
package final class CountingSource: SampleSource {
  private let samples: [[UInt8]]
  private let reads = Mutex(0)

  package init(_ samples: [[UInt8]]) { self.samples = samples }

  package var readCount: Int { reads.withLock(\.self) }

  package func makeCursor() -> any SampleCursor { Cursor(source: self) }

  package func probe(_ index: Int) { reads.withLock { $0 += 1 } }

  private struct Cursor: SampleCursor {
    let source: CountingSource
    func read(_ index: Int, into bytes: inout [UInt8]) {
      source.reads.withLock { $0 += 1 }
      bytes = source.samples[index]
    }
  }
}
