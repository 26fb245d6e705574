import CGather
import Glibc

/// Runs `body`, whose calls of `HDF5Array.writeChunk` on this thread write their chunks together, at the end or before. One system call of some
/// MiB is cheaper than one for each chunk, and a reader finds the file in larger pieces in the page cache.
///
/// The bytes of the chunks must stay where they are until this returns.
///
/// - Parameter path: Names the file in errors.
/// - Throws: The error of `body`, or an `HDF5Error` of a write that failed.
package func gatheringChunks(of path: String, _ body: () throws -> Void) throws {
  cgather_begin()
  let result = Result { try body() }
  let failure = cgather_end()
  try result.get()
  if failure != 0 { throw HDF5Error(call: "pwritev", target: path, message: String(cString: strerror(failure)), code: failure) }
}
