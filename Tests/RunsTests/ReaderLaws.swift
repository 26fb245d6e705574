import Foundation
import Model
import Testing
import TestSupport

@testable import Runs
@testable import Steps

/// The laws that every registered reader obeys, over every simulated take.
@Suite struct ReaderLaws {
  private static let readers: [any Reader] = Registry.readers.map { $0.init() }

  /// By reader, what it recognizes at a place.
  private func candidates(_ location: TakeLocation) throws -> [(reader: any Reader, candidate: Candidate)] {
    let place = TakePlace(location)
    return try Self.readers.compactMap { reader in try reader.recognize(place).map { (reader, $0) } }
  }

  private func open(_ reader: any Reader, _ location: TakeLocation) throws -> Episode {
    try reader.open(Take(id: "t", location: location, inputs: reader.inputs(of: location)))
  }

  @Test(arguments: SimulatedTakes.all.indices) func oneReaderIsTheSurestAndOpensTheTakeOrSaysWhyNot(index: Int) throws {
    let example = SimulatedTakes.all[index]
    let directory = try TemporaryDirectory()
    let location = try SimulatedTakes.write(example, into: directory)
    let claims = try candidates(location)
    let best = try #require(claims.map(\.candidate.confidence).max(), "nobody recognizes \(example)")
    let surest = claims.filter { $0.candidate.confidence == best }.map { type(of: $0.reader).name }
    #expect(surest == [example.reader], "\(example)")
    let reader = try #require(claims.first { type(of: $0.reader).name == example.reader }?.reader)
    do {
      let episode = try open(reader, location)
      #expect(episode.frames.count > 0 && episode.streams[.image] != nil || episode.streams[.depth] != nil, "\(example)")
    } catch let failure as TakeFailure {
      #expect(failure.message.count > 10, "\(example): \(failure)")
    } catch let rejection as Rejection {
      #expect(!rejection.reason.isEmpty)
    }
  }

  /// Images and depth maps without a byte in them are recognized, and listed, as those with pixels.
  @Test(arguments: SimulatedTakes.all.indices) func recognizingReadsNoPixels(index: Int) throws {
    let example = SimulatedTakes.all[index]
    let directory = try TemporaryDirectory()
    let location = try SimulatedTakes.write(example, into: directory)
    guard location.isDirectory else { return }
    func outline() throws -> [String] {
      try candidates(location).map { reader, candidate in
        "\(type(of: reader).name) \(candidate.confidence) \(candidate.stem) \((try? candidate.inputs().entries.map(\.path)) ?? [])"
      }
    }
    let before = try outline()
    var emptied = 0
    let files = FileManager.default.enumerator(atPath: location.path)
    while let file = files?.nextObject() as? String {
      guard ["rgb/", "depth/", "confidence/"].contains(where: file.hasPrefix) else { continue }
      try Data().write(to: URL(fileURLWithPath: location.path + "/" + file))
      emptied += 1
    }
    #expect(try outline() == before)
    #expect(emptied > 0 || example.reader != "stack-session" || example.name == "images-missing")
  }

  /// Whatever bytes are in a file that is read to recognize or open a take: it is recognized or not, and opens or says why not.
  @Test(arguments: SimulatedTakes.all.indices) func aDamagedTakeOpensOrSaysWhyNot(index: Int) throws {
    let example = SimulatedTakes.all[index]
    let directory = try TemporaryDirectory()
    let location = try SimulatedTakes.write(example, into: directory)
    var mutator = Mutator(seed: UInt64(index) + 1)
    let root = URL(fileURLWithPath: location.isDirectory ? location.path : directory.path)
    let files = (FileManager.default.enumerator(atPath: root.path)?.allObjects ?? []).compactMap { $0 as? String }.sorted()
      .filter { name in !["rgb/", "depth/", "confidence/"].contains { name.contains($0) } }
    for file in files {
      let url = root.appendingPathComponent(file)
      guard let intact = try? Data(contentsOf: url), intact.count < 200_000 else { continue }
      for _ in 0..<4 {
        try Data(mutator.damaged(Array(intact))).write(to: url)
        for (reader, _) in try candidates(location) {
          do { _ = try open(reader, location) } catch let failure as TakeFailure {
            #expect(!failure.message.isEmpty)
          } catch is Rejection {
          } catch {
            Issue.record("\(example), \(file): \(error)")
          }
        }
      }
      try intact.write(to: url)
    }
  }

  @Test func theSurestReaderWinsAndATieIsAFinding() throws {
    let directory = try TemporaryDirectory()
    let session = try #require(SimulatedTakes.all.first { $0.name == "v2" })
    let location = try SimulatedTakes.write(session, into: directory)
    try directory.write("session_1/odometry.csv", Array("timestamp,frame,x,y,z,qx,qy,qz,qw\n".utf8))
    try directory.write("session_1/camera_matrix.csv", Array("1,0,1\n0,1,1\n0,0,1\n".utf8))
    func found() throws -> TakeSearch.Found {
      let search = TakeSearch(inputs: [location.path], readers: Self.readers)
      #expect(search.found.count == 1 && search.unmatched.isEmpty)
      return try #require(search.found.first)
    }
    let tied = try found()
    #expect(type(of: tied.reader).name == "stack-session")
    #expect(tied.findings.map(\.code) == [.formatAmbiguous])
    #expect(tied.findings[0].message.contains("stray-scanner"))
    // Without its poses a session is less sure than the odometry.
    try FileManager.default.removeItem(atPath: location.path + "/poses.json")
    let surer = try found()
    #expect(type(of: surer.reader).name == "stray-scanner" && surer.findings.isEmpty)
  }

  /// Readers look at a place together; the archive there is listed once.
  @Test func anArchiveIsListedOnce() throws {
    let directory = try TemporaryDirectory()
    let zip = try #require(SimulatedTakes.all.first { $0.name == "zip" })
    let place = TakePlace(try SimulatedTakes.write(zip, into: directory))
    let limits = Archive.Limits()
    let first = try #require(try place.archive(limits))
    #expect(try place.archive(limits) === first)
    for reader in Self.readers { _ = try reader.recognize(place) }
    #expect(try place.archive(limits) === first)
    var other = limits
    other.maxArchiveEntries = 1
    #expect(throws: TakeFailure.self) { try place.archive(other) }
  }

  /// No reader names another, nor what is in another's folder; what several use is in `Kit` and `Movie`.
  @Test func readersDoNotKnowEachOther() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../Sources/Readers")
    let files = (FileManager.default.enumerator(atPath: root.path)?.allObjects ?? []).compactMap { $0 as? String }.filter {
      $0.hasSuffix(".swift")
    }
    let readers = Set(Self.readers.map { "\(type(of: $0))" })
    func name(of file: String) -> String { String(file.dropLast(".swift".count).split(separator: "/").last ?? "") }
    let own = Set(files.filter { readers.contains(name(of: $0)) }.map(folder(of:))).subtracting(["Movie"])
    // The folder of each type that is named as its file.
    let owners = Dictionary(
      uniqueKeysWithValues: files.filter { own.contains(folder(of: $0)) || readers.contains(name(of: $0)) }.map {
        (name(of: $0), folder(of: $0))
      })
    #expect(readers.isSubset(of: owners.keys) && owners.count > 40)
    for file in files {
      let text = try String(contentsOf: root.appendingPathComponent(file), encoding: .utf8)
      for word in Set(text.split { !$0.isLetter && !$0.isNumber }) {
        if let owner = owners[String(word)] { #expect(owner == folder(of: file), "\(file) names \(word)") }
      }
    }
  }

  private func folder(of file: String) -> String { file.split(separator: "/").first.map(String.init) ?? "" }
}
