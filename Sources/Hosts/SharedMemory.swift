import CSandbox
package import Evidence
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
    /// How often it was cleared: older ranges are not used again.
    var clearings = 0
    /// Blocks of which a step keeps something, by their places.
    var kept: [Int: SharedBlock] = [:]
  }

  fileprivate struct Range: @unchecked Sendable {
    var offset: Int
    var bytes: UnsafeMutableRawBufferPointer
    var clearings: Int
  }

  /// Bytes of all blocks together.
  static let size = 1 << 36

  /// - Parameter descriptor: Of the file, which is closed with the last block.
  init(_ descriptor: Int32) { self.descriptor = descriptor }

  deinit {
    for range in state.withLock(\.free) { munmap(range.bytes.baseAddress, range.bytes.count) }
    close(descriptor)
  }

  /// Makes a block of at least so many bytes, whose contents are arbitrary. Throws `TakeFailure` where there is no memory.
  package func block(_ bytes: Int) throws -> SharedBlock {
    let length = (max(bytes, 1) + 4095) & ~4095
    return SharedBlock(
      self,
      try state.withLock { state in
        if let index = state.free.firstIndex(where: { $0.bytes.count == length }) { return state.free.remove(at: index) }
        guard length <= Self.size - state.end,
          // All pages at once, which is faster than one after the other when they are written to.
          let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, off_t(state.end)),
          start != MAP_FAILED
        else {
          throw TakeFailure(
            .memoryLimit, "there is no memory for a block of \(bytes >> 20) MiB; a smaller block: of the step, or smaller images, take less"
          )
        }
        defer { state.end += length }
        return Range(
          offset: state.end, bytes: UnsafeMutableRawBufferPointer(start: start, count: length), clearings: state.clearings)
      })
  }

  fileprivate func give(_ range: Range) {
    state.withLock { state in
      if range.clearings == state.clearings {
        state.free.append(range)
      } else {
        munmap(range.bytes.baseAddress, range.bytes.count)
      }
    }
  }

  /// Bytes that have been used, as far as it was not cleared.
  var used: Int { state.withLock(\.end) }

  /// Notes what the answer to a block says: whether the step keeps something of it, and of which earlier ones it does not any more.
  package func note(_ answer: JSONValue, of block: SharedBlock) {
    let freed = (answer["free"]?.array ?? []).compactMap { $0.integer.flatMap { Int(exactly: $0) } }
    // Their ranges are given back outside of the lock.
    let gone = state.withLock { state in
      if answer["kept"] != nil { state.kept[block.offset] = block }
      return freed.map { state.kept.removeValue(forKey: $0) }
    }
    withExtendedLifetime(gone) {}
  }

  /// Gives back the blocks of which steps have kept something.
  func forget() {
    let kept = state.withLock { state in
      defer { state.kept = [:] }
      return state.kept
    }
    withExtendedLifetime(kept) {}
  }

  /// Gives the memory of all blocks back; nobody may read one any more.
  func clear() {
    state.withLock { state in
      for range in state.free { munmap(range.bytes.baseAddress, range.bytes.count) }
      state = State(clearings: state.clearings + 1)
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

  /// The place in the file.
  package var offset: Int { range.offset }
  /// The place in the file, for messages to the host.
  package var json: JSONValue { ["offset": JSONValue(range.offset), "bytes": JSONValue(range.bytes.count)] }
  package var bytes: UnsafeMutableRawBufferPointer { range.bytes }
}
