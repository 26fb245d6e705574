import Evidence
import Foundation
import Media
package import Model

/// A synthetic take of iPhUMI: a video, an ultra-wide video, depth maps one after the other, and a JSON file with poses and times.
package struct SimulatedIPhUMI: SimulatedApp {
  package static let command = "iphumi"
  package static let abstract = "A take of iPhUMI: a video, an ultra-wide video, depth, poses."
  package static let usualSize = ImageSize(width: 1920, height: 1440)

  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = SimulatedIPhUMI.usualSize
  package var quirks: [Quirk] = []

  /// A peculiarity of real takes that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The writer of the video skipped the fourth and the tenth frame, whose times are listed.
    case skippedFrames = "skipped-frames"
    /// The depth file ends within a map.
    case cutDepth = "cut-depth"
    /// There is no ultra-wide video.
    case noWide = "no-wide"
    /// There is no depth.
    case noDepth = "no-depth"
  }

  /// The phones of a demonstration, whose recordings are written into one folder; none for a recording of a phone by itself.
  package var phones: [SimulatedPhone] = []

  package init() {}

  private static let rate = 60.0
  private static let depthSize = ImageSize(width: 256, height: 192)
  private static let wideFocalLength: Float = 300
  private static let start: Int64 = 1_771_446_000_123_000_000

  /// Writes `NAME.json` and the files that belong to it into a directory, where NAME is the directory's name; for several phones, `SIDE.json` and
  /// so on for each.
  ///
  /// - Throws: `UsageError` for a directory that is not empty.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let name = URL(fileURLWithPath: directory).lastPathComponent
    func scene(_ number: Int) -> PhoneScene {
      PhoneScene(seconds: seconds, rate: Self.rate, seed: seed &+ UInt64(number), size: size, depthSize: Self.depthSize)
    }
    var truth = scene(0).truth()
    if phones.isEmpty {
      try write(scene(0), nil, "\(directory)/\(name)", session: name, SimulatedPhone(side: "right"))
    } else {
      let scenes = phones.indices.map(scene)
      for (phone, own) in zip(phones, scenes) {
        var inRoom = own
        inRoom.others = scenes.map(\.path)
        try write(inRoom, gripper(of: phone, scene: own), "\(directory)/\(phone.side)", session: name, phone)
      }
      // Poses of all phones are in one world, and times are those of one clock.
      truth = .object(
        Dictionary(
          uniqueKeysWithValues: zip(phones, scenes).map { phone, scene in
            var own = scene.truth().object ?? [:]
            own["start_unix_ns"] = .integer(start(of: phone))
            if let gripper = gripper(of: phone, scene: scene) {
              own["gripper_width"] = .array(
                scene.path.samples.indices.map { number in
                  gripper.isCovered(number, rate: Self.rate) ? .null : .number(gripper.width(at: Double(scene.time(number)) / 1e9))
                })
            }
            return (phone.side, .object(own))
          }))
    }
    try Data((truth.canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }

  /// The gripper in front of a phone: each but that on the head has one.
  private func gripper(of phone: SimulatedPhone, scene: PhoneScene) -> SimulatedGripper? {
    phone.side == "head"
      ? nil : SimulatedGripper(side: phone.side, isPair: phones.count { $0.side != "head" } > 1, seed: scene.seed)
  }

  private func start(of phone: SimulatedPhone) -> Int64 { Self.start + Int64((phone.skew * 1e9).rounded()) }

  private func write(_ scene: PhoneScene, _ gripper: SimulatedGripper?, _ stem: String, session: String, _ phone: SimulatedPhone) throws {
    let skipped: Set<Int> = quirks.contains(.skippedFrames) ? [3, 9] : []
    var options = MovieEncoder.Options(size: size)
    (options.rate, options.timescale) = (Self.rate, 10_000)
    let encoder = try MovieEncoder(stem + "_rgb.mp4", options)
    let wideSize = ImageSize(width: 640, height: 480)
    var wideOptions = MovieEncoder.Options(size: wideSize)
    (wideOptions.rate, wideOptions.timescale) = (10, 10_000)
    let wide = quirks.contains(.noWide) ? nil : try MovieEncoder(stem + "_ultrawidergb.mp4", wideOptions)
    var depth = Data()
    var last: [UInt16] = []
    try scene.renderInOrder { frame in
      let tick = (scene.time(frame.number) + 50_000) / 100_000
      var frame = frame
      let width = gripper?.width(at: Double(scene.time(frame.number)) / 1e9) ?? 0
      let isCovered = gripper?.isCovered(frame.number, rate: Self.rate) ?? false
      gripper?.draw(
        into: &frame.pixels, size: size, focalLength: Float(scene.focalLength(frame.number)), width: width, isCovered: isCovered)
      gripper?.draw(
        into: &frame.meters, size: Self.depthSize, focalLength: 0.75 * Float(Self.depthSize.width), width: width)
      if !skipped.contains(frame.number) { try encoder.add(frame.pixels, at: tick) }
      if frame.number % 6 == 0, let wide {
        var pixels = [UInt8](repeating: 90, count: wideSize.width * wideSize.height * 3)
        FrameCode.draw(frame.number, into: &pixels, size: wideSize)
        gripper?.draw(into: &pixels, size: wideSize, focalLength: Self.wideFocalLength, width: width, isCovered: isCovered)
        try wide.add(pixels, at: tick)
      }
      // The sensor measures at half the rate.
      if frame.number % 2 == 0 { last = frame.meters.map { HalfFloat.bits($0 < 5 ? $0 : 0) } }
      if !quirks.contains(.noDepth) { last.withUnsafeBytes { depth.append(contentsOf: $0) } }
    }
    try encoder.finish()
    try wide?.finish()
    if quirks.contains(.cutDepth) { depth.removeLast(100_000) }
    if !quirks.contains(.noDepth) { try depth.write(to: URL(fileURLWithPath: stem + "_depth.raw")) }
    try Data(json(scene, session, phone).canonicalBytes).write(to: URL(fileURLWithPath: stem + ".json"))
  }

  private func json(_ scene: PhoneScene, _ name: String, _ phone: SimulatedPhone) -> JSONValue {
    let start = start(of: phone)
    let numbers = scene.path.samples.indices
    func time(_ number: Int) -> JSONValue {
      let milliseconds = (start + scene.time(number) + 500_000) / 1_000_000
      let fraction = String(String(1000 + milliseconds % 1000).dropFirst())
      return .string(UnixTime.rfc3339(seconds: milliseconds / 1000).dropLast() + ".\(fraction)Z")
    }
    func matrix(_ focal: Double, _ size: ImageSize) -> JSONValue {
      let rows = [[focal, 0, Double(size.width) / 2], [0, focal, Double(size.height) / 2], [0, 0, 1]]
      return .array(rows.map { .array($0.map { .number($0) }) })
    }
    let times = JSONValue.array(numbers.map(time))
    var members: [String: JSONValue] = [
      "formatVersion": "v1", "sessionName": .string(name), "side": .string(phone.side), "type": "demonstration", "gripperID": "g1",
      "deviceName": "Somebody's iPhone", "deviceIdentifier": "00008120-0000000000000000", "frameCount": JSONValue(numbers.count),
      "isErrorCorrection": false, "recordingStartTime": time(0), "taskNames": ["pour"], "poseTimes": times, "rgbTimes": times,
      "depthTimes": quirks.contains(.noDepth) ? .array(numbers.map { _ in "" }) : times,
      "depthFrameIsRepeat": .array(numbers.map { .bool($0 % 2 == 1) }),
      "ultrawideRGBTimes": .array(numbers.map { $0 % 6 == 0 && !quirks.contains(.noWide) ? time($0) : "" }),
      "poseTransforms": .array(
        scene.path.samples.map { sample in
          .array((0..<4).map { row in .array(sample.matrix[(4 * row)..<(4 * row + 4)].map { .number(Double(Float($0))) }) })
        }),
      "mainCameraIntrinsics": matrix(scene.focalLength(0), size),
      "ultrawideCameraIntrinsics": matrix(Double(Self.wideFocalLength), ImageSize(width: 640, height: 480)),
    ]
    if !phones.isEmpty { members["sidesPresent"] = .array(phones.map { .string($0.side) }) }
    return .object(members)
  }
}
