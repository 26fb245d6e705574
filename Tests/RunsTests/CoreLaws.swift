import Foundation
import Testing

@testable import Runs
@testable import Steps

/// The core converts takes by whatever steps there are: what it has to know of one, the step says. The targets below `Runs` cannot name one;
/// of its own files, the registry does.
@Suite struct CoreLaws {
  @Test(arguments: ["Runs", "Merging"]) func theCoreNamesNoStep(folder: String) throws {
    let steps: [any Step.Type] = Registry.readers + Registry.transforms
    let names = Set(steps.map { "\($0)" })
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../Sources/\(folder)")
    let files = try #require(FileManager.default.enumerator(at: root.standardizedFileURL, includingPropertiesForKeys: nil))
    var count = 0
    for case let file as URL in files where file.pathExtension == "swift" && file.lastPathComponent != "Registry.swift" {
      count += 1
      let code = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { !$0.contains(/^\s*\/\//) }
      for line in code {
        let words = Set(line.replacing(/"[^"]*"/, with: "").matches(of: /\w+/).map { String($0.output) })
        #expect(words.isDisjoint(with: names), "\(file.lastPathComponent): \(line)")
      }
    }
    #expect(count > 1)
  }

  /// A reader that says nothing of it reads what strangers send.
  @Test func takesAreIsolatedUnlessTheirReaderKnowsBetter() {
    let folder = TakeLocation(path: "/in/take", isDirectory: true)
    let file = TakeLocation(path: "/in/take.zip", isDirectory: false)
    for reader in Registry.readers {
      #expect(IsolationPolicy.auto.applies(to: file, readBy: reader.name))
      #expect(IsolationPolicy.auto.applies(to: folder, readBy: reader.name) == reader.isolatesFolders)
    }
    #expect(Registry.readers.filter { !$0.isolatesFolders }.map { $0.name } == ["stack-session", "stray-scanner"])
    #expect(IsolationPolicy.auto.applies(to: folder, readBy: "one-that-is-to-come"))
  }
}
