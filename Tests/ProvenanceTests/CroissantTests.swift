import Evidence
import Testing

@testable import Provenance

@Suite struct CroissantTests {
  private let takes: PublishedTakes
  init() throws { takes = try PublishedTakes() }

  /// The provenance knows takes, not their episodes.
  @Test func everyFileOfASplitTakeDerivesFromTheTakeThatWasUsed() throws {
    let dataset = try takes.convertSplit()
    let croissant = try Croissant(DatasetDescription(takes.path, options: .init(), threads: 1)).json
    let used = croissant["prov:wasGeneratedBy"]?["prov:used"]?.array?.map { $0["@id"]?.string }
    #expect(used == ["#take/session_a"])
    let files = (croissant["distribution"]?.array ?? []).filter { $0["name"]?.string?.hasPrefix("episodes/") == true }
    #expect(files.count > 1 && files.map { $0["name"]?.string } == dataset.written.map { $0.output?.path })
    #expect(files.allSatisfy { $0["prov:wasDerivedFrom"]?["@id"] == "#take/session_a" })
  }
}
