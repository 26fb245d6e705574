import Evidence
import Foundation
import Hosts
import Model
import Testing

@testable import Runs

@Suite("Files of steps in Python")
struct StepFilesTests {
  @Test(
    "Relative paths become plain, and keep what leads above their folder",
    arguments: [
      ("step.py", "step.py", 0), ("./steps//a.py", "steps/a.py", 0), ("steps/../a.py", "a.py", 0), ("../a.py", "../a.py", 1),
      ("x/../../a/./b.py", "../a/b.py", 1), ("../../a/../b.py", "../../b.py", 2), ("../a/../../b.py", "../../b.py", 2),
    ])
  func paths(path: String, plain: String, height: Int) {
    #expect(RelativePath.plain(path) == plain)
    #expect(RelativePath.height(path) == height)
  }

  /// A pipeline whose steps were loaded from these files.
  private func pipeline(_ digests: [[String: JSONValue]]) throws -> Pipeline {
    let steps = digests.map { digests -> JSONValue in
      let recorded: JSONValue = ["kind": "keep", "function": "f", "reads": ["pose"], "reason": "no", "digests": .object(digests)]
      return ["python": ["file": "../lib/step.py", "recorded": recorded]]
    }
    let document: JSONValue = ["version": 1, "transforms": .array([["align": [:]]] + steps)]
    return try PipelineFile.parse(document.canonicalText)
  }

  @Test("Copies have the places of the files, below the directory; one that is another file than was loaded is refused")
  func copies() throws {
    let root = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    defer { try? FileManager.default.removeItem(at: root) }
    var digests: [String: JSONValue] = [:]
    for (path, place) in [("../lib/step.py", "a/lib/step.py"), ("../../scale", "scale"), ("tags.json", "a/pipes/tags.json")] {
      let file = root.appendingPathComponent("source/" + place)
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(path.utf8).write(to: file)
      digests[path] = .string(Digest.of(Array(path.utf8)).description)
    }
    let (source, output) = (root.path + "/source/a/pipes", root.path + "/out")
    let steps = TaskSteps(of: try pipeline([digests, ["tags.json": digests["tags.json"] ?? .null]]))
    try FileManager.default.createDirectory(atPath: source, withIntermediateDirectories: true)
    try steps.copy(from: source, to: output)
    let folder = steps.folder(in: output)
    #expect(folder.hasPrefix(output + "/task-steps/") && folder.hasSuffix("/-/-"))
    let top = URL(fileURLWithPath: folder + "/../..").standardizedFileURL.path + "/"
    for (path, place) in [("../lib/step.py", "-/lib/step.py"), ("../../scale", "scale"), ("tags.json", "-/-/tags.json")] {
      #expect(FileManager.default.contents(atPath: top + place) == Data(path.utf8))
    }
    // Again, nothing has to be there any more.
    try FileManager.default.removeItem(atPath: root.path + "/source/scale")
    try steps.copy(from: source, to: output)
    digests["tags.json"] = .string(Digest.of(Array("another".utf8)).description)
    #expect(throws: (any Error).self) { try TaskSteps(of: pipeline([digests])).copy(from: source, to: output) }
    #expect(FileManager.default.contents(atPath: folder + "/tags.json") == Data("tags.json".utf8))
  }
}
