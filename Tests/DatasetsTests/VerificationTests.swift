import Model
import Simulate
import Testing
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Steps
@testable import Transforms

@Suite struct VerificationTests {
  private let directory: TemporaryDirectory
  private var output: String { directory.path + "/out" }

  init() throws {
    directory = try TemporaryDirectory()
    var session = SimulatedSession()
    (session.variant, session.seconds, session.size) = (.v2, 0.2, ImageSize(width: 16, height: 12))
    try session.write(to: directory.path + "/session_1")
    let pipeline = Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: HDF5Writer())
    _ = try Run(
      inputs: [directory.path + "/session_1"], output: output, pipeline: pipeline, tool: ToolIdentity(version: "test", revision: "test")
    ).execute { _ in }
  }

  @Test func filesThatTheManifestDoesNotNameAreNoted() throws {
    try directory.write("out/episodes/old.h5", [1])
    var report = try Verification(directory: output, inputs: false)
    #expect(report.isSound && report.notes == ["episodes/old.h5 is not in the manifest"])
    report.refuseUnlisted()
    #expect(report.differences.map(\.path) == ["episodes/old.h5"])
  }

  /// A run that goes on has one for each take that it writes.
  @Test func whatARunIsWritingIsNotNoted() throws {
    let temporary = SealedFile.temporaryPath(for: "/episodes/session_2.h5")
    try directory.write("out" + temporary, [1])
    #expect(try Directory.members(of: output + "/episodes").count == 2)
    var report = try Verification(directory: output, inputs: false)
    report.refuseUnlisted()
    #expect(report.isSound && report.notes == [])
  }
}
