import ArgumentParser
import CaptureServer
import Foundation
import HTTP
import Logging
import Synchronization

struct WorkCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "work", abstract: "Convert the captures of a server on this machine.",
    discussion: """
        takeset-server work --to https://captures.example.org --key KEY
        takeset-server work --to https://captures.example.org --key KEY --jobs 8 --until-idle

      Asks the server for captures, one after the other, converts them with this machine's takeset and sends the results back. The key is \
      made with `takeset-server keys add --power work`. Several workers, on any number of machines, share what waits. One that is killed \
      loses nothing: its capture is converted by another one.

      Exit codes: 0 nothing waits any more (--until-idle); 77 the server wants another key; 64 a mistake in the command; 1 it cannot go \
      on; 130, 143 interrupted.
      """)

  @Option(help: ArgumentHelp("The server's root.", valueName: "url")) var to: String
  @Option(help: "API key; by default from TAKESET_KEY, where others do not see it.") var key: String?
  @Option(help: ArgumentHelp("PEM file of certificates that count beside those of the system.", valueName: "file")) var caCert: String?
  @Option(help: ArgumentHelp("Captures at a time.", valueName: "n")) var jobs = 1
  @Option(help: "What the server calls this worker; by default the machine's name.") var name: String?
  @Option(help: ArgumentHelp("Where captures are while they are converted; by default TMPDIR.", valueName: "dir")) var scratch: String?
  @Option(help: "The command takeset, if it is neither next to this one nor on PATH.") var takeset: String?
  @Option(
    help: ArgumentHelp(
      "The Python that calls the pipeline's own steps; without it, a pipeline that has some is refused.", valueName: "path"))
  var python: String?
  @Flag(help: "End when nothing waits.") var untilIdle = false

  func validate() throws {
    guard (1...256).contains(jobs) else { throw ValidationError("--jobs: expected 1 to 256") }
  }

  func run() async throws {
    var options = Worker.Options()
    do { options.server = try ServerAddress(to).text } catch { throw ValidationError("\(error)") }
    options.key = key ?? ProcessInfo.processInfo.environment["TAKESET_KEY"].flatMap { $0.isEmpty ? nil : $0 }
    (options.certificates, options.jobs, options.takeset, options.endsWhenIdle) = (caCert, jobs, takeset, untilIdle)
    options.python = python
    options.name = name ?? ProcessInfo.processInfo.hostName
    options.scratch = scratch ?? NSTemporaryDirectory()
    let worker: Worker
    do {
      worker = try Worker(options, logger: ServerLog.logger)
    } catch let refusal as Worker.Refusal {
      throw Self.end(refusal.description, refusal.isForKey ? 77 : 1)
    }
    signal(SIGPIPE, SIG_IGN)
    // It begins when signals are heard: one that came in between would be ignored for ever.
    let (hearing, hears) = AsyncStream.makeStream(of: Void.self)
    let work = Task {
      for await _ in hearing { break }
      try await worker.run()
    }
    let received = Mutex(SIGINT)
    let sources = [SIGINT, SIGTERM].map { (number: Int32) in
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        if work.isCancelled { Foundation.exit(128 + number) }
        received.withLock { $0 = number }
        work.cancel()
        // A disk or a server that hangs holds up nobody for long.
        DispatchQueue.global().asyncAfter(deadline: .now() + 10) { Foundation.exit(Self.interrupted(by: number).rawValue) }
      }
      source.resume()
      return source
    }
    defer { sources.forEach { $0.cancel() } }
    hears.yield()
    do {
      try await work.value
    } catch let refusal as Worker.Refusal {
      throw Self.end(refusal.description, refusal.isForKey ? 77 : 1)
    } catch  where work.isCancelled {
      throw Self.interrupted(by: received.withLock { $0 })
    }
  }

  private static func interrupted(by signal: Int32) -> ExitCode { end("interrupted; its captures are for others", 128 + signal) }

  private static func end(_ reason: String, _ code: Int32) -> ExitCode {
    FileHandle.standardError.write(Data("takeset: \(reason)\n".utf8))
    return ExitCode(code)
  }
}
