import ArgumentParser
import CaptureServer
import Foundation
import Logging

@main
struct ServerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "takeset-server",
    abstract: "Receive captures from phones, verify them and convert them into datasets.", version: CaptureServer.version,
    subcommands: [
      ServeCommand.self, CheckCommand.self, KeysCommand.self, ConvertCommand.self, WorkCommand.self, RestoreCommand.self,
    ])
}

struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Run the server until SIGTERM or SIGINT.",
    discussion: """
      Each setting is a flag, a variable of the environment (--base-url is TAKESET_SERVER_BASE_URL), or a line of the file of --config
      (base-url: https://…). Flags come first, then the environment, then the file.

      \(Setting.all.map { "--\($0.name)\($0.isSwitch ? "" : " …")\n    \($0.meaning)" }.joined(separator: "\n"))
      """)

  @Option(help: "YAML file of settings.") var config: String?
  @Flag(help: "Print the settings as such a file, and end.") var printConfig = false
  @Argument(parsing: .allUnrecognized, help: .hidden) var settings: [String] = []

  func run() async throws {
    let configuration = try Self.configuration(settings, config, needsData: !printConfig)
    if printConfig {
      for setting in Setting.all { print("\(setting.name): \(setting.text(configuration).map(Self.quoted) ?? "null")") }
      return
    }
    guard let level = Logger.Level(rawValue: configuration.logLevel) else {
      throw Self.mistake("log-level: expected trace, debug, info, notice, warning, error or critical")
    }
    var logger = ServerLog.logger
    logger.logLevel = level
    // A client that goes away is an error of write, not the end of the server.
    signal(SIGPIPE, SIG_IGN)
    do {
      try await CaptureServer(try await Services(configuration, logger: logger)).run()
    } catch {
      FileHandle.standardError.write(Data("error: \(Mistake(error))\n".utf8))
      throw ExitCode(1)
    }
  }

  /// Throws `ExitCode` 64 after the sentence was said.
  static func configuration(_ settings: [String], _ file: String?, needsData: Bool = true) throws -> Configuration {
    do {
      return try Setting.configuration(
        arguments: settings, environment: ProcessInfo.processInfo.environment, file: file, needsData: needsData)
    } catch let mistake as Mistake {
      throw Self.mistake("\(mistake)")
    }
  }

  /// The library would point to the help of the whole command, which has no settings.
  private static func mistake(_ sentence: String) -> ExitCode {
    FileHandle.standardError.write(Data("Error: \(sentence)\n  See 'takeset-server serve --help' for the settings.\n".utf8))
    return .validationFailure
  }

  /// A plain scalar of YAML where that is safe, otherwise a quoted one.
  private static func quoted(_ text: String) -> String {
    let isPlain = !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_./,".contains($0)) }
    return isPlain ? text : "\"" + text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"") + "\""
  }
}

struct KeysCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keys", abstract: "API keys for scripts and readers.", subcommands: [Add.self, List.self, Revoke.self])

  struct Options: ParsableArguments {
    @Option(help: "The server's data folder.") var data: String

    /// - Parameter isNew: Whether the folder is made if need be; otherwise a mistyped one would look like a server without keys.
    func keys(isNew: Bool = false) throws -> APIKeys {
      guard isNew || ServerDatabase.exists(in: data) else { throw ValidationError("--data \(data): there is no data of a server") }
      return APIKeys(try ServerDatabase(data: data))
    }
  }

  struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Make a key and print it, this once.")
    @OptionGroup var options: Options
    @Option(help: "What the key is for.") var name = "key"
    @Option(help: "Project of the captures that come with it.") var project = "default"
    @Option(
      help: "What it is good for: upload (for phones), read, work (for workers), monitor (for the figures of the whole server), or all.")
    var power = "all"
    @Option(help: ArgumentHelp("Days after which it is useless; without it, never.", valueName: "n")) var days: Int?

    func run() async throws {
      guard let power = APIKey.Power(rawValue: power) else {
        throw ValidationError("--power \(power): expected upload, read, work, monitor or all")
      }
      do {
        print(try await options.keys(isNew: true).add(name: name, project: project, power: power, days: days).key)
      } catch let mistake as Mistake {
        throw ValidationError("--\(mistake)")
      }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "List all keys, without their secrets.")
    @OptionGroup var options: Options

    func run() async throws {
      for key in try await options.keys().all() {
        print("\(key.id)  \(key.scope ?? "all projects")  \(key.name)  \(key.state)")
      }
    }
  }

  struct Revoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Make a key useless.")
    @OptionGroup var options: Options
    @Argument(help: "The key's id, as `keys list` prints it.") var id: String

    func run() async throws {
      guard try await options.keys().revoke(id) else { throw ValidationError("\(id): there is no such key in use") }
    }
  }
}
