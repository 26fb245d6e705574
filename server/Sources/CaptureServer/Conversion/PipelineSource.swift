import Crypto
import Foundation

/// The pipeline that a server converts with, and the files of its steps in Python, for workers on other machines.
///
/// The converter says which files these are. It is asked again when one of them, or the pipeline file, has changed.
actor PipelineSource {
  struct Contents: Sendable {
    var text: String
    var files: [WorkAssignment.StepFile]
  }

  private let configuration: Configuration
  private let takeset: TakesetCommand
  private var known: (contents: Contents, stamps: [String: Stamp])?

  /// Bytes of all files together: they go to a worker with each capture.
  static let limit = 16 << 20

  private struct Stamp: Equatable {
    var modified: Date?
    var bytes: Int64?

    init(of path: String) {
      let attributes = try? FileManager.default.attributesOfItem(atPath: URL(fileURLWithPath: path).resolvingSymlinksInPath().path)
      (modified, bytes) = (attributes?[.modificationDate] as? Date, (attributes?[.size] as? NSNumber)?.int64Value)
    }
  }

  init(_ configuration: Configuration) { (self.configuration, takeset) = (configuration, TakesetCommand(configuration)) }

  /// The pipeline now. Throws `Failure` 500 where it, or a file of it, cannot be read or sent.
  func contents() async throws -> Contents {
    guard let given = configuration.pipeline else {
      return Contents(text: String(decoding: PackageResources.server_yaml, as: UTF8.self), files: [])
    }
    let path = URL(fileURLWithPath: given).standardizedFileURL.path
    if let known, known.stamps.allSatisfy({ Stamp(of: $0) == $1 }) { return known.contents }
    var stamps = [path: Stamp(of: path)]
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { throw Self.failure("\(path) cannot be read") }
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
    var contents = Contents(text: text, files: [])
    var bytes = 0
    for (name, digest) in try await files(of: path, text).sorted(by: { $0.key < $1.key }) {
      let file = folder + "/" + name
      guard (try? SessionName.file(name.split(separator: "/").map(String.init))) == name else {
        throw Self.failure("\(file) is outside the folder of the pipeline, so workers on other machines cannot have it")
      }
      stamps[file] = Stamp(of: file)
      guard let data = try? Data(contentsOf: URL(fileURLWithPath: file)), Hex.text(SHA256.hash(data: data)) == digest else {
        throw Self.failure("\(file) has changed while it was read")
      }
      bytes += data.count
      guard bytes <= Self.limit else { throw Self.failure("the files of its steps have more than \(Self.limit >> 20) MB") }
      contents.files.append(.init(name: name, bytes: data))
    }
    known = (contents, stamps)
    return contents
  }

  /// The digests of the files of a pipeline's steps, by their paths from its folder. Throws `Failure` 500 where they cannot be loaded.
  func files(of pipeline: String, _ text: String) async throws -> [String: String] {
    // A pipeline without this word has no such step, and no process is needed to see that.
    if !text.contains("python") { return [:] }
    let arguments = ["pipeline-files", pipeline, "--python", takeset.python]
    let end = try? await takeset(arguments, in: NSTemporaryDirectory())
    guard let end, end.code == 0, let files = try? JSONDecoder().decode([String: String].self, from: Data(end.output.utf8)) else {
      throw Self.failure(end?.words ?? "the converter cannot be started")
    }
    return files
  }

  private static func failure(_ reason: String) -> Failure {
    Failure(.internalServerError, "PIPELINE_MISSING", "The server's pipeline cannot be used", reason: reason)
  }
}
