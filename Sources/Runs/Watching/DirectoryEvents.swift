import Foundation

/// Wakes a watch when something appears in a directory (inotify). Where the kernel or the file system reports nothing, as network file
/// systems do for changes of other machines, the watch finds it by looking again.
final class DirectoryEvents {
  private let descriptor: Int32
  private var watches: [String: Int32] = [:]

  init() { descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC)) }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Watches these directories and no others. One that cannot be watched, as beyond the system's limit, is left to looking.
  func watch(_ directories: Set<String>) {
    guard descriptor >= 0 else { return }
    for (path, number) in watches where !directories.contains(path) {
      inotify_rm_watch(descriptor, number)
      watches[path] = nil
    }
    // Added again each time, because another directory may have got the name; for the same one the kernel gives the same number.
    let mask = UInt32(IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) | UInt32(IN_ONLYDIR)
    for path in directories {
      let number = inotify_add_watch(descriptor, path, mask)
      if let other = watches[path], other != number { inotify_rm_watch(descriptor, other) }
      watches[path] = number >= 0 ? number : nil
    }
  }

  /// Waits up to some seconds; true when something has happened.
  func wait(seconds: Double) -> Bool {
    guard descriptor >= 0 else {
      Thread.sleep(forTimeInterval: seconds)
      return false
    }
    var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&waiting, 1, Int32(min(seconds * 1000, 60_000))) > 0 else { return false }
    var buffer = [UInt8](repeating: 0, count: 1 << 14)
    while read(descriptor, &buffer, buffer.count) > 0 {}
    return true
  }
}
