import ArgumentParser
import Model
import Simulate

/// Takes of other apps, in their own forms.
struct SimulateRecord3D: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "record3d", abstract: "A take of Record3D: images, depth with confidence, poses, intrinsics.")

  @OptionGroup var options: SimulationOptions
  @Option(help: "r3d: a file; folder: its contents; exr: the EXR export.")
  var form = SimulatedRecord3D.Form.r3d
  @Option(help: "Frames per second.")
  var rate = 30.0
  @Option(help: ArgumentHelp("Size of the images; portrait, unless it is wider than high.", valueName: "WxH"))
  var size = ImageSize(width: 720, height: 960)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 192, height: 256)
  @Option(help: "A form that takes have of some versions, or of other programs; may be given several times.")
  var quirk: [SimulatedRecord3D.Quirk] = []

  func validate() throws { try options.validate(rate: rate) }

  func run() throws {
    var take = SimulatedRecord3D()
    (take.seconds, take.rate, take.seed) = (options.seconds, rate, options.seed)
    (take.size, take.depthSize, take.form, take.quirks) = (size, depthSize, form, quirk)
    try take.write(to: options.output)
    standardOutput(options.output)
  }
}

struct SimulateScannerApp: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "3d-scanner-app", abstract: "A scan of the 3D Scanner App, as \"All Data\": depth of each frame, images of some.")

  @OptionGroup var options: SimulationOptions
  @Option(help: "Frames per second.")
  var rate = 30.0
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = ImageSize(width: 960, height: 720)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(help: ArgumentHelp("Of so many frames, one has an image.", valueName: "n"))
  var imageEvery = 6
  @Option(help: "Something that is missing or damaged; may be given several times.")
  var quirk: [SimulatedScannerApp.Quirk] = []

  func validate() throws {
    try options.validate(rate: rate)
    guard (1...1000).contains(imageEvery) else { throw ValidationError("--image-every: expected 1 to 1000") }
  }

  func run() throws {
    var scan = SimulatedScannerApp()
    (scan.seconds, scan.rate, scan.seed) = (options.seconds, rate, options.seed)
    (scan.size, scan.depthSize, scan.imageEvery, scan.quirks) = (size, depthSize, imageEvery, quirk)
    try scan.write(to: options.output)
    standardOutput(options.output)
  }
}

struct SimulatePolycam: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "polycam", abstract: "Raw data of Polycam: keyframes, with cameras as tracked and as corrected.")

  @OptionGroup var options: SimulationOptions
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = ImageSize(width: 1024, height: 768)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(help: "Something that is missing; may be given several times.")
  var quirk: [SimulatedPolycam.Quirk] = []

  func validate() throws { try options.validate(rate: 30) }

  func run() throws {
    var capture = SimulatedPolycam()
    (capture.seconds, capture.seed) = (options.seconds, options.seed)
    (capture.size, capture.depthSize, capture.quirks) = (size, depthSize, quirk)
    try capture.write(to: options.output)
    standardOutput(options.output)
  }
}

/// A take of an app whose form has no options but its quirks.
struct SimulateApp<App: SimulatedApp>: ParsableCommand where App.Quirk: ExpressibleByArgument {
  static var configuration: CommandConfiguration { CommandConfiguration(commandName: App.command, abstract: App.abstract) }

  @OptionGroup var options: SimulationOptions
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = App.usualSize
  @Option(help: "Something that is missing, damaged or of another version; may be given several times.")
  var quirk: [App.Quirk] = []

  func validate() throws {
    try options.validate(rate: 30)
    guard size.width % 2 == 0, size.height % 2 == 0 else { throw ValidationError("--size: expected even sides") }
  }

  func run() throws {
    var take = App()
    (take.seconds, take.seed, take.size, take.quirks) = (options.seconds, options.seed, size, quirk)
    try take.write(to: options.output)
    standardOutput(options.output)
  }
}

struct SimulateIPhUMI: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: SimulatedIPhUMI.command, abstract: SimulatedIPhUMI.abstract)

  @OptionGroup var options: SimulationOptions
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = SimulatedIPhUMI.usualSize
  @Option(help: "Something that is missing, damaged or of another version; may be given several times.")
  var quirk: [SimulatedIPhUMI.Quirk] = []
  @OptionGroup var phones: PhonesOptions

  func validate() throws {
    try options.validate(rate: 30)
    guard size.width % 2 == 0, size.height % 2 == 0 else { throw ValidationError("--size: expected even sides") }
  }

  func run() throws {
    var take = SimulatedIPhUMI()
    (take.seconds, take.seed, take.size, take.quirks) = (options.seconds, options.seed, size, quirk)
    take.phones = try phones.sides()
    try take.write(to: options.output)
    standardOutput(options.output)
  }
}

struct SimulateTransforms: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transforms-json", abstract: "A capture with a transforms.json, as of nerfstudio or NeRFCapture.")

  @OptionGroup var options: SimulationOptions
  @Option(help: "nerfstudio: JPEG images, depth, no times; nerfcapture: PNG images, depth as pictures, times.")
  var form = SimulatedTransforms.Form.nerfstudio
  @Option(help: "Frames per second.")
  var rate = 30.0
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = ImageSize(width: 960, height: 720)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 256, height: 192)
  @Option(help: "A form that captures have of some programs; may be given several times.")
  var quirk: [SimulatedTransforms.Quirk] = []

  func validate() throws { try options.validate(rate: rate) }

  func run() throws {
    var capture = SimulatedTransforms()
    (capture.seconds, capture.rate, capture.seed, capture.form) = (options.seconds, rate, options.seed, form)
    (capture.size, capture.depthSize, capture.quirks) = (size, depthSize, quirk)
    try capture.write(to: options.output)
    standardOutput(options.output)
  }
}

struct SimulateFolder: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "folder", abstract: "A folder with a takeset.yaml: images or a video, depth, poses and tables in somebody's own form.")

  @OptionGroup var options: SimulationOptions
  @Option(
    help:
      "tum, euroc, kitti: as these datasets; realsense: a driver's dump, with milliseconds in names; robot: a log with semicolons and decimal commas; arm: a log beside a video."
  )
  var layout = SimulatedFolder.Layout.tum
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = ImageSize(width: 640, height: 480)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 320, height: 240)

  func validate() throws {
    try options.validate(rate: 30)
    guard layout != .arm || size.width % 2 == 0 && size.height % 2 == 0 else { throw ValidationError("--size: expected even sides") }
  }

  func run() throws {
    var folder = SimulatedFolder()
    (folder.seconds, folder.seed, folder.layout) = (options.seconds, options.seed, layout)
    (folder.size, folder.depthSize) = (size, depthSize)
    try folder.write(to: options.output)
    standardOutput(options.output)
  }
}

struct SimulateMCAP: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "mcap", abstract: "A recording in MCAP: images, depth, poses as transforms or odometry, an IMU, a gripper.")

  @OptionGroup var options: SimulationOptions
  @Option(
    help:
      "ros2: messages of ROS 2 in CDR, compressed by Zstandard; foxglove: Foxglove's schemas in Protocol Buffers, by LZ4; json: the same in JSON; bag: as ros2, in two files; unfinished: as ros2, cut off."
  )
  var form = SimulatedMCAP.Form.ros2
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH"))
  var size = ImageSize(width: 640, height: 480)
  @Option(help: ArgumentHelp("Size of the depth maps.", valueName: "WxH"))
  var depthSize = ImageSize(width: 320, height: 240)

  func validate() throws { try options.validate(rate: 30) }

  func run() throws {
    var recording = SimulatedMCAP()
    (recording.seconds, recording.seed, recording.form) = (options.seconds, options.seed, form)
    (recording.size, recording.depthSize) = (size, depthSize)
    try recording.write(to: options.output)
    standardOutput(options.output)
  }
}

extension SimulatedFolder.Layout: ExpressibleByArgument {}
extension SimulatedMCAP.Form: ExpressibleByArgument {}
extension SimulatedTransforms.Form: ExpressibleByArgument {}
extension SimulatedTransforms.Quirk: ExpressibleByArgument {}
extension SimulatedRecord3D.Form: ExpressibleByArgument {}
extension SimulatedRecord3D.Quirk: ExpressibleByArgument {}
extension SimulatedScannerApp.Quirk: ExpressibleByArgument {}
extension SimulatedPolycam.Quirk: ExpressibleByArgument {}
extension SimulatedIPhUMI.Quirk: ExpressibleByArgument {}
extension SimulatedAnySense.Quirk: ExpressibleByArgument {}
extension SimulatedARKitScenes.Quirk: ExpressibleByArgument {}
extension SimulatedSpectacularRec.Quirk: ExpressibleByArgument {}
extension SimulatedOpenCamera.Quirk: ExpressibleByArgument {}

/// Options of takes that several phones record at one time.
struct PhonesOptions: ParsableArguments {
  @Option(help: ArgumentHelp("One demonstration of several phones, by side: left,right,head.", valueName: "sides"))
  var phones: String?
  @Option(
    help: ArgumentHelp("A phone starts later than the others by so many seconds; may be given several times.", valueName: "side=seconds"))
  var skew: [String] = []

  func validate() throws { _ = try sides() }

  func sides() throws -> [SimulatedPhone] {
    let names = (phones ?? "").split(separator: ",").map(String.init)
    if let other = names.first(where: { !["left", "right", "head"].contains($0) }) {
      throw ValidationError("--phones: expected left, right and head, separated by commas, found \(other)")
    }
    guard Set(names).count == names.count else { throw ValidationError("--phones: a side is named twice") }
    var skews: [String: Double] = [:]
    for text in skew {
      let words = text.split(separator: "=", omittingEmptySubsequences: false)
      guard words.count == 2, names.contains(String(words[0])), let seconds = Double(words[1]), (-10...10).contains(seconds) else {
        throw ValidationError("--skew: expected one of --phones and seconds from -10 to 10, such as left=0.08, found \(text)")
      }
      skews[String(words[0])] = seconds
    }
    return names.map { SimulatedPhone(side: $0, skew: skews[$0] ?? 0) }
  }
}
