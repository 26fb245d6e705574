import ArgumentParser
import CaptureServer

struct ConvertCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "convert", abstract: "Queue captures for another conversion.",
    discussion: """
        takeset-server convert --data DIR --failed          after the cause was mended
        takeset-server convert --data DIR --all             after an upgrade of takeset, or with another pipeline
        takeset-server convert --data DIR 1d0e…             these captures

      A running server begins within a second, another one when it starts. What an earlier conversion wrote stays in the dataset until the \
      new one has an outcome.
      """)

  @Option(help: "The server's data folder.") var data: String
  @Flag(help: "Captures whose conversion failed.") var failed = false
  @Flag(help: "All captures that were converted before, whatever became of them.") var all = false
  @Argument(help: "Ids of captures.") var captures: [String] = []

  func validate() throws {
    if [failed, all, !captures.isEmpty].count(where: { $0 }) != 1 { throw ValidationError("give --failed, --all, or ids of captures") }
  }

  func run() async throws {
    guard ServerDatabase.exists(in: data) else { throw ValidationError("--data \(data): there is no data of a server") }
    let reconversion = Reconversion(try ServerDatabase(data: data))
    let count = try await reconversion.queue(failed ? .failed : all ? .all : .captures(captures))
    print("\(count) \(count == 1 ? "capture" : "captures") queued")
    if count < captures.count { throw ValidationError("\(captures.count - count) cannot be: unknown, queued already, or without files") }
  }
}
