import Foundation
import Model
import Testing
import TestSupport

@Suite struct RowReaderTests {
  private func episode(_ values: [[Float]], kind: StreamKind, rows: [Row?]) -> Episode {
    let stamps = rows.indices.map { Timestamp(nanoseconds: Int64($0) * 10_000_000) }
    let samples = values.indices.map { Timestamp(nanoseconds: Int64($0) * 10_000_000) }
    let spec = StreamSpec(kind: kind, type: .float32, shape: [values[0].count], unit: "m", clock: .deviceUptime)
    let stream = SampleStream(
      spec: spec, source: VectorSource(width: values[0].count, values: values.flatMap(\.self)), timestamps: samples,
      sourceIndex: samples.indices.map { Int64($0) }, rows: rows)
    return Episode(
      id: "e", sourceFrames: stamps.count,
      frames: Episode.Frames(timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: ["s": stream])
  }

  private func pose(_ angle: Double, at x: Float, negated: Bool = false) -> [Float] {
    let sign: Float = negated ? -1 : 1
    return [x, 0, 0, 0, sign * Float(sin(angle / 2)), 0, sign * Float(cos(angle / 2))]
  }

  @Test func blendsNumbersAlongALine() throws {
    var rows = RowReader(episode([[1, .nan], [3, 5]], kind: .vector, rows: [Row(0, towards: 1, by: 0.25), nil, Row(1)]))
    let first = try rows.values(of: "s", at: 0)
    #expect(first[0] == 1.5 && first[1].isNaN)
    #expect(try rows.values(of: "s", at: 1).allSatisfy(\.isNaN))
    #expect(try rows.values(of: "s", at: 2) == [3, 5])
  }

  /// A quaternion continues the sign of the row before it, whichever rows are asked for and in whichever order.
  @Test func signsDoNotDependOnTheOrderOfReading() throws {
    let poses = (0..<8).map { pose(0.9 * Double($0), at: Float($0), negated: $0 % 3 == 1) }
    let rows: [Row?] = [Row(0), Row(1), nil, Row(3), Row(4), Row(5), Row(6), Row(7)]
    let episode = episode(poses, kind: .pose(.arkit), rows: rows)
    var forward = RowReader(episode)
    let expected = try rows.indices.map { try forward.values(of: "s", at: $0) }
    var last: [Float]?
    for (row, values) in zip(rows, expected) where row != nil {
      if let last { #expect(zip(values[3...], last[3...]).reduce(0) { $0 + $1.0 * $1.1 } >= 0) } else { #expect(values[6] >= 0) }
      last = values
    }
    for order in [[7, 0, 3, 7], [5, 4, 3, 2, 1, 0]] {
      var reader = RowReader(episode)
      for row in order {
        let values = try reader.values(of: "s", at: row)
        #expect(zip(values, expected[row]).allSatisfy { $0 == $1 || $0.isNaN && $1.isNaN })
      }
    }
  }

  @Test(arguments: [0.0, 0.25, 0.5, 0.9, 1]) func blendsRotationsAlongTheShortestArc(weight: Double) throws {
    // The second is given by its negative, the long way round.
    let episode = episode(
      [pose(0.4, at: 0), pose(1.4, at: 2, negated: true)], kind: .pose(.arkit), rows: [Row(0, towards: 1, by: Float(weight))])
    var rows = RowReader(episode)
    let expected = pose(0.4 + weight, at: Float(2 * weight))
    #expect(zip(try rows.values(of: "s", at: 0), expected).allSatisfy { abs($0 - $1) < 1e-6 })
  }

  /// The step to the next row, as an action would be; missing at the end and next to a missing row.
  private struct Step: Derived {
    var spec: StreamSpec { StreamSpec(kind: .action, type: .float32, shape: [1], unit: "m", clock: .deviceUptime) }
    var inputs: [StreamName] { ["s"] }
    func value(at row: Int, of rows: inout RowReader) throws -> [Float] {
      guard row + 1 < rows.count else { return [.nan] }
      return [try rows.values(of: "s", at: row + 1)[0] - rows.values(of: "s", at: row)[0]]
    }
  }

  @Test func derivesStreamsFromTheRowsThatAreLeft() throws {
    var whole = episode([[0], [1], [3], [6], [10]], kind: .vector, rows: (0..<5).rows)
    whole.derived["step"] = Step()
    func steps(_ episode: Episode) throws -> [Float] {
      var rows = RowReader(episode)
      return try (0..<rows.count).map { try rows.values(of: "step", at: $0)[0] }
    }
    #expect(try Array(steps(whole).dropLast()) == [1, 2, 3, 4])
    #expect(try steps(whole).last?.isNaN == true)
    // Rows 0, 2, 4: the step is from one kept row to the next.
    #expect(try Array(steps(whole.keeping([0, 2, 4], dropping: "test")).dropLast()) == [3, 7])
  }

  @Test func aDerivedStreamOfTheWrongWidthCostsTheTake() throws {
    struct Wrong: Derived {
      var spec: StreamSpec { StreamSpec(kind: .action, type: .float32, shape: [2], unit: "m", clock: .deviceUptime) }
      var inputs: [StreamName] { [] }
      func value(at row: Int, of rows: inout RowReader) throws -> [Float] { [0] }
    }
    var episode = episode([[0]], kind: .vector, rows: [Row(0)])
    episode.derived["wrong"] = Wrong()
    var rows = RowReader(episode)
    #expect(throws: TakeFailure.self) { try rows.values(of: "wrong", at: 0) }
  }
}
