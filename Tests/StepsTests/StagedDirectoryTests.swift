import Foundation
import Testing
import TestSupport

@testable import Steps

@Suite struct StagedDirectoryTests {
  /// The dataset would be replaced by what is made of it, or be a part of it.
  @Test(arguments: [".", "", "/deeper"]) func theOutputIsApartFromWhatIsRead(_ place: String) throws {
    let directory = try TemporaryDirectory()
    try directory.write("data/input/manifest.json", Array("{}".utf8))
    let input = directory.path + "/data/input"
    let output = place == "." ? directory.path + "/data" : input + place
    let error = #expect(throws: UsageError.self) { try StagedDirectory(output, apartFrom: [input]) }
    #expect(error?.message.contains("are inside one another") == true)
    #expect(try directory.read("data/input/manifest.json") == Array("{}".utf8))
  }
}
