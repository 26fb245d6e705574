import CSandbox
import Foundation
import Model
import Synchronization

/// Memory that this process and a host share: a file in memory of a size that never changes, of which only what is used takes memory.
package final class SharedMemory: Sendable {
  let descriptor: Int32
  private let state = Mutex(State())

  private struct State {
    var free: [Range] = []
    var end = 0
  }

  fileprivate struct Range: @unchecked Sendable {
    var offset: Int
    var bytes: UnsafeMutableRawBufferPointer
  }

  /// Bytes of all blocks together.
  static let size = 1 << 36

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  deinit { clear() }

  /// Makes a block of at least so many bytes, whose contents are arbitrary. Throws `TakeFailure` where there is no memory.
  package func block(_ bytes: Int) throws -> SharedBlock {
    let length = (max(bytes, 1) + 4095) & ~4095
    return SharedBlock(
      self,
      try state.withLock { state in
        if let index = state.free.firstIndex(where: { $0.bytes.count == length }) { return state.free.remove(at: index) }
        guard length <= Self.size - state.end,
          let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, off_t(state.end)), start != MAP_FAILED
        else {
          throw TakeFailure(
            .memoryLimit, "there is no memory for a block of \(bytes >> 20) MiB; a smaller block: of the step, or smaller images, take less"
          )
        }
        defer { state.end += length }
        return Range(offset: state.end, bytes: UnsafeMutableRawBufferPointer(start: start, count: length))
      })
  }

  fileprivate func give(_ range: Range) { state.withLock { $0.free.append(range) } }

  /// Gives the memory of all blocks back, none of which may be in use.
  func clear() {
    state.withLock { state in
      for range in state.free { munmap(range.bytes.baseAddress, range.bytes.count) }
      state = State()
    }
    // Another process may have used blocks of it.
    csandbox_clear_memory_file(descriptor, Int64(Self.size))
  }
}

/// A range of shared memory, which another block gets when this one is gone.
///
/// `@unchecked Sendable`: whoever makes it writes to it before others see it, and a host writes to it while it is called.
package final class SharedBlock: @unchecked Sendable {
  private let memory: SharedMemory
  private let range: SharedMemory.Range

  fileprivate init(_ memory: SharedMemory, _ range: SharedMemory.Range) { (self.memory, self.range) = (memory, range) }

  deinit { memory.give(range) }

  /// The place in the file, for messages to the host.
  package var offset: Int { range.offset }
  package var bytes: UnsafeMutableRawBufferPointer { range.bytes }
}
