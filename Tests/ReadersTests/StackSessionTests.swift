import Foundation
import Media
import Model
import Testing
import TestSupport

@testable import Readers
@testable import Steps

@Suite struct StackSessionTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func entry(_ number: Int) -> String {
    "{\"rgbIndex\":\(number),\"timestamp\":\(Double(number) / 10),\"transform\":[[1,0,0,1],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}"
  }

  private func writeImages(_ numbers: some Sequence<Int>) throws {
    let jpeg = try JPEGEncoder().encode([UInt8](repeating: 9, count: 8 * 6 * 3), size: ImageSize(width: 8, height: 6), quality: 80)
    for number in numbers { try directory.write("rgb/" + String(format: "%06d", number) + ".jpg", jpeg) }
  }

  private func open(_ poses: String, metadata: String = "{}") throws -> Episode {
    try directory.write("poses.json", poses.utf8)
    try directory.write("metadata.json", metadata.utf8)
    let place = TakeLocation(path: directory.path, isDirectory: true)
    let reader = StackSession()
    return try reader.open(Take(id: "t", location: place, inputs: reader.inputs(of: place)))
  }

  @Test func pairsByNumberAndNeverByPosition() throws {
    try writeImages([0, 1, 3, 4, 5, 9])
    // Unsorted, number 2 without a image, images 5 and 9 without a pose.
    let episode = try open("[" + [3, 0, 4, 2, 1].map { entry($0) }.joined(separator: ",") + "]")
    #expect(episode.frames.sourceIndex == [0, 1, 3, 4])
    #expect(episode.streams[.image]?.sourceIndex == [0, 1, 3, 4])
    #expect(Set(episode.findings.map(\.code)) == [.posesUnsorted, .imageMissing, .poseMissing, .poseRepeated])
    #expect(episode.sourceFrames == 7)
    #expect(episode.dropped.reduce(0) { $0 + $1.count } + episode.frames.count == episode.sourceFrames)
  }

  @Test func usesTheWholeEntriesOfATruncatedFile() throws {
    try writeImages(0..<4)
    let whole = "[" + (0..<4).map { entry($0) }.joined(separator: ",") + "]"
    let episode = try open(String(whole.dropLast(20)))
    #expect(episode.frames.count == 3)
    #expect(episode.findings.first { $0.code == .posesTruncated }?.message.contains("3 complete entries") == true)
  }

  @Test(arguments: [
    ("this is not JSON", "json-type", "expected a list of poses"), ("[", "json-invalid", "ends inside"),
    ("{}", "json-type", "found an object"),
    ("[{\"rgbIndex\":0}]", "json-type", "missing"), ("[1]", "json-type", "[0]: expected an object, found a number"),
    ("[{\"rgbIndex\":\"0\"}]", "json-type", "[0].rgbIndex: expected a whole number, found text"),
    ("[{\"rgbIndex\":0,\"timestamp\":null}]", "json-type", "[0].timestamp: expected a number, found null"),
    ("[{\"rgbIndex\":-1}]", "json-type", "expected a whole number from 0"),
    ("[{\"rgbIndex\":0,\"transform\":[[1,0,0]]}]", "json-type", "[0].transform[0]: expected four numbers, found 3"),
    ("[{\"rgbIndex\":0,\"timestamp\":NaN}]", "json-type", "the key is missing"),
    ("[{\"rgbIndex\":0,\"transform\":[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]}]", "json-type", "[0].timestamp: the key is missing"),
    ("[{\"rgbIndex\":0,}]", "json-invalid", "line 1, column 16"),
    ("[]", "no-frames", "empty"),
  ]) func saysWhatIsWrongWithThePoses(text: String, code: String, message: String) throws {
    try writeImages(0..<2)
    let failure = #expect(throws: TakeFailure.self) { try open(text) }
    #expect(failure?.code.rawValue == code)
    #expect(failure?.file == "poses.json")
    #expect(failure?.description.contains(message) == true, "\(String(describing: failure))")
  }

  @Test(arguments: [("[1001,10]", true), ("[10,1001]", true), ("[1000,1000]", false)])
  func depthMapsHaveAtMostAThousandPixelsASide(resolution: String, isRefused: Bool) throws {
    try writeImages(0..<2)
    let poses = "[\(entry(0)),\(entry(1))]", metadata = "{\"depthResolution\":\(resolution)}"
    if isRefused {
      let failure = #expect(throws: TakeFailure.self) { try open(poses, metadata: metadata) }
      #expect(failure?.code == .limit && failure?.field == ".depthResolution")
    } else {
      #expect(try open(poses, metadata: metadata).frames.count == 2)
    }
  }

  @Test(arguments: [
    ("[]", "expected an object"), ("{\"startTime\":5}", ".startTime"), ("{", "ends"),
    ("{\"depthResolution\":[60000,60000]}", "over the limit"),
  ]) func saysWhatIsWrongWithTheMetadata(text: String, message: String) throws {
    try writeImages(0..<2)
    let failure = #expect(throws: TakeFailure.self) { try open("[\(entry(0)),\(entry(1))]", metadata: text) }
    #expect(failure?.file == "metadata.json")
    #expect(failure?.description.contains(message) == true, "\(String(describing: failure))")
  }

  /// The files tell their sizes themselves, and counts beyond 2^53 are not the same to every reader of JSON.
  @Test(arguments: [
    ("{\"rgbResolution\":[480]}", "resolution-unusable"), ("{\"rgbResolution\":[1e9,1e9]}", "resolution-unusable"),
    ("{\"rgbResolution\":\"480x360\"}", "resolution-unusable"), ("{\"depthResolution\":[-480,360]}", "resolution-unusable"),
    ("{\"imuCount\":9223372036854775807}", "count-unusable"),
  ]) func passesOverHintsThatCannotBe(text: String, code: String) throws {
    try writeImages(0..<2)
    let episode = try open("[\(entry(0)),\(entry(1))]", metadata: text)
    #expect(episode.findings.map(\.code.rawValue).contains(code))
    #expect(episode.details["declared"] == nil)
  }

  @Test(
    arguments: ["rgbResolution", "depthResolution"],
    [
      "\"big\"", "[640]", "[640,480,3]", "[640,\"480\"]", "[0,480]", "[-640,480]", "[640.5,480]", "[1e300,480]", "{\"width\":640}", "true",
      "[1e9,1e9]", "[9223372036854775808,1]",
    ]) func aResolutionThatCannotBeIsSaidOnce(field: String, value: String) throws
  {
    try writeImages(0..<2)
    let said = try open("[\(entry(0)),\(entry(1))]", metadata: "{\"\(field)\":\(value)}").findings.filter { $0.code == .resolutionUnusable }
    #expect(said.map(\.field) == [".\(field)"] && said.first?.file == "metadata.json" && said.first?.severity == .warning)
    #expect(said.first?.message.contains("expected [width, height]") == true)
  }
}

@Suite struct EncodersTests {
  /// The findings on readings of index and middle joints, 20 ms apart; `nil` where a sensor does not answer.
  private func codes(_ index: [Float?], _ middle: [Float?]) throws -> [FindingCode: Int?] {
    let directory = try TemporaryDirectory()
    let readings = zip(index, middle).enumerated().map { number, angles in
      func text(_ angle: Float?) -> String { angle.map { "\($0)" } ?? "null" }
      let others = "\"three_finger_mcp\":-1,\"three_finger_pip\":-1"
      return "{\"timestamp\":\(1000 + 0.02 * Double(number)),\"esp_timestamp_ms\":\(20 * number),"
        + "\"index_mcp\":\(text(angles.0)),\"index_pip\":\(text(angles.1)),\(others)}"
    }
    try directory.write("encoders.json", "[\(readings.joined(separator: ","))]".utf8)
    let inputs = TakeInputs(root: directory.path, entries: [TakeInputs.Entry(path: "encoders.json", role: .encoders)])
    let notes = FindingCollector()
    let file = try EncodersFile(inputs, 0, limit: 1 << 20, startTime: nil, signs: [1, 1, 1, 1], csvOffset: nil, notes: notes)
    #expect(file.count == index.count)
    return Dictionary(notes.findings.map { ($0.code, $0.count) }, uniquingKeysWith: { first, _ in first })
  }

  @Test func aNewZeroIsAStepOfAllJointsThatAnswer() throws {
    #expect(try codes([10, 10, 40, 41], [50, 51, 90, 90])[.jointsRecalibrated] == 1)
    // One joint may be moved alone.
    #expect(try codes([10, 10, 40, 41], [50, 51, 51, 50])[.jointsRecalibrated] == nil)
    // The only joint that answers does not say what the others do.
    #expect(try codes([10, 10, 40, 41], [nil, nil, nil, nil])[.jointsRecalibrated] == nil)
    #expect(try codes([10, 10, 40, 41], [50, nil, 90, 90])[.jointsRecalibrated] == nil)
  }

  @Test func readsNumbersInFileNames() {
    // Five digits are not the app's.
    #expect(NumberedFiles.number(in: "00003.jpg") == nil)
    #expect(NumberedFiles.number(in: "000012.jpg") == 12)
    #expect(NumberedFiles.number(in: "1000000.jpg") == 1_000_000)
    #expect(NumberedFiles.number(in: "12.jpg") == nil)
    #expect(NumberedFiles.number(in: "0000012.jpg") == nil)
    #expect(NumberedFiles.number(in: "._00012.jpg") == nil)
    for name in ["000003.small.jpg", "000003.JPG", "3.jpg", "._000003.jpg", "000003 copy.jpg"] {
      #expect(SessionFolder.role(of: "rgb/" + name) == nil)
    }
    #expect(Day.inName("session_2026-01-31_120000") == "2026-01-31")
    #expect(Day.inName("session_12") == nil)
  }
}
