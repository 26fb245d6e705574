import Evidence
import Foundation
import Logging

/// The converter's result for a capture, before anything is written about it.
struct ConversionResult: Codable, Sendable {
  enum Outcome: String, Codable, Sendable {
    /// The dataset's manifest says what became of its takes.
    case converted
    /// Nothing in it is a take.
    case unknown
    /// A failure on our side.
    case failed
  }

  var outcome: Outcome
  /// Duration of the takes that were written together, where that is known.
  var seconds: Double?
  /// The reason of the failure, for everybody; and for operators.
  var reason = ""
  var detail = ""
  /// Whether another attempt would end in the same way.
  var isFinal = false
  /// The folder of the conversion, whose name is left out of what people read.
  var folder = ""

  static func failed(_ reason: String, detail: String, isFinal: Bool = false) -> ConversionResult {
    ConversionResult(outcome: .failed, reason: reason, detail: detail, isFinal: isFinal)
  }
  static let withoutFiles = failed("Its files are no longer kept.", detail: "no files", isFinal: true)
}

/// Runs the converter on the files of a capture, wherever they are: it needs no database.
struct Converter: Sendable {
  let takeset: TakesetCommand
  let logger: Logger

  /// The folder that it writes, below its own.
  static let result = "result"
  static let dataset = result + "/dataset"
  /// Seconds that a look at a capture or its images may take.
  private static let lookSeconds = 600

  /// Converts an input into `result/dataset` of the work folder, with a preview beside it. Throws where the converter cannot be started, and
  /// `CancellationError`.
  ///
  /// - Parameters:
  ///   - input: Path of the input, which is below `input` in the work folder.
  ///   - pipeline: Path of the pipeline; without one, the server's own.
  func convert(_ input: String, pipeline: String?, keys: ConversionKeys?, in work: WorkFolder) async throws -> ConversionResult {
    var result = try await result(of: input, pipeline, keys, work)
    result.folder = work.path
    return result
  }

  private func result(
    of input: String, _ pipeline: String?, _ keys: ConversionKeys?, _ work: WorkFolder
  ) async throws -> ConversionResult {
    let dataset = work.path + "/" + Self.dataset
    try DurableFile.makeFolder(work.path + "/" + Self.result)
    var arguments = ["run", input, "--output", dataset, "--jobs", "1", "--quiet", "--progress", "none"]
    // Whoever sent it: a fault of a library that decodes it must not be one of the server's.
    arguments += ["--isolate", "always"]
    if let pipeline {
      arguments += ["--pipeline", pipeline]
    } else {
      try Data(PackageResources.server_yaml).write(to: URL(fileURLWithPath: work.path + "/pipeline.yaml"))
      arguments += ["--pipeline", work.path + "/pipeline.yaml"]
    }
    arguments += ["--python", takeset.python]
    if let keys {
      try JSONAnswer.data(keys).write(to: URL(fileURLWithPath: work.path + "/keys.json"))
      arguments += ["--keys", work.path + "/keys.json"]
    }
    let end = try await takeset(arguments, in: work.path)
    if let failure = failure(of: end) { return failure }
    // Exit code 64, without anything that could be converted, is also what a mistake in the pipeline gives.
    if end.code == 64 || end.code == 1, try await holdsNoTake(work) { return ConversionResult(outcome: .unknown) }
    guard end.code == 0 || end.code == 3 else {
      let isMistake = end.code == 64
      return .failed(
        isMistake ? "The server's converter is not set up correctly." : "The conversion could not finish.",
        detail: "exit code \(end.code ?? -1): \(end.words)", isFinal: isMistake)
    }
    guard let report = try? ConversionReport(manifest: dataset + "/manifest.json") else {
      return .failed("The conversion gave no result.", detail: end.words)
    }
    guard !report.written.isEmpty, report.ownFailure == nil else { return ConversionResult(outcome: .converted) }
    await CapturePreview.make(of: dataset, in: work.path + "/" + Self.result, takeset, logger)
    return ConversionResult(outcome: .converted, seconds: await seconds(of: dataset, in: work))
  }

  /// A command that did not end by itself, as a failure.
  private func failure(of end: ChildProcess.End) -> ConversionResult? {
    if end.isOverdue {
      return .failed(
        "The conversion took longer than \(takeset.limits.seconds) seconds.", detail: end.words)
    }
    if end.code == 126 || end.code == 127 {
      return .failed("The server's converter cannot be started.", detail: end.words)
    }
    if end.signal != nil || end.code.map({ $0 > 125 }) ?? true {
      return .failed(
        "The conversion stopped unexpectedly.",
        detail: "\(end.signal.map { "signal \($0)" } ?? "exit code \(end.code ?? -1)"): \(end.words)")
    }
    return nil
  }

  /// Whether no reader knows what the input is. The folder around it is looked at: of a file by itself the converter gives no record.
  private func holdsNoTake(_ work: WorkFolder) async throws -> Bool {
    let end = try await takeset(["inspect", work.path + "/input", "--json", "--quiet"], in: work.path, seconds: Self.lookSeconds)
    guard end.code == 3, let found = try? JSONDecoder().decode(JSONValue.self, from: Data(end.output.utf8)) else { return false }
    let takes = found["takes"]?.array ?? []
    return takes.allSatisfy { take in
      (take["findings"]?.array ?? []).contains { ["no-take-found", "not-a-take"].contains($0["code"]?.string ?? "") }
    }
  }

  /// Returns the duration of a dataset's takes together; `nil` if that cannot be read.
  private func seconds(of dataset: String, in work: WorkFolder) async -> Double? {
    let end = try? await takeset(["report", dataset, "--json"], in: work.path, seconds: Self.lookSeconds)
    guard let end, end.code == 0, let found = try? JSONDecoder().decode(JSONValue.self, from: Data(end.output.utf8)) else { return nil }
    return found["takes"]?.array?.reduce(0) { $0 + ($1["seconds"]?.double ?? 0) }
  }
}
