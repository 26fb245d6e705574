import Foundation

/// Passes uninitialized memory to `body`. Swift's own `withUnsafeTemporaryAllocation` and `allocate` request aligned memory above a
/// kilobyte, and glibc before 2.38 does not reuse freed aligned memory for requests of the same size.
package func withBuffer<Result>(of bytes: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Result) rethrows -> Result {
  let memory = malloc(bytes)
  defer { free(memory) }
  return try body(UnsafeMutableRawBufferPointer(start: memory, count: bytes))
}
