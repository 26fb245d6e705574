import ArgumentParser
import Foundation
import Media
import Simulate
import Takeset

struct SimulateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate", abstract: "Make a synthetic take of which everything is known, for examples and tests.",
    discussion: """
      A small room is ray-traced along a trajectory; poses, depth and times are exact, and each picture carries its \
      number as a row of black and white blocks along its top edge. truth.json says what a reader should find. The \
      same seed gives the same bytes.

        takeset simulate stack-session --output session_2026-01-31_120000 --seconds 2
        takeset simulate stack-session --variant v2 --output session_2026-01-31_130000 --seed 7
      """)

  enum Format: String, ExpressibleByArgument, CaseIterable { case stackSession = "stack-session" }

  @Argument(help: "The format: stack-session.")
  var format: Format
  @Option(name: .shortAndLong, help: "The directory of the take; must not exist or be empty.")
  var output: String
  @Option(help: "v1: pictures and depth maps; v2: small pictures, one depth number a frame, joint encoders.")
  var variant = SimulatedSession.Variant.v1
  @Option(help: "Length of the recording.")
  var seconds = 2.0
  @Option(help: "Frames a second.")
  var rate = 60.0
  @Option(help: "The same seed gives the same bytes.")
  var seed: UInt64 = 1
  @Option(help: ArgumentHelp("Size of the pictures; 1920x1440 (v1) or 480x360 (v2) by default.", valueName: "WxH"))
  var size: ImageSize?
  @Option(help: ArgumentHelp("Size of the depth maps (v1).", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(
    help: ArgumentHelp(
      "Take times and poses from a text file of real ARKit poses: time_ns and a row-major 3x4 matrix a line.", valueName: "file"))
  var trajectory: String?

  func validate() throws {
    guard seconds > 0, seconds <= 3600 else { throw ValidationError("--seconds: expected above 0 and at most 3600") }
    guard rate > 0, rate <= 1000 else { throw ValidationError("--rate: expected above 0 and at most 1000") }
    guard seconds * rate >= 1 else { throw ValidationError("--seconds: not one frame long at this rate") }
  }

  func run() throws {
    var session = SimulatedSession()
    session.variant = variant
    session.seconds = seconds
    session.rate = rate
    session.seed = seed
    session.size = size
    session.depthSize = depthSize
    if let trajectory {
      guard let data = FileManager.default.contents(atPath: trajectory) else {
        throw UsageError("the trajectory file \(trajectory) cannot be read")
      }
      session.trajectory = try Trajectory(text: String(decoding: data, as: UTF8.self), name: trajectory)
    }
    try session.write(to: output)
    standardOutput(output)
  }
}

extension SimulatedSession.Variant: ExpressibleByArgument {}

extension ImageSize: ExpressibleByArgument {
  /// As in 640x480.
  public init?(argument: String) {
    let sides = argument.split(separator: "x").compactMap { Int($0) }
    guard sides.count == 2, sides.allSatisfy({ (1...8192).contains($0) }) else { return nil }
    self.init(width: sides[0], height: sides[1])
  }
}
