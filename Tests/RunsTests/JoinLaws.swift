import Foundation
import Model
import Testing
import TestSupport

@testable import Runs
@testable import Steps
@testable import Transforms

/// The laws of joined takes, for any two readers.
@Suite struct JoinLaws {
  private typealias SomeTake = (reader: any Reader, location: TakeLocation)

  /// A take of each reader, in a folder of its own.
  private static let takes: [SomeTake] = {
    var seen: Set<String> = []
    return SimulatedTakes.all.filter { seen.insert($0.reader).inserted }.compactMap { example in
      guard let directory = try? TemporaryDirectory(), let location = try? SimulatedTakes.write(example, into: directory) else {
        return nil
      }
      directories.append(directory)
      return Registry.reader(example.reader).map { ($0.init(), location) }
    }
  }()
  nonisolated(unsafe) private static var directories: [TemporaryDirectory] = []

  private static let readerCount = Set(SimulatedTakes.all.map(\.reader)).count

  private func aligned(_ take: SomeTake) throws -> Episode {
    var episode = try take.reader.open(Take(id: "t", location: take.location, inputs: take.reader.inputs(of: take.location)))
    Pipeline.examine(&episode, try take.reader.inputs(of: take.location))
    return try Align().apply(to: episode, in: RunContext())
  }

  /// The takes as one, whose first frames are at the same time.
  private func joined(_ takes: [SomeTake]) throws -> Episode {
    var reader = JoinedTake()
    reader.reference = "a"
    var first: Int64?
    for (name, take) in zip(["a", "b"], takes) {
      let place = String(take.location.path.dropFirst())
      reader.members[name] = JoinedTake.Member(name: name, place: place, id: name, reader: take.reader).json
      guard takes.count > 1 else { continue }
      let span = try UnixSpan(of: TakeTask(id: name, location: take.location, reader: take.reader))
      reader.offset[name] = Double((first ?? span.first) - span.first) / 1e9
      first = first ?? span.first
    }
    let root = TakeLocation(path: "/", isDirectory: true)
    let episode = try reader.open(Take(id: "t", location: root, inputs: reader.inputs(of: root)))
    return try Align().apply(to: episode, in: RunContext())
  }

  /// Otherwise the laws below would be of nothing.
  @Test func theseFormatsSayWhenTheyWereRecorded() {
    let known = Self.takes.filter { (try? UnixSpan(of: TakeTask(id: "t", location: $0.location, reader: $0.reader))) != nil }
    #expect(Self.takes.count == Self.readerCount)
    #expect(
      Set(known.map { type(of: $0.reader).name }) == [
        "anysense", "folder", "iphumi", "mcap", "slow-motion-video", "stack-session", "stray-scanner",
      ])
  }

  @Test(arguments: 0..<readerCount) func oneMemberIsItsTakeWithOtherNames(index: Int) throws {
    let take = Self.takes[index]
    let alone: Episode
    do { alone = try aligned(take) } catch is TakeFailure { return }
    let joined = try joined([take])
    #expect(joined.frames.timestamps == alone.frames.timestamps && joined.frames.quality == alone.frames.quality)
    #expect(Set(joined.streams.keys) == Set(alone.streams.keys.map { $0.of("a") }))
    for (name, stream) in alone.streams {
      let own = try #require(joined.streams[name.of("a")])
      #expect(own.rows == stream.rows && own.timestamps == stream.timestamps && own.sourceIndex == stream.sourceIndex, "\(name)")
      #expect(own.spec.member == "a" && own.spec.shape == stream.spec.shape && own.spec.type == stream.spec.type, "\(name)")
    }
  }

  @Test(arguments: 0..<(readerCount * readerCount)) func anyTwoHaveTheRowsOfTheFirstAndTheNearestSamplesOfTheSecond(pair: Int) throws {
    let takes = [Self.takes[pair / Self.takes.count], Self.takes[pair % Self.takes.count]]
    let alone: [Episode]
    let joined: Episode
    do {
      alone = try takes.map(aligned)
      joined = try self.joined(takes)
    } catch let failure as TakeFailure {
      // Most formats say when a take was recorded, and others cannot be joined.
      #expect(failure.code == .joinClock || (try? takes.map(aligned)) == nil, "\(failure)")
      return
    }
    #expect(joined.frames.timestamps == alone[0].frames.timestamps)
    #expect(Set(joined.streams.keys) == Set(alone[0].streams.keys.map { $0.of("a") } + alone[1].streams.keys.map { $0.of("b") }))
    for (name, stream) in alone[0].streams {
      let own = try #require(joined.streams[name.of("a")])
      #expect(own.rows == stream.rows && own.timestamps == stream.timestamps, "\(name)")
    }
    for (name, stream) in alone[1].streams where stream.rows != nil {
      let own = try #require(joined.streams[name.of("b")])
      #expect(own.timestamps.count == stream.timestamps.count && own.spec.member == "b", "\(name)")
      let rows = try #require(own.rows)
      for (row, time) in joined.frames.timestamps.enumerated() {
        let usable = own.timestamps.indices.filter { own.relation?.samples.contains($0) ?? true }
        let nearest = usable.map { abs(own.timestamps[$0].since(time)) }.min() ?? .max
        if let sample = rows[row] {
          #expect(abs(own.timestamps[sample.nearest].since(time)) == nearest && nearest <= 50_000_000, "\(name) \(row)")
        } else {
          #expect(nearest > 50_000_000, "\(name) \(row)")
        }
      }
    }
  }
}
