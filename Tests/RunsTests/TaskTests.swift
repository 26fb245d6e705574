import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps

@Suite struct TaskTests {
  private static let tool = ToolIdentity(version: "1", revision: "r")

  private func task(_ id: String, _ path: String = "/takes/a", isDirectory: Bool = true, reader: any Reader = StackSession()) -> TakeTask {
    TakeTask(id: id, location: TakeLocation(path: path, isDirectory: isDirectory), reader: reader)
  }

  private func write(_ ids: [String], in directory: TemporaryDirectory) throws {
    let pipeline = try PipelineFile.defaultPipeline()
    let head = TaskList.Head(
      toolVersion: "1", pipeline: pipeline.canonical(), pipelineDigest: pipeline.conversionDigest().description, unmatched: [],
      count: ids.count)
    try TaskList.write(head, ids.map { task($0) }, to: directory.path + "/" + DatasetFiles.tasks)
  }

  @Test(arguments: [[], ["a"], ["a", "b \" ] }", "ü"]])
  func aListGivesBackItsTasks(_ ids: [String]) throws {
    let directory = try TemporaryDirectory()
    try write(ids, in: directory)
    let list = try TaskList(in: directory.path, tool: Self.tool)
    #expect(try (0..<list.count).map { try list.task($0).id } == ids)
    #expect(try list.conversion(Self.tool).digest == list.head.pipelineDigest)
    #expect(throws: UsageError.self) { try list.task(ids.count) }
    let data = try Data(contentsOf: URL(fileURLWithPath: directory.path + "/" + DatasetFiles.tasks))
    let document = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    #expect((document["tasks"] as? [Any])?.count == ids.count)
  }

  @Test func aListThatWasCutOffOrIsOfAnotherVersionIsRefused() throws {
    let directory = try TemporaryDirectory()
    try write(["a", "b"], in: directory)
    #expect(throws: VersionMismatch.self) { try TaskList(in: directory.path, tool: ToolIdentity(version: "2", revision: "r")) }
    let path = directory.path + "/" + DatasetFiles.tasks
    let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
    for count in stride(from: 0, to: bytes.count, by: 97) {
      try bytes.prefix(count).write(to: URL(fileURLWithPath: path))
      #expect(throws: UsageError.self) { try TaskList(in: directory.path, tool: Self.tool) }
    }
  }

  @Test(arguments: ["9223372036854775807", "-1", "1e300", "3"]) func aListWhoseCountIsWrongIsRefused(_ count: String) throws {
    let directory = try TemporaryDirectory()
    try write(["a", "b"], in: directory)
    let text = String(decoding: try directory.read(DatasetFiles.tasks), as: UTF8.self)
    try directory.write(DatasetFiles.tasks, text.replacing("\"count\":2", with: "\"count\":\(count)").utf8)
    #expect(throws: UsageError.self) { try TaskList(in: directory.path, tool: Self.tool) }
  }

  @Test(arguments: [
    ([], ""), ([3], "3"), ([0, 1], "0-1"), ([3, 7, 12, 13, 14, 15], "3,7,12-15"), ([0, 0, 1, 1, 3], "0-1,3"),
  ])
  func missingTasksAreRanges(_ numbers: [Int], _ text: String) { #expect(TaskStatus.ranges(numbers) == text) }

  @Test func takesFromOutsideAreIsolated() {
    let (bundle, movie, session) = (
      task("b", reader: RealityCamBundle()), task("m", isDirectory: false, reader: SlowMotionVideo()), task("s")
    )
    #expect([bundle, movie, session].map { IsolationPolicy.auto.applies(to: $0) } == [true, true, false])
    #expect([bundle, movie, session].allSatisfy { IsolationPolicy.always.applies(to: $0) && !IsolationPolicy.never.applies(to: $0) })
  }
}
