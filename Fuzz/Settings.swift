import Evidence
import Model

@testable import Datasets
@testable import Runs
@testable import Steps

extension FuzzTarget {
  /// Files that people write.
  static let settings = [pipeline, splitFile]

  /// The canonical form of a pipeline is a pipeline, and its own canonical form.
  private static let pipeline = FuzzTarget("pipeline", throws: PipelineFileError.self) { bytes in
    let pipeline = try PipelineFile.parse(String(decoding: bytes, as: UTF8.self))
    let canonical = pipeline.canonical()
    let again = must("the canonical form") { try PipelineFile.parse(canonical.canonicalText) }
    expect(again.canonical().canonicalBytes == canonical.canonicalBytes, "another pipeline from the canonical form")
    expect(again.digest() == pipeline.digest(), "another digest")
  }

  private static let splitFile = FuzzTarget("split-file", throws: UsageError.self) { bytes in
    let file = try SplitFile(bytes, name: "split.yaml")
    let parts = file.parts
    for name in file.names { expect(!name.id.isEmpty && parts[name.id] == name.part, "\(name.id) in two parts") }
    try file.check(["a", "session_1"])
  }
}
