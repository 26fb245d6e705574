import ArgumentParser
import Foundation
import Phones

struct SimulateDevice: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "device", abstract: "A phone that registers at a server and sends signed captures.",
    discussion: """
      Makes a P-256 key and registers it with an API key. Each capture is a bundle of `takeset simulate realitycam-bundle` whose \
      end of the hash chain is signed by that key, sent by POST /api/v1/captures/video with a signature over time and body. The \
      same seed gives the same recording: video, depth and hash chain. The key, and so the signatures, are new unless --identity \
      keeps them.

        takeset simulate device --to http://127.0.0.1:8080 --key KEY --captures 3
        takeset simulate device --to http://127.0.0.1:8080 --key KEY --fault wrong-body

      Prints a line for each capture: its state, the server's id and the status there.

      Exit codes: 0 the server took all; 3 it refused some; 77 the device cannot register; 64 a mistake in the command; 1 could not start.
      """)

  @Option(help: ArgumentHelp("The server's root.", valueName: "url")) var to: String
  @Option(help: "API key; by default from TAKESET_KEY.") var key: String?
  @Option(help: ArgumentHelp("PEM file of certificates that count beside those of the system.", valueName: "file")) var caCert: String?
  @Option(help: ArgumentHelp("Captures to make and send.", valueName: "n")) var captures = 1
  @Option(help: ArgumentHelp("Length of each recording in seconds.", valueName: "s")) var seconds = 2.0
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH")) var size = "640x480"
  @Option(help: "Random seed of the first capture; the next ones follow.") var seed: UInt64 = 1
  @Flag(help: "Interrupted recordings, signed at their last checkpoint.") var partial = false
  @Option(
    help: ArgumentHelp(
      "A fault of the request (\(SimulatedDevice.requestFaults.joined(separator: ", "))) or of `takeset simulate realitycam-bundle`.",
      valueName: "fault")) var fault: String?
  @Option(help: "s2: an assertion over time and body; s1: a signature over the head; s0: none, as the app sends.") var signing = "s2"
  @Option(help: "Model that the device says it is.") var model = "simulated"
  @Option(help: ArgumentHelp("App that the assertions name: team and bundle.", valueName: "id")) var appID =
    "TAKESET001.org.example.capture"
  @Option(help: ArgumentHelp("Keep key, id and counter of the device here, for further runs.", valueName: "file")) var identity: String?
  @Flag(help: "Wait until the server has processed each capture, and print the status.") var wait = false
  @Flag(help: "Print JSON, a line for each capture.") var json = false
  @Option(help: ArgumentHelp("Attempts after which a request has failed.", valueName: "n")) var maxAttempts = 10
  @Option(help: ArgumentHelp("Seconds before the first repetition; doubled each time, up to 60 times.", valueName: "s")) var firstPause =
    1.0
  @Option(help: ArgumentHelp("Seconds without a byte after which a request fails.", valueName: "s")) var timeout = 60.0

  func validate() throws {
    guard (1...10_000).contains(captures) else { throw ValidationError("--captures: expected 1 to 10000") }
    guard (1...1000).contains(maxAttempts) else { throw ValidationError("--max-attempts: expected 1 to 1000") }
    guard firstPause >= 0.001, firstPause <= 3600 else { throw ValidationError("--first-pause: expected 0.001 to 3600") }
    guard (1...86_400).contains(timeout) else { throw ValidationError("--timeout: expected 1 to 86400") }
  }

  func run() throws {
    try Uploading.run {
      var options = SimulatedDevice.Options()
      (options.to, options.key, options.certificates) = (to, key, caCert)
      (options.captures, options.seconds) = (captures, seconds)
      (options.size, options.seed, options.isPartial, options.fault) = (size, seed, partial, fault)
      (options.signing, options.model, options.appID, options.identity) = (signing, model, appID, identity)
      (options.waits, options.maxAttempts, options.firstPause, options.timeout) = (wait, maxAttempts, firstPause, timeout)
      let (code, outcomes) = try await SimulatedDevice(options, takeset: "/proc/self/exe").run()
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
      for outcome in outcomes {
        let line =
          json
          ? String(decoding: try encoder.encode(outcome), as: UTF8.self)
          : "\(outcome.state)\t\(outcome.capture_id ?? "-")\t\(outcome.status ?? "-")"
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
      }
      return code
    }
  }
}
