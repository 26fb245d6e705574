package import Model
import Synchronization

/// Samples in memory that count how often they are read.
package final class CountingSource: SampleSource {
  private let samples: [[UInt8]]
  private let reads = Mutex(0)

  package init(_ samples: [[UInt8]]) { self.samples = samples }

  package var readCount: Int { reads.withLock(\.self) }

  package var access: SampleAccess { .random }

  /// Makes a cursor whose reads are counted.
  package func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private struct Cursor: SampleCursor {
    let source: CountingSource
    var size: ImageSize? { nil }
    func read(_ index: Int, into bytes: inout [UInt8]) {
      source.reads.withLock { $0 += 1 }
      bytes = source.samples[index]
    }
  }
}
