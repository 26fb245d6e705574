import CHDF5
import Foundation

/// A failed libhdf5 call: the call, its target, and the library's message.
package struct HDF5Error: Error, CustomStringConvertible, Equatable {
  package var call: String
  package var target: String
  package var message: String
  /// The system's error, where the library tells it.
  package var code: Int32?

  package init(call: String, target: String, message: String, code: Int32? = nil) {
    self.call = call
    self.target = target
    self.message = message
    self.code = code
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
  let (result, cause) = library.withLock { () -> (Status, (message: String, code: Int32?)?) in
    H5Eset_auto2(chdf5_default, nil, nil)
    let result = body()
    guard result < 0 else { return (result, nil) }
    return (result, takeErrorStack())
  }
  if let cause { throw HDF5Error(call: call, target: target(), message: cause.message, code: cause.code) }
  return result
}

/// Returns this thread's error stack as a message, with the error of the system call that failed; clears the stack. `H5Ewalk2`,
/// `H5Eclear2`.
private func takeErrorStack() -> (message: String, code: Int32?) {
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
  // The library's message of a failed system call has times, addresses and descriptors, and somewhere in it what the system said.
  for message in messages {
    guard let range = message.range(of: "errno = "), let code = Int32(message[range.upperBound...].prefix { $0.isNumber }), code != 0
    else { continue }
    return (String(cString: strerror(code)), code)
  }
  guard let cause = messages.first else { return ("no message from the library", nil) }
  guard let outcome = messages.last, outcome != cause else { return (cause, nil) }
  return ("\(cause) (\(outcome))", nil)
}

/// Version of the linked libhdf5, as in "1.10.8".
package func libraryVersion() -> String {
  var (major, minor, release): (UInt32, UInt32, UInt32) = (0, 0, 0)
  _ = try? hdf5("H5get_libversion", "") { H5get_libversion(&major, &minor, &release) }
  return "\(major).\(minor).\(release)"
}
