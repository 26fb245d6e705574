import ArgumentParser
import CLinux
import Foundation
import Merging
import Model
import Reports
import Steps

struct PackCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pack", abstract: "Pack a dataset directory into one self-contained HDF5 file.",
    discussion: """
      The file holds all episodes, masks and statistics, for sharing; stored chunks are copied unchanged.

        takeset pack dataset/ --output dataset-2026-01.h5
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(name: .shortAndLong, help: "The file to write; must not exist.")
  var output: String

  func run() throws {
    try checkIsFolder(directory)
    let packed = try interruptibly { isCancelled in
      try Pack.pack(
        directory: directory, output: output, threads: Cores.available, checks: CheckProcess.checks, isCancelled: isCancelled
      ) { path in
        try copy(to: path, isCancelled)
      }
    }
    for note in packed.notes { standardError("note: \(note)") }
    standardOutput("\(output): \(several(packed.episodes, "episode")), sha256 \(packed.digest)")
  }

  /// Copies the dataset in a process of its own: libhdf5 may crash as it copies to a disk that becomes full.
  private func copy(to path: String, _ isCancelled: () -> Bool) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe")
    process.arguments = ["pack-copy", "--", directory, path]
    process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
    let errors = Pipe()
    process.standardError = errors
    try process.run()
    while process.isRunning {
      if isCancelled() { kill(process.processIdentifier, SIGKILL) }
      Thread.sleep(forTimeInterval: 0.01)
    }
    process.waitUntilExit()
    if isCancelled() { throw CancellationError() }
    if process.terminationReason == .uncaughtSignal {
      let signal = process.terminationStatus
      throw PackFailure(
        description: [SIGKILL, SIGTERM, SIGINT].contains(signal)
          ? "the process that copies was ended by signal \(signal)"
          : "libhdf5 crashed (signal \(signal)), as it does when a disk becomes full, or on a shard that is made to crash it")
    }
    guard process.terminationStatus != 0 else { return }
    let words = String(decoding: (try? errors.fileHandleForReading.readToEnd()) ?? Data(), as: UTF8.self)
    let sentence = words.trimmingCharacters(in: .whitespacesAndNewlines).replacing("takeset: ", with: "")
    if process.terminationStatus == 65 { throw ExportRefusal(sentence) }
    throw PackFailure(description: sentence)
  }
}

/// The last words of the process that copies, or the way it ended.
private struct PackFailure: Error, CustomStringConvertible { var description: String }

/// The hidden command that `PackCommand` starts.
struct PackCopyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "pack-copy", shouldDisplay: false)

  @Argument var directory: String
  @Argument var path: String

  func run() throws {
    clinux_end_with_parent()
    try Pack.copy(directory, to: path)
  }
}
