import CHDF5
import Foundation

/// A failed libhdf5 call: the call, its target, and the library's message.
package struct HDF5Error: Error, CustomStringConvertible, Equatable {
  package var call: String
  package var target: String
  package var message: String

  package init(call: String, target: String, message: String) {
    self.call = call
    self.target = target
    self.message = message
  }

  package var description: String { "\(call) failed for \"\(target)\": \(message)" }
}

/// The lock on libhdf5's process-wide state. Debian's build is thread-safe; this lock makes other builds safe.
///
/// It is not a `Mutex`, on which waiting threads would spin: with many short takes, threads spend much of their time waiting here.
private let library = {
  // The library's own exit handler would retry writes that already failed (a full disk), forever.
  H5dont_atexit()
  H5open()
  return NSLock()
}()

/// Runs one libhdf5 call under the lock and throws an `HDF5Error` for a negative result.
///
/// The library keeps one error stack per thread and prints it unless disabled on that same thread; a stack that is not cleared
/// makes the library loop at exit. Hence all of it happens here: silence, run, walk, clear.
@discardableResult
func hdf5<Status: SignedInteger & Sendable>(
  _ call: String, _ target: @autoclosure () -> String, _ body: () -> Status
) throws(HDF5Error) -> Status {
  let (result, message) = library.withLock { () -> (Status, String?) in
    H5Eset_auto2(chdf5_default, nil, nil)
    let result = body()
    guard result < 0 else { return (result, nil) }
    return (result, takeErrorStack())
  }
  if let message { throw HDF5Error(call: call, target: target(), message: message) }
  return result
}

/// Messages of this thread's error stack, cause first; clears the stack. `H5Ewalk2`, `H5Eclear2`.
private func takeErrorStack() -> String {
  var messages: [String] = []
  withUnsafeMutablePointer(to: &messages) { pointer in
    _ = H5Ewalk2(
      chdf5_default, H5E_WALK_UPWARD,
      { _, error, context in
        guard let description = error?.pointee.desc, let context else { return 0 }
        context.assumingMemoryBound(to: [String].self).pointee.append(String(cString: description))
        return 0
      }, pointer)
  }
  H5Eclear2(chdf5_default)
  guard let cause = messages.first else { return "no message from the library" }
  // The library's message of a failed system call has times, addresses and descriptors; what the system said is in it.
  if let range = cause.range(of: "error message = '"), let end = cause[range.upperBound...].firstIndex(of: "'") {
    return String(cause[range.upperBound..<end])
  }
  guard let outcome = messages.last, outcome != cause else { return cause }
  return "\(cause) (\(outcome))"
}

/// Version of the linked libhdf5, as in "1.10.8".
package func libraryVersion() -> String {
  var (major, minor, release): (UInt32, UInt32, UInt32) = (0, 0, 0)
  _ = try? hdf5("H5get_libversion", "") { H5get_libversion(&major, &minor, &release) }
  return "\(major).\(minor).\(release)"
}
