import ArgumentParser
import CaptureServer
import Foundation

struct RestoreCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore", abstract: "Make a data folder's database from the copies of --standby.",
    discussion: """
        takeset-server restore --from s3://bucket/standby --data DIR

      For a machine that takes the place of another one. Be sure that the other server has ended and does not start again; then restore, and \
      start the server with the other one's settings. Captures in --store s3://… are there at once; those in a folder come from your copy \
      of that folder. What was converted is converted again.

      Exit codes: 0 restored; 3 restored but for changes at the end whose copy is missing or damaged; 1 there is no copy, or it is damaged; 64 a mistake in the command.
      """)

  @Option(help: "The place of --standby: a folder, or s3://bucket/prefix?endpoint=…") var from: String
  @Option(help: "The new server's data folder, which has no database yet.") var data: String

  func run() async throws {
    do {
      let outcome = try await DatabaseRestore(from: from).restore(to: data)
      let newest = outcome.newest.map { ", the newest of \($0)" } ?? ""
      print("restored \(outcome.captures) \(outcome.captures == 1 ? "capture" : "captures")\(newest)")
      if outcome.isCut {
        FileHandle.standardError.write(Data("warning: a part of the log is missing or damaged; the changes behind it are lost\n".utf8))
        throw ExitCode(3)
      }
    } catch let code as ExitCode {
      throw code
    } catch {
      FileHandle.standardError.write(Data("error: \(Mistake(error))\n".utf8))
      throw ExitCode(1)
    }
  }
}
