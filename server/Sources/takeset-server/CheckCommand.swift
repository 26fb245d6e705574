import ArgumentParser
import CaptureServer
import Foundation

struct CheckCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check", abstract: "Say whether a server with these settings would work.",
    discussion: """
        takeset-server check --config /etc/takeset/server.yaml
        takeset-server check --data DIR --listen 0.0.0.0:8443 --tls-cert chain.pem --tls-key key.pem

      Takes the settings of `serve`, and prints a line for each thing that was examined: ok, warning or problem, and what helps. It changes \
      nothing, and may run beside the server. Run it as the server's user.

      Exit codes: 0 it would work; 1 there is a problem; 64 a mistake in the settings.
      """)

  @Option(help: "YAML file of settings.") var config: String?
  @Flag(help: "Print JSON: name, state, message and remedy of each.") var json = false
  @Argument(parsing: .allUnrecognized, help: .hidden) var settings: [String] = []

  func run() async throws {
    let findings = await SetupCheck(try ServeCommand.configuration(settings, config)).findings()
    let works = !findings.contains { $0.state == .problem }
    if json {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
      print(String(decoding: try encoder.encode(Report(checks: findings, works: works)), as: UTF8.self))
    } else {
      for finding in findings {
        let state = finding.state.rawValue.padding(toLength: 8, withPad: " ", startingAt: 0)
        let remedy = finding.remedy.map { ". " + $0.prefix(1).uppercased() + $0.dropFirst() } ?? ""
        print("\(state) \(finding.name): \(finding.message)\(remedy)")
      }
    }
    if !works { throw ExitCode(1) }
  }

  private struct Report: Encodable {
    var checks: [SetupCheck.Finding]
    var works: Bool
  }
}
