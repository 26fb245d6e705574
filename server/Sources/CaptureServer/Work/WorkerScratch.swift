import Foundation

/// A worker's folder. What a killed worker left is removed by the next one that uses the same place.
struct WorkerScratch: Sendable {
  let path: String
  /// Locked for as long as the process lives.
  private let lock: Int32
  private static let prefix = "takeset-work-"

  /// Throws `Failure`.
  init(below folder: String) throws {
    try DurableFile.makeFolders(folder)
    for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] where name.hasPrefix(Self.prefix) {
      guard let lock = Self.lock(folder + "/" + name) else { continue }
      DurableFile.removeFolder(folder + "/" + name)
      close(lock)
    }
    path = folder + "/" + Self.prefix + UUID().uuidString.lowercased()
    try DurableFile.makeFolder(path)
    guard let lock = Self.lock(path) else { throw DurableFile.failure("lock", path) }
    self.lock = lock
  }

  /// `nil` if a worker that lives has it.
  private static func lock(_ path: String) -> Int32? {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
    close(descriptor)
    return nil
  }

  func discard() {
    DurableFile.removeFolder(path)
    close(lock)
  }
}
