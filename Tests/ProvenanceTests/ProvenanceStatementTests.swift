import Evidence
import Testing
import TestSupport

@testable import Provenance

@Suite struct ProvenanceStatementTests {
  private let takes: PublishedTakes
  init() throws { takes = try PublishedTakes() }

  /// The first episode of the take b has no digest, and the take d has none at all.
  @Test func aTakeIsADependencyOnceAnEpisodeHasItsDigest() throws {
    let dataset = try takes.publish([
      .rejected("a", digest: "A"), .rejected("b.0"), .rejected("b.1", digest: "B"), .rejected("b.2", digest: "B"),
      .rejected("c.0", digest: "C"), .rejected("c.1"), .rejected("d"),
    ])
    let dependencies = try ProvenanceStatement(dataset, files: []).dependencies
    #expect(dependencies.map(\.name) == ["a", "b", "c"])
    #expect(dependencies.map(\.digest) == ["A", "B", "C"].map { Digest.of($0).description })
  }
}
