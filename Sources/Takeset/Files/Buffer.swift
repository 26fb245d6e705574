import Foundation

/// Hands `body` uninitialized memory. Swift's own `withUnsafeTemporaryAllocation` and `allocate` ask for aligned memory above a
/// kilobyte, and what glibc before 2.38 gets back of that it does not give out again for as much.
func withBuffer<Result>(of bytes: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Result) rethrows -> Result {
  let memory = malloc(bytes)
  defer { free(memory) }
  return try body(UnsafeMutableRawBufferPointer(start: memory, count: bytes))
}
