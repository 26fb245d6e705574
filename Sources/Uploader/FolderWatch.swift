import Foundation

/// Finds captures that appear in a folder, once they rest: nothing in them has changed for some time. Entries at the top of the folder
/// rest as a whole, so that a movie is not taken out of a folder that is still being copied.
struct FolderWatch {
  private struct Seen {
    var fingerprint: String
    var since: Double
    var isTaken = false
  }

  let folder: String
  /// Seconds.
  let rest: Double
  private var seen: [String: Seen] = [:]

  init(_ folder: String, rest: Double) throws {
    guard let status = FileTree.status(folder, followsLinks: true), status.st_mode & S_IFMT == S_IFDIR else {
      throw UploaderProblem("\(folder): there is no such folder to watch")
    }
    (self.folder, self.rest) = (folder, rest)
  }

  /// Captures that have come to rest since the last look; also those that were changed.
  mutating func look(now: Double = ProcessInfo.processInfo.systemUptime) throws -> [LocalCapture] {
    var found: [LocalCapture] = []
    var present: Set<String> = []
    for name in try names().sorted() where !name.hasPrefix(".") {
      let path = folder + "/" + name
      // What cannot be listed, as a folder that is being moved away, is looked at again.
      guard let fingerprint = try? FileTree(path).fingerprint else { continue }
      present.insert(name)
      var entry = seen[name] ?? Seen(fingerprint: fingerprint, since: now)
      if entry.fingerprint != fingerprint { entry = Seen(fingerprint: fingerprint, since: now) }
      if !entry.isTaken, now - entry.since >= rest {
        entry.isTaken = true
        found += (try? CaptureFinder.captures(at: path)) ?? []
      }
      seen[name] = entry
    }
    seen = seen.filter { present.contains($0.key) }
    return found
  }

  private func names() throws -> [String] {
    do { return try FileTree.names(in: folder, skipsOthers: true) } catch let problem as FileTree.Problem {
      throw UploaderProblem(problem.description)
    }
  }
}
