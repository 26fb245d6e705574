import ArgumentParser
import Foundation
import Model
import Reports
import Steps

struct ReportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "report", abstract: "Show a dataset as one HTML page: outcomes, findings, images, trajectories, timing.",
    discussion: """
      The page is one file without links to others: open it from disk, or send it. The same dataset gives the same bytes. \
      Rejected and failed takes are on it with their reasons, and so is a take whose file is damaged.

        takeset report dataset/ --output report.html
        takeset report dataset/ --output report.html --max-size 20 --thumbnails 12
        takeset report dataset/ --output report.html --watch
        takeset report dataset/ --json | jq '.takes[] | select(.frames_missing > 10).id'

      --watch is for use beside a running takeset run: the page shows the takes that are finished, is rewritten every few \
      seconds and reloads itself in the browser, where filters and opened takes stay as they are. It ends when the run has \
      ended, with the final page. If no run is in progress, it waits 10 seconds for one to start. Exit code 73 when the \
      output exists.
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(
    name: .shortAndLong, help: ArgumentHelp("The page to write; must not exist.", valueName: "file.html"),
    completion: .file(extensions: ["html"]))
  var output: String?
  @Flag(help: "Overwrite the output. --watch overwrites an earlier report even without this.")
  var replace = false
  @Flag(help: "Rewrite the page every few seconds while a run is in progress.")
  var watch = false
  @Option(help: ArgumentHelp("Seconds between pages, with --watch.", valueName: "seconds"))
  var interval = 5.0
  @Option(help: ArgumentHelp("Images per take, 0 to 24.", valueName: "n"))
  var thumbnails = 6
  @Option(
    help: ArgumentHelp(
      "Largest size of the page in MB: images become smaller and fewer, and those of the last takes are left out. By default 5, and more for over 2000 takes.",
      valueName: "MB"))
  var maxSize: Double?
  @Option(help: ArgumentHelp("Heading of the page.", valueName: "text"))
  var title: String?
  @OptionGroup var jobs: JobOptions
  @Flag(help: "Print the numbers of every take as JSON; --output is then not needed.")
  var json = false
  @Flag(name: .shortAndLong, help: "Print problems only.")
  var quiet = false

  func validate() throws {
    if output == nil, !json { throw ValidationError("name the page to write: --output report.html") }
    if watch, output == nil { throw ValidationError("--watch needs --output") }
    if watch, json { throw ValidationError("--watch writes pages only; run takeset report --json by itself") }
    if !(0...24).contains(thumbnails) { throw ValidationError("--thumbnails: expected 0 to 24, found \(thumbnails)") }
    if !(0.1...3600).contains(interval) { throw ValidationError("--interval: expected 0.1 to 3600 seconds, found \(interval)") }
    if let maxSize, !(0.1...2000).contains(maxSize) { throw ValidationError("--max-size: expected 0.1 to 2000 MB, found \(maxSize)") }
  }

  func run() throws {
    var page = ReportPage(tool: TakesetCommand.tool)
    if let title { page.title = title }
    (page.thumbnails, page.threads, page.checks) = (thumbnails, jobs.threads, CheckProcess.checks)
    page.byteLimit = maxSize.map { Int($0 * 1e6) }
    let file = try output.map { try ReportFile($0, of: directory, replacing: replace, watching: watch) }
    if try Directory.kind(at: directory, followingLinks: true) == .file { try checkIsFolder(directory) }
    if watch, let file { return try ReportWatch(page: page, file: file, directory: directory, interval: interval, quiet: quiet).run() }
    try checkIsFolder(directory)
    if let file {
      let summary = try page.render(directory)
      try file.write(summary.html)
      for problem in summary.problems { standardError("\(problem.id): \(problem.reason)") }
      if !quiet, !json { standardOutput(Self.sentence(summary, file, imagesAreShown: thumbnails > 0)) }
    }
    if json { standardOutput(try page.table(directory).canonicalText) }
  }

  static func sentence(_ summary: ReportPage.Summary, _ file: ReportFile, imagesAreShown: Bool) -> String {
    let size = megabytes(summary.html.count)
    let problems = summary.problems.isEmpty ? "" : ", \(summary.problems.count) unreadable"
    return
      "\(file.path): \(counted(summary.takes, "take"))\(problems), \(summary.illustrated) with \(imagesAreShown ? "images and plots" : "plots"), \(size)"
  }
}

/// The file that a report is written to.
struct ReportFile {
  let path: String

  /// Throws `OutputExists` for a file that must not be overwritten, `UsageError` for one of the dataset's own files.
  init(_ path: String, of directory: String, replacing: Bool, watching: Bool) throws {
    self.path = path
    guard let kind = try Directory.kind(at: path, followingLinks: true) else { return }
    guard kind == .file else { throw OutputExists(path, remedy: "and is not a file; choose another name") }
    guard replacing || watching && ReportPage.isReport(path) else {
      throw OutputExists(path, remedy: "choose another name, or give --replace to overwrite it")
    }
    if ReportPage.isOwn(path, ofDataset: directory) {
      throw UsageError("\(path) is a file of the dataset; choose another name for the page")
    }
  }

  /// Writes the page; a reader of the file sees the old page or the new one, never a part.
  func write(_ html: [UInt8]) throws {
    do {
      try FileManager.default.createDirectory(
        at: URL(fileURLWithPath: path).deletingLastPathComponent(), withIntermediateDirectories: true)
      try SealedFile.write(path) { write in try html.withUnsafeBytes(write) }
    } catch {
      throw OutputFailure("cannot write \(path): \(error)")
    }
  }
}

/// Rewrites a report until the run beside it has ended.
struct ReportWatch {
  let page: ReportPage
  let file: ReportFile
  let directory: String
  let interval: Double
  let quiet: Bool

  /// Seconds to wait for a run to start.
  private static let grace = 10.0

  func run() throws {
    let interruption = Interruption()
    let cache = ReportCache(isKept: true)
    let progress = RunProgress(directory)
    let start = Date()
    var (hasRun, shown): (Bool, String?) = (false, nil)
    while interruption.signal == nil {
      let began = Date()
      let isRunning = progress.isRunning
      if isRunning { hasRun = true }
      if !isRunning, hasRun || Date().timeIntervalSince(start) >= Self.grace { break }
      let stamp = progress.stamp
      if let stamp, stamp != shown {
        do {
          let summary = try page.render(directory, live: ReportPage.Live(interval: interval), cache: cache)
          try file.write(summary.html)
          shown = stamp
          if !quiet { standardError("\(file.path): \(counted(summary.takes, "take")) so far") }
        } catch let error where !(error is OutputFailure) {
          // The run may be replacing its files just now.
          if !isRunning { throw error }
        }
      }
      // A page that takes long to make is made less often.
      sleep(max(interval, 2 * Date().timeIntervalSince(began)), interruption)
    }
    if progress.stamp != nil {
      let summary = try page.render(directory)
      try file.write(summary.html)
      for problem in summary.problems { standardError("\(problem.id): \(problem.reason)") }
      if !quiet { standardOutput(ReportCommand.sentence(summary, file, imagesAreShown: page.thumbnails > 0)) }
    }
    if let signal = interruption.signal { throw ExitCode(128 + signal) }
    if progress.stamp == nil { throw NoInputs(path: directory) }
  }

  private func sleep(_ seconds: Double, _ interruption: Interruption) {
    let end = Date().addingTimeInterval(seconds)
    while interruption.signal == nil, Date() < end { Thread.sleep(forTimeInterval: min(0.05, max(0, end.timeIntervalSinceNow))) }
  }
}
