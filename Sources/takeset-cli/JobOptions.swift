import ArgumentParser
import Steps

/// `--jobs` of every command that works in parallel.
struct JobOptions: ParsableArguments {
  @Option(help: ArgumentHelp("Threads to use; all cores by default.", valueName: "n"))
  var jobs: Int?

  var threads: Int { jobs ?? Cores.available }

  func validate() throws {
    if let jobs, !(1...1024).contains(jobs) { throw ValidationError("--jobs: expected 1 to 1024, found \(jobs)") }
  }
}
