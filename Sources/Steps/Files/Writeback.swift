import CLinux
import Foundation
import Model

/// Makes the kernel write a growing file early, so that the fsync that seals it has little left to do.
///
/// Only a hint: failures are left to the fsync.
package final class Writeback {
  private static let step: Int64 = 16 << 20
  private let descriptor: Int32
  private var started: Int64 = 0

  package init(_ path: String) { descriptor = open(path, O_RDONLY | O_CLOEXEC) }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// - Parameter bytes: Approximate number of bytes written to the file so far.
  package func grown(to bytes: Int64) {
    guard descriptor >= 0, bytes - started >= Self.step else { return }
    clinux_start_writing(descriptor, started, bytes - started)
    started = bytes
  }

  package func finished() { if descriptor >= 0 { clinux_start_writing(descriptor, 0, 0) } }
}
