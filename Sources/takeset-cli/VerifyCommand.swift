import ArgumentParser
import CLinux
import Datasets
import Foundation
import Loaders
import Model
import Reports
import Steps

struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify", abstract: "Compare a dataset with the digests it was written with.",
    discussion: """
      Lists every file, dataset and row that differs, and exits with 2 when one does. A file to which another program has \
      added something still passes, as long as what Takeset wrote is unchanged.

        takeset verify dataset/
        takeset verify dataset/ --inputs
        takeset verify packed.h5
        takeset verify dataset/ --public-key public.pem

      With --for LOADER, verify does not check digests. It applies the rules of a loader instead, and says what would make \
      it stop (breaks) or learn less than it could (trains badly), each with the remedy. The rules of robomimic apply to \
      the dataset as it is; those of aloha, diffusion-policy and nerfstudio to what takeset export makes of it, and those \
      of lerobot to what takeset export --to lerobot does. A robomimic file that another program wrote is examined, too. Exit \
      code 2 if something breaks.

        takeset verify --for robomimic dataset/
        takeset verify --for robomimic dataset/ --obs pose --obs camera_image
        takeset verify --for aloha dataset/ --window 50
      """)

  @Argument(
    help: "A dataset directory, or one HDF5 file written by Takeset; with --for, by any program in robomimic's layout.", completion: .file()
  )
  var path: String
  @Flag(help: "Also check the inputs, at the paths where the last run found them.")
  var inputs = false
  @Flag(
    help:
      "Compare only the manifest's and the index's digests, and of every shard its presence and size: no shard is opened, so a changed byte is not noticed."
  )
  var quick = false
  @Flag(help: "Also print the SHA-256 of every file of the dataset, for publication.")
  var fileDigests = false
  @Option(
    help: ArgumentHelp("Also check that attestation.json is signed with this key (Ed25519, PEM) and names these files.", valueName: "file"),
    completion: .file())
  var publicKey: String?
  @Option(name: .customLong("for"), help: ArgumentHelp("Apply the rules of this loader instead of checking digests.", valueName: "loader"))
  var loader: Loader?
  @Option(help: ArgumentHelp("With --for: an observation to train on; may be given several times. All by default.", valueName: "key"))
  var obs: [String] = []
  @Option(help: ArgumentHelp("With --for: rows of a training window, by default what is usual with the loader.", valueName: "rows"))
  var window: Int?
  @Flag(help: "Print JSON.")
  var json = false
  @OptionGroup var jobs: JobOptions
  @OptionGroup var console: OutputOptions

  func validate() throws {
    if let window, !(1...1_000_000).contains(window) { throw ValidationError("--window: expected 1 to 1000000, found \(window)") }
    if loader != nil, inputs || fileDigests {
      throw ValidationError(
        "--for applies a loader's rules and checks no digests; run verify with \(inputs ? "--inputs" : "--file-digests") by itself")
    }
    if quick, inputs || fileDigests || publicKey != nil || loader != nil {
      throw ValidationError("--quick reads no shard; it excludes --inputs, --file-digests, --public-key and --for")
    }
    if loader != nil, publicKey != nil { throw ValidationError("--for applies a loader's rules; run verify with --public-key by itself") }
    if loader == nil, window != nil || !obs.isEmpty { throw ValidationError("--\(window != nil ? "window" : "obs") needs --for") }
  }

  func run() throws {
    if let loader { return try examine(for: loader) }
    let key = try publicKey.map { try SignatureKeys.publicKey($0) }
    var verification: Verification
    switch try Directory.kind(at: path, followingLinks: true) {
    case nil: throw NoInputs(path: path)
    case .directory:
      verification = try Verification(
        directory: path, inputs: inputs, isQuick: quick, digestsFiles: fileDigests, threads: jobs.threads,
        external: CheckProcess.checks)
      if let key { verification.checkAttestation(of: path, signedBy: key, threads: jobs.threads) }
    case _ where quick: throw UsageError("\(path) is a file, and --quick needs the dataset's folder, which has manifest.json")
    case _ where key != nil: throw UsageError("\(path) is a file, and --public-key needs the dataset's folder, which has attestation.json")
    default: verification = try CheckProcess.file(path)
    }
    if json {
      standardOutput(verification.json.canonicalText)
    } else {
      let style = console.style(for: STDOUT_FILENO)
      if !console.quiet { notes(verification.notes).forEach { standardOutput("\(style.dim("note")): \($0)") } }
      for difference in verification.differences { standardOutput("\(style.error(difference.path)): \(difference.message)") }
      for (file, digest) in verification.fileDigests.sorted(by: { $0.key < $1.key }) { standardOutput("\(digest)  \(file)") }
      let size = String(format: "%.1f MB", Double(verification.bytes) / 1e6)
      let count = verification.differences.count
      let verdict = verification.isSound ? style.success("sound") : style.error(count == 1 ? "1 difference" : "\(count) differences")
      let files = several(verification.files, "file")
      if !console.quiet || !verification.isSound {
        standardOutput(
          "\(path): \(verdict); \(files), \(several(verification.datasets, "dataset")), \(size) read")
      }
    }
    if !verification.isSound { throw ExitCode(2) }
  }

  /// Applies the rules of a loader: two lines for each diagnosis, worst first, and the summary.
  private func examine(for loader: Loader) throws {
    let doctor = try Doctor(path, for: loader, keys: obs, window: window, threads: jobs.threads)
    let (broken, weak) = (doctor.count(.breaks), doctor.count(.trainsBadly))
    if json {
      standardOutput(doctor.json(path).canonicalText)
    } else {
      let style = console.style(for: STDOUT_FILENO)
      for diagnosis in doctor.diagnoses where !console.quiet || diagnosis.severity == .breaks {
        let words = diagnosis.severity.words
        let severity =
          switch diagnosis.severity {
          case .breaks: style.error(words)
          case .trainsBadly: style.warning(words)
          case .info: style.dim(words)
          }
        standardOutput("\(severity): \(diagnosis.code.rawValue): \(diagnosis.message)")
        standardOutput("  \(style.dim("remedy")): \(diagnosis.remedy.text)")
        if console.verbose, diagnosis.episodes.count > 3 {
          standardOutput("  \(style.dim("episodes")): \(diagnosis.episodes.joined(separator: ", "))")
        }
      }
      let warnings = weak > 0 ? [style.warning(counted(weak, "warning"))] : []
      let verdict = broken > 0 ? style.error(counted(broken, "problem")) : style.success("ready for \(loader.rawValue)")
      if !console.quiet || broken > 0 {
        standardOutput(
          "\(path): \(([verdict] + warnings).joined(separator: ", ")); \(counted(doctor.episodes, "episode")), \(counted(doctor.rows, "row"))"
        )
      }
    }
    if broken > 0 { throw ExitCode(2) }
  }

  /// The notes; more than two on one file are folded into one line, unless `--verbose` is given.
  private func notes(_ all: [String]) -> [String] {
    if console.verbose { return all }
    var order: [String] = []
    var byFile: [String: [String]] = [:]
    for note in all {
      let file = String(note.prefix { $0 != ":" })
      if byFile[file] == nil { order.append(file) }
      byFile[file, default: []].append(note)
    }
    return order.flatMap { file in
      let notes = byFile[file] ?? []
      return notes.count <= 2 ? notes : ["\(notes[0]) (and \(notes.count - 1) more notes on this file; --verbose lists them)"]
    }
  }
}

extension Loader: ExpressibleByArgument {}

/// Checks of HDF5 files that another program may have written to, each in a process of its own: a damaged file may crash libhdf5.
enum CheckProcess {
  static let checks = Verification.ExternalChecks(
    shard: { path, output in
      try run(["shard", path], input: Data(output.json.canonicalBytes), path)
    },
    index: { path, directory in try run(["index", path, directory], input: Data(), path) })

  static func file(_ path: String) throws -> Verification { try run(["file", path], input: Data(), path) }

  private static func run(_ arguments: [String], input: Data, _ path: String) throws -> Verification {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe")
    process.arguments = ["check-foreign"] + arguments
    let (stdin, stdout, stderr) = (Pipe(), Pipe(), Pipe())
    (process.standardInput, process.standardOutput, process.standardError) = (stdin, stdout, stderr)
    try process.run()
    try? stdin.fileHandleForWriting.write(contentsOf: input)
    try? stdin.fileHandleForWriting.close()
    let output = (try? stdout.fileHandleForReading.readToEnd()) ?? Data()
    let words = (try? stderr.fileHandleForReading.readToEnd()) ?? Data()
    process.waitUntilExit()
    if process.terminationReason == .exit, process.terminationStatus == 0,
      let report = try? JSONDecoder().decode(Verification.self, from: output)
    {
      return report
    }
    if process.terminationReason == .exit, process.terminationStatus == 64 {
      throw UsageError(
        String(decoding: words, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines).replacing("takeset: ", with: ""))
    }
    var report = Verification()
    report.differ(
      path,
      process.terminationReason == .uncaughtSignal
        ? "is so damaged that libhdf5 \(process.terminationStatus == SIGXCPU ? "does not finish reading it" : "crashes on it (signal \(process.terminationStatus))")"
        : "cannot be read: \(String(decoding: words, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))")
    return report
  }
}

/// The hidden command that `CheckProcess` starts.
struct CheckExternalCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "check-foreign", shouldDisplay: false)

  @Argument var what: String
  @Argument var path: String
  @Argument var directory: String?

  func run() throws {
    let bytes = Double((try? FileManager.default.attributesOfItem(atPath: path)[.size] as? UInt64) ?? 0)
    let report: Verification
    switch what {
    case "shard":
      let record = try OutputRecord(json: Array(FileHandle.standardInput.readToEnd() ?? Data()))
      let logical = record.arrays.reduce(0) { $0 + $1.shape.reduce(Double($1.dtype.last?.wholeNumberValue ?? 1)) { $0 * Double($1) } }
      // Some damage sends libhdf5 into an endless loop. Intact files take a tenth of this or less.
      Self.end(afterSeconds: 2 + (bytes + logical) / 20e6)
      report = try ExternalCheck.shard(path, record)
    case "index":
      Self.end(afterSeconds: 60 + bytes / 1e6)
      report = try Verification.ExternalChecks.inProcess.index(path, directory ?? "")
    default:
      Self.end(afterSeconds: 60 + bytes / 1e6)
      do {
        report = try Verification(file: path)
      } catch let error where !(error is UsageError) {
        var damaged = Verification()
        damaged.differ(path, "cannot be opened: \(error)")
        return FileHandle.standardOutput.write(try JSONEncoder().encode(damaged))
      }
    }
    FileHandle.standardOutput.write(try JSONEncoder().encode(report))
  }

  /// Makes this process end with its parent, or after this much CPU time.
  private static func end(afterSeconds: Double) {
    clinux_end_with_parent()
    let seconds = rlim_t(min(afterSeconds, 1e9))
    var limit = rlimit(rlim_cur: seconds, rlim_max: seconds + 1)
    setrlimit(__rlimit_resource_t(RLIMIT_CPU.rawValue), &limit)
    // A process started by a thread of a dispatch queue has all signals blocked.
    var none = sigset_t()
    sigemptyset(&none)
    sigprocmask(SIG_SETMASK, &none, nil)
    signal(SIGXCPU, SIG_DFL)
  }
}
