import Foundation
import Hummingbird
import NIOPosix

/// A dataset as it is at a moment: second names for its files, because the folder is replaced as soon as a capture arrives.
/// They are removed with it.
final class DatasetDownload: Sendable {
  private let work: WorkFolder
  private let files: [CaptureFile]

  /// Throws `Failure`.
  init(of name: String, in data: DataFolder) async throws {
    let folder = try data.dataset(name)
    var problem: any Error = Failure(
      .serviceUnavailable, "DATASET_CHANGES", "The dataset is replaced at the moment. Try again.", headers: [.retryAfter: "1"])
    for _ in 0..<Self.attempts {
      let work = try WorkFolder(below: data.work)
      do {
        if let files = try await NIOThreadPool.singleton.runIfActive({ try Self.link(folder, to: work.path) }) {
          (self.work, self.files) = (work, files)
          return
        }
      } catch {
        // Perhaps of files that are gone because the dataset was replaced.
        problem = error
      }
      work.discard()
    }
    throw problem
  }

  private static let attempts = 5

  deinit { work.discard() }

  /// Its files, none where there is no dataset; `nil` where it was replaced meanwhile, and removed while it was listed.
  private static func link(_ folder: String, to copy: String) throws -> [CaptureFile]? {
    guard let root = opendir(folder) else { return [] }
    defer { closedir(root) }
    // With a part behind it, because it is a link.
    let here = "/proc/self/fd/\(dirfd(root))/."
    let files = try FileManager.default.subpathsOfDirectory(atPath: here).sorted().compactMap { name -> CaptureFile? in
      var status = stat()
      guard lstat(here + "/" + name, &status) == 0 else { throw DurableFile.failure("examine", name) }
      if status.st_mode & S_IFMT == S_IFDIR {
        try DurableFile.makeFolder(copy + "/" + name)
        return nil
      }
      guard status.st_mode & S_IFMT == S_IFREG else { return nil }
      try DurableFile.link(here + "/" + name, to: copy + "/" + name)
      return CaptureFile(capture: (copy as NSString).lastPathComponent, name: name, bytes: Int64(status.st_size), sha256: "")
    }
    var (before, after) = (stat(), stat())
    guard fstat(dirfd(root), &before) == 0, stat(folder, &after) == 0 else { return nil }
    return before.st_ino == after.st_ino && before.st_dev == after.st_dev ? files : nil
  }

  /// A tar with the dataset in a folder of its name. Throws `Failure` where there is none.
  func response(named name: String) throws -> Response {
    guard !files.isEmpty else { throw Failure(.notFound, "NOT_FOUND", "There is no such dataset") }
    let store = try LocalStore((work.path as NSString).deletingLastPathComponent)
    return TarAnswer(name: name, members: files.map { .init(name: "\(name)/\($0.name)", bytes: $0.bytes) }) { number, write in
      try await store.read(self.files[number], 0..<self.files[number].bytes, write)
    }.response()
  }
}
