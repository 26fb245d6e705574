import Datasets
import Foundation
import Steps

/// Whether a run is writing into a dataset's directory, as seen from outside of it.
package final class RunProgress {
  private let directory: String
  private var hasSeenLock = false

  /// A journal that was written to within this many seconds belongs to a run, unless its lock says otherwise.
  private static let recent = 60.0

  package init(_ directory: String) { self.directory = directory }

  /// A run on this machine holds a lock on the directory. If it runs elsewhere, on a shared disk, only the growing journal can be seen.
  package var isRunning: Bool {
    if isLocked {
      hasSeenLock = true
      return true
    }
    guard !hasSeenLock, let journal = try? FileStamp.of(directory + "/" + DatasetFiles.journal) else { return false }
    let manifest = try? FileStamp.of(directory + "/" + DatasetFiles.manifest)
    let age = Date().timeIntervalSince1970 - Double(journal.modified) / 1e9
    return age < Self.recent && journal.modified > manifest?.modified ?? .min
  }

  /// Changes with the journal and the manifest; `nil` while there is neither.
  package var stamp: String? {
    let stamps = [DatasetFiles.journal, DatasetFiles.manifest].map { (try? FileStamp.of(directory + "/" + $0))?.description }
    return stamps.allSatisfy { $0 == nil } ? nil : stamps.map { $0 ?? "-" }.joined(separator: ", ")
  }

  /// Whether any process has an exclusive lock of `flock` on the directory, as `proc(5)` lists them. Trying to lock it would for a moment
  /// keep a run from starting.
  private var isLocked: Bool {
    var status = stat()
    let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    guard fstat(descriptor, &status) == 0, let locks = try? String(contentsOfFile: "/proc/locks", encoding: .utf8) else { return false }
    return locks.split(separator: "\n").contains { line in
      let fields = line.split(separator: " ")
      // 1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF; the device of some file systems is not that of `stat`.
      return fields.contains("FLOCK") && fields.contains("WRITE")
        && fields.contains {
          $0.split(separator: ":").count == 3 && $0.split(separator: ":").last.flatMap { UInt64($0) } == UInt64(status.st_ino)
        }
    }
  }
}

extension ReportPage {
  /// Whether a file is a page that this program wrote.
  package static func isReport(_ path: String) -> Bool {
    guard let handle = FileHandle(forReadingAtPath: path), let head = try? handle.read(upToCount: 4096) else { return false }
    return String(decoding: head, as: UTF8.self).contains("<meta name=\"generator\" content=\"\(PageFrame.generator) ")
  }

  /// Whether a file belongs to a dataset.
  package static func isOwn(_ path: String, ofDataset directory: String) -> Bool {
    let (file, root) = (Directory.absolute(path), Directory.absolute(directory))
    let names = [DatasetFiles.manifest, DatasetFiles.journal, DatasetFiles.index]
    return names.contains { file == root + "/" + $0 } || file.hasPrefix(root + "/" + DatasetFiles.episodes + "/")
  }
}
