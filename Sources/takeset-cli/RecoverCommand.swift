import ArgumentParser
import Evidence
import Foundation
import Model
import Simulate
import Steps
import TakesetRecorder

struct RecoverCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "recover", abstract: "Make bundles of recordings that a killed app has left.",
    discussion: """
        takeset recover recordings/
        takeset recover recordings/take_1.recording

      Takes what the recording's journal and its digests confirm, cuts the movie exactly there, and claims no more than \
      the newest signature covers. The recording is kept as ID.recording.recovered. It may be interrupted and repeated.

      Exit codes: 0 all recovered, or nothing to do; 1 a path does not exist or nothing can be written; 3 a recording \
      cannot be read.
      """)

  @Argument(help: "Folders ID.recording, or folders with some.")
  var paths: [String]
  @Flag(help: "Print JSON.")
  var json = false
  @Flag(help: "Then remove the recordings that recoveries have kept, earlier ones too.")
  var discard = false

  private struct Result {
    var path: String
    var recovered: Recovery.Recovered?
    var failure: RecordingError?

    var line: String {
      guard let recovered else { return "failed: \(failure?.description ?? "")" }
      func seconds(_ seconds: Double) -> String { String(Int(seconds)) }
      switch recovered.outcome {
      case .complete: return "complete"
      case .partial: return "partial: \(seconds(recovered.verifiedSeconds)) of \(seconds(recovered.seconds)) s verified"
      case .nothing: return "nothing recorded"
      }
    }

    var json: JSONValue {
      let id = URL(fileURLWithPath: path).lastPathComponent.replacing(Recovery.suffix, with: "")
      return [
        "path": .string(path), "id": .string(recovered?.id ?? id), "outcome": .string(recovered?.outcome.rawValue ?? "failed"),
        "frames": JSONValue(recovered?.frames ?? 0), "keyframes": JSONValue(recovered?.keyframes ?? 0),
        "seconds": .number(recovered?.seconds ?? 0), "verified_frames": JSONValue(recovered?.verifiedFrames ?? 0),
        "verified_seconds": .number(recovered?.verifiedSeconds ?? 0), "journal_entries": JSONValue(recovered?.journalEntries ?? 0),
        "output": recovered?.output.map { .string($0) } ?? .null, "reason": failure.map { .string("\($0)") } ?? .null,
      ]
    }
  }

  func run() throws {
    let recovery = Recovery({ ChainHasher() }, deflate: Deflater.raw)
    var results: [Result] = []
    var isMissing = false
    for path in paths {
      guard let folders = try Self.recordings(at: path) else {
        standardError("takeset: \(path): there is no such folder")
        isMissing = true
        continue
      }
      for folder in folders {
        do {
          results.append(Result(path: folder, recovered: try recovery.recover(folder)))
        } catch let error as RecordingError {
          results.append(Result(path: folder, failure: error))
        }
      }
    }
    if json {
      standardOutput(JSONValue.object(["recordings": .array(results.map(\.json))]).canonicalText)
    } else {
      for result in results { standardOutput("\(result.path.onOneLine): \(result.line.onOneLine)") }
      if results.isEmpty, !isMissing { standardError("nothing to recover") }
    }
    if discard, results.allSatisfy({ $0.failure == nil }) {
      for path in paths.map(Self.trimmed) {
        let folder = path.hasSuffix(Recovery.suffix) ? URL(fileURLWithPath: path).deletingLastPathComponent().path : path
        if try Directory.kind(at: folder) == .directory { _ = try recovery.discard(in: folder) }
      }
    }
    if isMissing || results.contains(where: { $0.failure.map { !$0.isDamage } ?? false }) { throw ExitCode(1) }
    if results.contains(where: { $0.failure != nil }) { throw ExitCode(3) }
  }

  /// Recovers what is at or below paths, before a command reads them. Notes what it did, and names what cannot be recovered, which stays as
  /// it is.
  ///
  /// - Returns: Whether all is recovered that nobody records or recovers at this moment.
  static func recoverAll(below paths: [String], note: (String) -> Void) -> Bool {
    var isWhole = true
    let recovery = Recovery({ ChainHasher() }, deflate: Deflater.raw)
    for path in paths.map(trimmed) {
      let found =
        path.hasSuffix(Recovery.suffix)
        ? [path]
        : (FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []).filter { $0.hasSuffix(Recovery.suffix) }
          .map { path + "/" + $0 }
      for folder in found.sorted() where (try? Directory.kind(at: folder)) == .directory {
        do {
          let result = Result(path: folder, recovered: try recovery.recover(folder))
          note("recovered \(result.path.onOneLine): \(result.line)")
        } catch {
          let problem = error as? RecordingError
          let words = "\(folder.onOneLine): not recovered: \("\(problem?.reason ?? "\(error)")".onOneLine)"
          if problem?.isBusy == true {
            note(words)
          } else {
            isWhole = false
            standardError("takeset: \(words)")
          }
        }
      }
    }
    return isWhole
  }

  private static func trimmed(_ path: String) -> String { path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path }

  /// Returns the path of a recording's bundle; another path stays.
  static func bundle(of path: String) -> String {
    let trimmed = trimmed(path)
    let bundle = String(trimmed.dropLast(Recovery.suffix.count))
    guard trimmed.hasSuffix(Recovery.suffix), (try? Directory.kind(at: bundle)) == .directory else { return path }
    return bundle
  }

  /// The recordings at a path: itself, or those in the folder. `nil` where there is no folder.
  private static func recordings(at path: String) throws -> [String]? {
    let trimmed = trimmed(path)
    guard try Directory.kind(at: trimmed) == .directory else { return nil }
    if trimmed.hasSuffix(Recovery.suffix) { return [trimmed] }
    return try Directory.members(of: trimmed).filter { $0.kind == .directory && $0.name.hasSuffix(Recovery.suffix) }
      .map { trimmed + "/" + $0.name }
  }
}
