import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Steps

@Suite struct TakeInputsTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func inputs(_ names: String...) throws -> TakeInputs {
    for name in names { try directory.write(name, Array("\(name)!".utf8)) }
    return TakeInputs(root: directory.path, entries: names.map { TakeInputs.Entry(path: $0, role: .image) })
  }

  @Test func entriesAreInBytewiseOrderAndFoundByPath() throws {
    let inputs = try inputs("b", "a/z", "a.", "Z", "é")
    #expect(inputs.entries.map(\.path) == ["Z", "a.", "a/z", "b", "é"])
    for (index, entry) in inputs.entries.enumerated() { #expect(inputs.index(of: entry.path) == index) }
    #expect(inputs.index(of: "c") == nil && inputs.index(of: "") == nil)
  }

  /// `sha256sum` over the files, its lines sorted, and `sha256sum` of that.
  @Test func theDigestIsThatOfTheLinesOfSha256sum() throws {
    let inputs = try inputs("rgb/000000.jpg", "poses.json", "zz")
    try inputs.finishDigests()
    let lines = inputs.entries.map { "\(Digest.of(Array("\($0.path)!".utf8)))  \($0.path)\n" }.sorted {
      $0.utf8.lexicographicallyPrecedes($1.utf8)
    }
    #expect(inputs.digest == Digest.of(lines.joined()))
    #expect(inputs.digested.map(\.path) == ["poses.json", "rgb/000000.jpg", "zz"])
    #expect(inputs.digested.map(\.bytes) == [11, 15, 3])
  }

  @Test func aFileThatChangesBetweenTwoReadingsFailsTheTake() throws {
    let inputs = try inputs("a", "b")
    var bytes: [UInt8] = []
    try inputs.read(0, limit: 100, hasher: SHA256(), into: &bytes)
    #expect(bytes == Array("a!".utf8))
    try directory.write("a", Array("other".utf8))
    let failure = #expect(throws: TakeFailure.self) { try inputs.read(0, limit: 100, hasher: SHA256(), into: &bytes) }
    #expect(failure?.code == .changedWhileReading && failure?.file == "a")
    // The other file is as it was.
    try inputs.read(1, limit: 100, hasher: SHA256(), into: &bytes)
  }

  @Test func aFileThatGrowsWhileItIsReadFailsTheTake() throws {
    let inputs = try inputs("a", "b")
    let failure = #expect(throws: TakeFailure.self) {
      try inputs.stream(0, limit: 100) { refill in
        var buffer = [UInt8](repeating: 0, count: 16)
        while try buffer.withUnsafeMutableBytes({ try refill($0) }) > 0 {}
        // Another program goes on writing.
        let file = try #require(FileHandle(forWritingAtPath: directory.path + "/a"))
        try file.seekToEnd()
        try file.write(contentsOf: Data("more".utf8))
        try file.close()
      }
    }
    #expect(failure?.code == .changedWhileReading && failure?.file == "a")
    #expect(try inputs.stream(1, limit: 100) { _ in "read" } == "read")
  }

  @Test func aFileThatChangesAfterItWasListedFailsTheTake() throws {
    let inputs = try inputs("a", "b")
    let stamp = try inputs.stamp()
    try inputs.checkUnchanged()
    #expect(try inputs.stamp() == stamp)
    try directory.write("b", Array("longer than it was".utf8))
    let failure = #expect(throws: TakeFailure.self) { try inputs.checkUnchanged() }
    #expect(failure?.code == .changedWhileReading && failure?.file == "b")
    #expect(try inputs.stamp() != stamp)
  }

  @Test func limitsAndMissingFilesAreNamed() throws {
    let inputs = try inputs("a", "gone")
    try FileManager.default.removeItem(atPath: directory.path + "/gone")
    var bytes: [UInt8] = []
    let large = #expect(throws: TakeFailure.self) { try inputs.read(0, limit: 1, hasher: SHA256(), into: &bytes) }
    #expect(large?.code == .inputTooLarge && large?.file == "a")
    let missing = #expect(throws: TakeFailure.self) { try inputs.read(1, limit: 100, hasher: SHA256(), into: &bytes) }
    #expect(missing?.code == .unreadable && missing?.file == "gone")
  }

  @Test func linksAreRefused() throws {
    let inputs = try inputs("target", "link")
    try FileManager.default.removeItem(atPath: directory.path + "/link")
    try FileManager.default.createSymbolicLink(atPath: directory.path + "/link", withDestinationPath: "target")
    let failure = #expect(throws: TakeFailure.self) { try inputs.stamp() }
    #expect(failure?.code == .notARegularFile && failure?.file == "link")
    var bytes: [UInt8] = []
    #expect(throws: TakeFailure.self) { try inputs.read(0, limit: 100, hasher: SHA256(), into: &bytes) }
  }
}
