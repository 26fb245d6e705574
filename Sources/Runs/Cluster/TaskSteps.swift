import Datasets
import Evidence
import Foundation
import Model
import Steps

/// The files of a batch's steps in Python. They lie beside `tasks.json`, because workers may not see the folder of the pipeline file.
struct TaskSteps {
  /// Digests by path from the folder of the pipeline file.
  private let digests: [String: String]
  /// Another pipeline has another folder, which workers of this one do not see.
  private let name: String

  init(of pipeline: Pipeline) {
    name = String(pipeline.conversionDigest().description.prefix(16))
    digests = pipeline.stepFiles
  }

  /// The folder, in the directory of a batch, from which the files have the same relative paths. Those that are above the pipeline file are
  /// above it, too.
  func folder(in directory: String) -> String {
    let height = digests.keys.map(RelativePath.height).max() ?? 0
    return ([directory, DatasetFiles.steps, name] + Array(repeating: "-", count: height)).joined(separator: "/")
  }

  /// Copies the files from the folder of the pipeline file. Throws `UsageError` for one that has changed since it was loaded, `FileError`.
  func copy(from source: String, to directory: String) throws {
    for (path, digest) in digests.sorted(by: { $0.key < $1.key }) {
      let target = URL(fileURLWithPath: folder(in: directory) + "/" + path).standardizedFileURL.path
      if (try? SealedFile.digest(of: target).digest.description) == digest { continue }
      let file = try InputFile(ProgramLoader.resolved(source + "/" + path))
      try Directory.create(URL(fileURLWithPath: target).deletingLastPathComponent().path)
      try SealedFile.write(target) { write in
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
        defer { buffer.deallocate() }
        while case let count = try file.read(into: buffer), count > 0 { try write(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
        guard try file.finish().description == digest else {
          throw UsageError("\(source)/\(path) was changed while the tasks were planned; plan them again")
        }
      }
    }
  }
}

extension Pipeline {
  /// The files that its steps in Python were loaded from, with what these read: their digests by path from the folder of the pipeline file.
  package var stepFiles: [String: String] {
    let recorded = transforms.compactMap { ($0 as? any ProgrammedTransform)?.recorded?["digests"]?.object }
    return recorded.reduce(into: [:]) { $0.merge($1.compactMapValues(\.string)) { $1 } }
  }
}
