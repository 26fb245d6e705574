import ArgumentParser
import Evidence
import Foundation
import Media
import Model
import Simulate
import Steps

struct SimulateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate", abstract: "Generate a synthetic take with exact ground truth, for examples and tests.",
    discussion: """
      Ray-traces a small room along a trajectory. Poses, depth and times are exact, and each image carries its frame \
      number as a row of black and white blocks along its top edge. truth.json holds the values that a reader should \
      return. The same seed gives the same bytes.

        takeset simulate stack-session --seconds 2 --output session_1
        takeset simulate stack-session --variant v2 --seed 7 --output session_2
        takeset simulate realitycam-bundle --keys keys.json --output bundle_1
        takeset simulate slow-motion-video --rate 240 --output videos
        takeset simulate stray-scanner --size 960x720 --output scan_1
        takeset simulate record3d --output record_1
        takeset simulate device --to http://127.0.0.1:8080 --key KEY
        takeset simulate camera --to ws://127.0.0.1:8080/camera --output movies
      """,
    subcommands: [
      SimulateSession.self, SimulateBundle.self, SimulateMovie.self, SimulateStrayScan.self, SimulateRecord3D.self, SimulateScannerApp.self,
      SimulatePolycam.self, SimulateIPhUMI.self, SimulateTransforms.self, SimulateFolder.self, SimulateMCAP.self,
      SimulateApp<SimulatedAnySense>.self,
      SimulateApp<SimulatedARKitScenes>.self, SimulateApp<SimulatedSpectacularRec>.self, SimulateApp<SimulatedOpenCamera>.self,
      SimulateDevice.self, SimulateCamera.self,
    ])
}

/// Options of every simulation.
struct SimulationOptions: ParsableArguments {
  @Option(name: .shortAndLong, help: "The directory of the take; must be empty or not exist.")
  var output: String
  @Option(help: "Length of the recording in seconds.")
  var seconds = 2.0
  @Option(help: "Random seed; the same seed gives the same bytes.")
  var seed: UInt64 = 1

  func validate(rate: Double) throws {
    guard seconds > 0, seconds <= 3600 else { throw ValidationError("--seconds: expected above 0 and at most 3600") }
    guard rate > 0, rate <= 1000 else { throw ValidationError("--rate: expected above 0 and at most 1000") }
    guard seconds * rate >= 1 else { throw ValidationError("--seconds: shorter than one frame at this rate") }
  }
}

/// The options of a simulated phone's recording.
struct RecordingOptions: ParsableArguments {
  @Option(help: "fast: as fast as it can; realtime: each frame at its time. The bytes are the same.")
  var pace = SimulatedBundle.Pace.fast
  @Flag(help: "Print `frame N SECONDS` as soon as the recorder has taken a frame.")
  var trace = false

  var onFrame: @Sendable (Int, Double) -> Void {
    guard trace else { return { _, _ in } }
    return { standardOutput("frame \($0) \($1)") }
  }
}

struct SimulateSession: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stack-session", abstract: "A StackCapture session: poses, images, depth maps or joint encoders.")

  @OptionGroup var options: SimulationOptions
  @Option(
    help:
      "v1: images and depth maps; v2: small images, one depth value per frame, joint encoders; v3-…: IMU and video, poses by SLAM; packed; synthetic."
  )
  var variant = SimulatedSession.Variant.v1
  @Option(help: "Frames per second.")
  var rate = 60.0
  @Option(help: ArgumentHelp("Size of the images; 1920x1440 (v1) or 480x360 (v2) by default.", valueName: "WxH"))
  var size: ImageSize?
  @Option(help: ArgumentHelp("Size of the depth maps (v1).", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(
    help: ArgumentHelp(
      "Read times and poses from a text file of real ARKit poses: time_ns and a row-major 3x4 matrix per line.", valueName: "file"))
  var trajectory: String?
  @Option(
    help: ArgumentHelp(
      "When the recording starts, as 2026-03-01T13:00:00Z; 2026-02-18T20:23:54Z by default. Joints from before that day have unknown signs.",
      valueName: "time"))
  var startTime: String?
  @Option(help: "A known deviation of real sessions from their format; may be given several times.")
  var quirk: [SessionQuirk] = []
  @OptionGroup var phones: PhonesOptions
  @OptionGroup var recording: RecordingOptions

  func validate() throws {
    try options.validate(rate: rate)
    if let startTime, UnixTime.nanoseconds(rfc3339: startTime) == nil {
      throw ValidationError("--start-time: expected a time with its zone, such as 2026-03-01T13:00:00Z, found \(startTime)")
    }
    guard quirk.count(where: \.isContainer) <= 1 else { throw ValidationError("--quirk: only one of zip, tar and sidecar-alone") }
  }

  func run() throws {
    var session = SimulatedSession()
    session.variant = variant
    session.seconds = options.seconds
    session.rate = rate
    session.seed = options.seed
    session.size = size
    session.depthSize = depthSize
    session.quirks = quirk
    session.startTime = startTime.flatMap(UnixTime.nanoseconds)
    (session.pace, session.onFrame) = (recording.pace, recording.onFrame)
    if let trajectory {
      guard let data = FileManager.default.contents(atPath: trajectory) else {
        throw UsageError("the trajectory file \(trajectory) cannot be read")
      }
      session.trajectory = try Trajectory(text: String(decoding: data, as: UTF8.self), name: trajectory)
    }
    let sides = try phones.sides()
    guard !sides.isEmpty else {
      try session.write(to: options.output)
      return standardOutput(options.output)
    }
    // Sessions of phones that know nothing of each other, in a folder.
    let name = URL(fileURLWithPath: options.output).lastPathComponent
    for (number, phone) in sides.enumerated() {
      var own = session
      own.seed = options.seed &+ UInt64(number)
      own.start(later: phone.skew)
      try own.write(to: "\(options.output)/\(name)-\(phone.side)")
    }
    standardOutput(options.output)
  }
}

/// Options of a simulated video.
struct MovieSimulationOptions: ParsableArguments {
  @Option(help: "Frames per second; 30 for a bundle, 120 for slow motion by default.")
  var rate: Double?
  @Option(help: ArgumentHelp("Size of the upright images.", valueName: "WxH"))
  var size = ImageSize(width: 1920, height: 1080)
  @Option(help: "h264 or hevc.")
  var codec = Codec.h264
  @Option(help: ArgumentHelp("Ticks per second of the video's time base.", valueName: "n"))
  var timescale = 600
  @Option(help: ArgumentHelp("Clockwise rotation by the display matrix: 0, 90, 180 or 270.", valueName: "degrees"))
  var rotation = 0
  @Option(help: ArgumentHelp("Frames that the camera drops in one burst, starting at the tenth.", valueName: "n"))
  var drop = 0
  @Option(help: ArgumentHelp("Timestamp jitter, as a fraction of the frame period below 0.5.", valueName: "fraction"))
  var wander = 0.0
  @Option(help: ArgumentHelp("Consecutive frames that are coded with reference to later ones.", valueName: "n"))
  var reordering = 0
  @Flag(help: "Write a location and a name into the take, which a reader must not copy to the output.")
  var location = false

  enum Codec: String, ExpressibleByArgument, CaseIterable { case h264, hevc }

  func validate() throws {
    guard size.width % 2 == 0, size.height % 2 == 0 else { throw ValidationError("--size: expected even sides") }
    guard [0, 90, 180, 270].contains(rotation) else { throw ValidationError("--rotation: expected 0, 90, 180 or 270") }
    guard (1...1_000_000).contains(timescale) else { throw ValidationError("--timescale: expected 1 to 1000000") }
    guard (0..<0.5).contains(wander) else { throw ValidationError("--wander: expected 0 to 0.5") }
    guard (0...1000).contains(drop), (0...16).contains(reordering) else { throw ValidationError("--drop, --reordering: out of range") }
  }

  func movie(_ options: SimulationOptions, rate usual: Double) -> SimulatedMovie {
    var movie = SimulatedMovie()
    movie.seconds = options.seconds
    movie.seed = options.seed
    movie.rate = rate ?? usual
    movie.size = size
    movie.codec = codec.rawValue
    movie.timescale = timescale
    movie.rotation = rotation
    movie.dropped = drop
    movie.wander = wander
    movie.reordering = reordering
    movie.location = location ? "+48.1372+011.5761/" : nil
    return movie
  }
}

struct SimulateBundle: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "realitycam-bundle", abstract: "An uploaded bundle: a video, depth keyframes, a hash chain, signed metadata.")

  @OptionGroup var options: SimulationOptions
  @OptionGroup var movie: MovieSimulationOptions
  @Option(help: "folder: the four parts; storage: as the app's server stores them; multipart: the body of the upload.")
  var layout = SimulatedBundle.Layout.folder
  @Option(help: "Compression of the depth data.")
  var depthContainer = SimulatedBundle.DepthContainer.deflate
  @Option(help: "headerless: bare maps; rldp: with header and index.")
  var depthLayout = SimulatedBundle.DepthLayout.headerless
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(help: "Data signed by the device: the chain's end, its last checkpoint, or nothing valid.")
  var signature = SimulatedBundle.Signature.final
  @Flag(help: "State in the metadata that the recording was cut short.")
  var partial = false
  @Option(help: "A fault to put into the bundle.")
  var fault: SimulatedBundle.Fault?
  @Option(help: ArgumentHelp("Also write a keys file that verifies the signature.", valueName: "file"))
  var keys: String?
  @OptionGroup var recording: RecordingOptions
  @Option(help: ArgumentHelp("Interrupt the recording, as a call does, after so many seconds.", valueName: "seconds"))
  var interruptAt: Double?
  @Option(
    help: ArgumentHelp(
      "Also write what is hashed of each recorded frame: its length in 32 bits, RGB, depth map, time; lowest byte first.", valueName: "file"
    ))
  var hashed: String?

  func validate() throws {
    try options.validate(rate: movie.rate ?? 30)
    if let interruptAt, !(interruptAt > 0 && interruptAt <= 3600) {
      throw ValidationError("--interrupt-at: expected above 0 and at most 3600")
    }
  }

  func run() throws {
    var bundle = SimulatedBundle()
    bundle.movie = movie.movie(options, rate: 30)
    bundle.layout = layout
    bundle.depthContainer = depthContainer
    bundle.depthLayout = depthLayout
    bundle.depthSize = depthSize
    bundle.signature = signature
    bundle.isPartial = partial
    bundle.location = movie.location
    bundle.fault = fault
    (bundle.pace, bundle.onFrame, bundle.interruption, bundle.hashed) = (recording.pace, recording.onFrame, interruptAt, hashed)
    try bundle.write(to: options.output)
    if let keys, !FileManager.default.createFile(atPath: keys, contents: Data(bundle.keysFile)) {
      throw OutputFailure("cannot write the keys file \(keys)")
    }
    standardOutput(options.output)
  }
}

struct SimulateMovie: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "slow-motion-video", abstract: "A standalone video, as the slow-motion app records it.")

  @OptionGroup var options: SimulationOptions
  @OptionGroup var movie: MovieSimulationOptions
  @Option(help: "Name of the video file; the number is the Unix time of its start.")
  var name = "video_1771446000.mov"
  @Flag(help: "Encode upright frames although the display matrix rotates them, as the app's WebRTC mode does.")
  var doubleRotation = false

  func validate() throws {
    try options.validate(rate: movie.rate ?? 120)
    guard !name.contains("/"), [".mov", ".mp4"].contains(where: name.hasSuffix) else {
      throw ValidationError("--name: expected a name that ends in .mov or .mp4")
    }
  }

  func run() throws {
    var movie = movie.movie(options, rate: 120)
    movie.isDoublyRotated = doubleRotation
    try movie.write(named: name, into: options.output)
    standardOutput("\(options.output)/\(name)")
  }
}

struct SimulateStrayScan: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stray-scanner", abstract: "A Stray Scanner recording: a video, depth with confidence, odometry, IMU.")

  @OptionGroup var options: SimulationOptions
  @Option(help: "Frames per second.")
  var rate = 60.0
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = ImageSize(width: 1920, height: 1440)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(help: "h264 or hevc.")
  var codec = MovieSimulationOptions.Codec.h264
  @Option(help: ArgumentHelp("Frames that the camera drops in one burst, starting at the tenth.", valueName: "n"))
  var drop = 0
  @Flag(help: "Write depth without a video.")
  var noMovie = false
  @Flag(help: "Write odometry.csv as older versions of the app do, without intrinsics per frame.")
  var oldCsv = false
  @Option(help: "A form that recordings had before, or get from other programs; may be given several times.")
  var quirk: [SimulatedStrayScan.Quirk] = []

  func validate() throws {
    try options.validate(rate: rate)
    guard size.width % 2 == 0, size.height % 2 == 0 else { throw ValidationError("--size: expected even sides") }
    guard (0...1000).contains(drop) else { throw ValidationError("--drop: expected 0 to 1000") }
  }

  func run() throws {
    var scan = SimulatedStrayScan()
    scan.seconds = options.seconds
    scan.rate = rate
    scan.seed = options.seed
    scan.size = size
    scan.depthSize = depthSize
    scan.codec = codec.rawValue
    scan.hasMovie = !noMovie
    scan.isOld = oldCsv
    scan.quirks = quirk
    scan.dropped = drop
    try scan.write(to: options.output)
    standardOutput(options.output)
  }
}

extension SessionQuirk: ExpressibleByArgument {}
extension SimulatedSession.Variant: ExpressibleByArgument {}
extension SimulatedStrayScan.Quirk: ExpressibleByArgument {}
extension SimulatedBundle.Layout: ExpressibleByArgument {}
extension SimulatedBundle.DepthContainer: ExpressibleByArgument {}
extension SimulatedBundle.DepthLayout: ExpressibleByArgument {}
extension SimulatedBundle.Signature: ExpressibleByArgument {}
extension SimulatedBundle.Fault: ExpressibleByArgument {}
extension SimulatedBundle.Pace: ExpressibleByArgument {}

extension ImageSize: ExpressibleByArgument {
  /// A size such as 640x480.
  public init?(argument: String) {
    let sides = argument.split(separator: "x").compactMap { Int($0) }
    guard sides.count == 2, sides.allSatisfy({ (1...8192).contains($0) }) else { return nil }
    self.init(width: sides[0], height: sides[1])
  }
}
