import Evidence
import Foundation
import Model
import Testing

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps

@Suite struct ChildResultTests {
  private static let task = TakeTask(id: "a", location: TakeLocation(path: "/takes/a", isDirectory: false), reader: StackSession())

  private func check(_ result: TakeResult) throws {
    let conversion = TakeConversion(
      pipeline: try PipelineFile.defaultPipeline(), tool: ToolIdentity(version: "1", revision: "r"), context: RunContext())
    // As the child's message arrives.
    let results = try JSONDecoder().decode([TakeResult].self, from: JSONEncoder().encode([result]))
    try IsolatedConversion.check(results, of: Self.task, conversion)
  }

  private func result(_ id: EpisodeID = "a", framesIn: Int = 6, repeated: Int = 0, parts: Int? = nil) -> TakeResult {
    TakeResult(
      record: TakeRecord(id: id, reader: "stack-session", outcome: .rejected, findings: []), seconds: 1, parts: parts, framesIn: framesIn,
      framesRepeated: repeated)
  }

  @Test func aResultOfTheTakeIsKept() throws { try check(result()) }

  @Test func aResultOfAnotherTakeIsRefused() {
    #expect(throws: TakeFailure.self) { try check(result("b")) }
  }

  @Test func episodesThatAreMissingAreNoticed() {
    #expect(throws: TakeFailure.self) { try check(result(parts: 2)) }
  }

  /// The list of a take's files is in the answer once, however many episodes the take has.
  @Test func anAnswerIsDecodedAsItWas() throws {
    var results = (0..<3).map { _ in result() }
    for index in results.indices {
      results[index].record.inputs = [TakeRecord.Input(path: "long/name.jpg", bytes: 1, digest: Digest.of([UInt8(1)]), role: .image)]
    }
    let answer = try ConversionAnswer.encode(results)
    let decoded = try ConversionAnswer.decode(answer)
    #expect(decoded.map(\.record) == results.map(\.record))
    #expect(String(decoding: answer, as: UTF8.self).split(separator: "name.jpg").count == 2)
  }

  /// A decoder that was taken over could otherwise end the run: sums over all takes would overflow.
  @Test(arguments: [(Int.max, 0), (-1, 0), (6, Int.max), (6, -1)]) func impossibleCountsAreRefused(framesIn: Int, repeated: Int) {
    #expect(throws: TakeFailure.self) { try check(result(framesIn: framesIn, repeated: repeated)) }
  }
}
