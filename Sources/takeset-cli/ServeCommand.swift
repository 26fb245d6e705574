import ArgumentParser
import Foundation
import Steps

/// Commands of the capture server, which is a program of its own: `takeset serve` becomes `takeset-server serve`.
enum ServerProgram {
  /// Replaces this process by the server's program. Returns only where that is not possible.
  ///
  /// - Throws: `OutputFailure` where the program is not there or cannot be run.
  static func become(_ arguments: [String]) throws -> Never {
    guard let program = path(ProcessInfo.processInfo.environment) else {
      throw OutputFailure("the program takeset-server is not there; `make server` builds it, and TAKESET_SERVER can name it")
    }
    // What the server starts finds this command again.
    if let own, ProcessInfo.processInfo.environment["TAKESET"] == nil { setenv("TAKESET", own, 1) }
    signal(SIGPIPE, SIG_DFL)
    signal(SIGXFSZ, SIG_DFL)
    var words = ([program] + arguments).map { strdup($0) }
    words.append(nil)
    execv(program, &words)
    throw OutputFailure("cannot run \(program): \(String(cString: strerror(errno)))")
  }

  /// The first that can be run of `$TAKESET_SERVER`, one beside this command, one on PATH, and the one built in the same checkout.
  private static func path(_ environment: [String: String]) -> String? {
    if let set = environment["TAKESET_SERVER"], !set.isEmpty { return access(set, X_OK) == 0 ? set : nil }
    var places: [String] = []
    let folder = own.map { URL(fileURLWithPath: $0).deletingLastPathComponent() }
    if let folder { places.append(folder.path) }
    places += (environment["PATH"] ?? "").split(separator: ":").map(String.init)
    // .build/<machine>/release/takeset of the checkout.
    if let root = folder?.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent() {
      places.append(root.path + "/server/.build/release")
    }
    return places.map { $0 + "/takeset-server" }.first { access($0, X_OK) == 0 }
  }

  /// This command's file.
  private static let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
}

struct ServeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Receive captures from phones over HTTP and convert them.", helpNames: [])

  @Argument(parsing: .captureForPassthrough, help: "Options of takeset-server serve; --help lists them.")
  var arguments: [String] = []

  func run() throws { try ServerProgram.become(["serve"] + arguments) }
}
