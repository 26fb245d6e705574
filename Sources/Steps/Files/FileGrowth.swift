import CLinux
import Foundation
import Model

/// Tells the kernel early of a file that grows: space is reserved ahead, which takes a quarter less time than finding it for each page, and
/// what has been written goes to the disk early, so that the fsync that seals the file has little left to do.
///
/// Only hints: failures are left to the writes and to the fsync.
package final class FileGrowth {
  private static let step: Int64 = 16 << 20
  private static let (leastReserved, mostReserved): (Int64, Int64) = (4 << 20, 32 << 20)
  private let descriptor: Int32
  private var started: Int64 = 0
  private var reserved: Int64 = 0
  private var reserves = true

  package init(_ path: String) { descriptor = open(path, O_WRONLY | O_CLOEXEC) }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// - Parameter bytes: Approximate number of bytes written to the file so far.
  package func grown(to bytes: Int64) {
    guard descriptor >= 0 else { return }
    // A small file reserves nothing, and the others about what they have.
    if reserves, bytes >= Self.leastReserved, bytes > reserved - Self.leastReserved / 2 {
      let more = min(max(bytes, Self.leastReserved), Self.mostReserved)
      reserves = clinux_reserve(descriptor, max(bytes, reserved), more) == 0
      reserved = max(bytes, reserved) + more
    }
    guard bytes - started >= Self.step else { return }
    clinux_start_writing(descriptor, started, bytes - started)
    started = bytes
  }

  /// Gives back what was reserved and not needed, once nothing writes to the file any more.
  package func finished() {
    var status = stat()
    guard descriptor >= 0, fstat(descriptor, &status) == 0 else { return }
    if reserved > status.st_size { ftruncate(descriptor, status.st_size) }
    clinux_start_writing(descriptor, 0, 0)
  }
}
