import Foundation
import Logging

extension DataFolder {
  /// The report about a dataset. It may be older than the dataset.
  func report(of dataset: String) -> String { path + "/reports/" + dataset + ".html" }
}

/// The exact time at which a file was written.
struct FileStamp: Equatable, Sendable {
  private let seconds: Int
  private let nanoseconds: Int

  /// `nil` where there is no file.
  init?(of path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
  }

  /// Since 1970.
  var milliseconds: Int64 { Int64(clamping: seconds) &* 1000 &+ Int64(clamping: nanoseconds / 1_000_000) }

  /// Gives a file this time.
  func set(on path: String) -> Bool {
    let time = timespec(tv_sec: seconds, tv_nsec: nanoseconds)
    return utimensat(AT_FDCWD, path, [time, time], 0) == 0
  }
}

/// Makes reports about datasets when they are asked for, and keeps them until the dataset changes.
///
/// A report has the time of the manifest that it is about: if the two differ, it is made again. One child process at a time makes the
/// report of a dataset, and whoever asks meanwhile waits for it.
actor DatasetReports {
  enum State: Sendable {
    /// Its path.
    case ready(String)
    /// It takes longer than a reader likes to wait.
    case making
    case failed
    /// There is no such dataset.
    case none
  }

  private let data: DataFolder
  private let takeset: TakesetCommand
  private let logger: Logger
  private var making: Set<String> = []
  private var failures: [String: (stamp: FileStamp, at: ContinuousClock.Instant)] = [:]

  /// Seconds that a report may take.
  private static let seconds = 600
  /// Tenths of a second that a reader waits.
  private static let patience = 50
  /// Time for which a failure is believed.
  private static let pause = Duration.seconds(60)

  init(configuration: Configuration, data: DataFolder, logger: Logger) {
    (self.data, self.logger, takeset) = (data, logger, TakesetCommand(configuration))
  }

  func report(of name: String) async -> State {
    let path = data.report(of: name)
    for _ in 0..<Self.patience {
      guard let folder = try? data.dataset(name), let stamp = FileStamp(of: folder + "/manifest.json") else { return .none }
      if FileStamp(of: path) == stamp { return .ready(path) }
      if making.insert(name).inserted {
        if let failure = failures[name], failure.stamp == stamp, .now - failure.at < Self.pause {
          making.remove(name)
          return .failed
        }
        // Goes on if the reader leaves: the next one will want it, too.
        Task { await make(name, stamp) }
      }
      try? await Task.sleep(for: .milliseconds(100))
    }
    return .making
  }

  private func make(_ name: String, _ stamp: FileStamp) async {
    defer { making.remove(name) }
    var problem: String?
    do {
      let work = try WorkFolder(below: data.work)
      defer { work.discard() }
      let made = work.path + "/report.html"
      let end = try await takeset(
        ["report", try data.dataset(name), "--output", made, "--title", "Dataset \(name)", "--jobs", "1", "--quiet"], in: work.path,
        seconds: Self.seconds)
      problem = end.code == 0 && stamp.set(on: made) ? nil : end.isOverdue ? "it takes too long" : end.words
      if problem == nil {
        try DurableFile.makeFolder(data.path + "/reports")
        try DurableFile.rename(made, to: data.report(of: name))
      }
    } catch {
      problem = (error as? Failure)?.reason ?? "\(error)"
    }
    // A dataset that was replaced meanwhile is tried again at once.
    failures[name] = problem.map { _ in (stamp, .now) }
    if let problem { logger.error("report of dataset \(name): \(problem)") }
  }
}
