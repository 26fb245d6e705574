import Evidence
import Foundation
import Media
package import Model

/// A synthetic folder of a dataset, a driver or a robot's log, with a `takeset.yaml` that describes it.
package struct SimulatedFolder: Sendable {
  /// How files are named and what tables look like.
  package enum Layout: String, Sendable, CaseIterable {
    /// TUM RGB-D: lists of images and depth maps with times in seconds, a table of poses with quaternions.
    case tum
    /// EuRoC MAV: folders in folders, times in nanoseconds, poses of a body, an IMU.
    case euroc
    /// KITTI odometry: numbered images, a table of times, one of matrices, in the axes of the first camera.
    case kitti
    /// A driver's dump: milliseconds in the names, two tables of sensors, poses from the world to the camera.
    case realsense
    /// A robot's log: semicolons, decimal commas, millimeters and degrees, images by time, a gripper.
    case robot
    /// A robot's log beside a video, with the time of each frame, and rotation vectors between commas.
    case arm
  }

  package var layout = Layout.tum
  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 640, height: 480)
  package var depthSize = ImageSize(width: 320, height: 240)

  package init() {}

  /// Moments a second; images are of every other one, from the first on, depth maps of the others.
  private static let rate = 60.0
  /// Unix time of the first frame, in nanoseconds.
  private static let start: Int64 = 1_780_000_000_250_000_000
  /// The pose of the camera in the body of `euroc`.
  private static let cameraInBody: [Double] = [0, 0, 1, 0.05, -1, 0, 0, -0.02, 0, -1, 0, 0.01, 0, 0, 0, 1]

  private struct Files: Sendable {
    let root: String

    func save(_ path: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(fileURLWithPath: root + "/" + path)) }
    func save(_ path: String, _ lines: [String], ending: String = "\n") throws {
      try save(path, Array((lines.joined(separator: ending) + ending).utf8))
    }
    func folder(_ path: String) throws {
      try FileManager.default.createDirectory(atPath: root + "/" + path, withIntermediateDirectories: true)
    }
  }

  /// Writes the folder into a directory that is new or empty.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let files = Files(root: directory)
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: depthSize)
    let images = scene.path.samples.indices.filter { $0 % 2 == 0 }
    try writeImages(scene, files)
    let all = Array(scene.path.samples.indices)
    switch layout {
    case .tum:
      let comments = ["# timestamp filename"]
      try files.save("rgb.txt", ["# color images"] + comments + images.map { "\(seconds($0, scene)) rgb/\(seconds($0, scene)).png" })
      try files.save(
        "depth.txt",
        ["# depth maps"] + comments + all.filter { $0 % 2 == 1 }.map { "\(seconds($0, scene)) depth/\(seconds($0, scene)).png" })
      let poses = try all.map { try pose($0, scene) }
      try files.save(
        "groundtruth.txt",
        ["# ground truth trajectory", "# timestamp tx ty tz qx qy qz qw"]
          + zip(all, poses).map { number, pose in ([seconds(number, scene)] + numbers(pose)).joined(separator: " ") })
    case .euroc:
      try files.save(
        "mav0/cam0/data.csv", ["#timestamp [ns],filename"] + images.map { "\(time($0, scene)),\(time($0, scene)).png" }, ending: "\r\n")
      let offset = try Pose(rowMajor: Self.cameraInBody).inverse
      try files.save(
        "mav0/state_groundtruth_estimate0/data.csv",
        ["#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z []"]
          + all.map { number in
            let body = try pose(number, scene).composed(with: offset)
            let (p, q) = (body.position, body.quaternion)
            return ["\(time(number, scene))"] + [p.x, p.y, p.z, q.w, q.x, q.y, q.z].map { "\($0)" }
          }.map { $0.joined(separator: ",") }, ending: "\r\n")
      let names = [
        "w_RS_S_x [rad s^-1]", "w_RS_S_y [rad s^-1]", "w_RS_S_z [rad s^-1]", "a_RS_S_x [m s^-2]", "a_RS_S_y [m s^-2]", "a_RS_S_z [m s^-2]",
      ]
      let readings = IMUSimulation(from: scene.path.samples[0].time, seconds: seconds, 0, seed).readings
      try files.save(
        "mav0/imu0/data.csv",
        ["#timestamp [ns]," + names.joined(separator: ",")]
          + readings.map { reading in
            let force = (reading.acceleration - reading.gravity) * 9.80665
            let all = [reading.gyro.x, reading.gyro.y, reading.gyro.z, force.x, force.y, force.z].map { "\($0)" }
            return (["\(reading.time - scene.path.samples[0].time.nanoseconds + Self.start)"] + all).joined(separator: ",")
          }, ending: "\r\n")
    case .kitti:
      let first = try pose(0, scene).inverse
      try files.save("sequences/00/times.txt", images.map { "\(Double(scene.time($0)) / 1e9)" })
      try files.save(
        "poses/00.txt",
        images.map { number in try matrix(first.composed(with: pose(number, scene))).prefix(12).map { "\($0)" }.joined(separator: " ") })
    case .realsense:
      let sensors = SeparateSensors(from: scene.path.samples[0].time, seconds: seconds, seed: seed)
      func table(_ readings: [SeparateSensors.Reading], _ factor: Double) -> [String] {
        readings.map { reading in
          let time = Double((reading.time - scene.path.samples[0].time.nanoseconds + Self.start) / 1000) / 1000
          return "\(time)\t\(reading.value.x * factor)\t\(reading.value.y * factor)\t\(reading.value.z * factor)"
        }
      }
      try files.save("accel.tsv", ["Time (ms)\tX (g)\tY (g)\tZ (g)"] + table(sensors.accelerations, 1 / 9.80665))
      try files.save("gyro.tsv", ["Time (ms)\tX (g)\tY (g)\tZ (g)"] + table(sensors.rotations, 180 / .pi))
      try files.save(
        "extrinsics.csv",
        ["stamp," + (0..<12).map { "m\($0 / 4)\($0 % 4)" }.joined(separator: ",")]
          + all.map { number in
            (["\(milliseconds(number, scene))"] + (try matrix(pose(number, scene).inverse)).prefix(12).map { "\($0)" }).joined(
              separator: ",")
          })
    case .robot:
      func number(_ value: Double) -> String { "\(value)".replacing(".", with: ",") }
      try files.save(
        "log.csv",
        ["time [ms];x [mm];y [mm];z [mm];roll;pitch;yaw;gripper [mm];state"]
          + all.map { place in
            let pose = try pose(place, scene)
            let angles = Self.fixedAngles(matrix(pose)).map { $0 * 180 / .pi }
            let fields = [pose.position.x * 1000, pose.position.y * 1000, pose.position.z * 1000] + angles + [Self.opening(place) * 1000]
            return ([number(milliseconds(place, scene))] + fields.map(number) + ["running"]).joined(separator: ";")
          })
    case .arm:
      try files.save("frames.csv", ["frame,stamp"] + images.map { "\($0 / 2),\(time($0, scene))" })
      try files.save(
        "arm.csv",
        ["\"stamp\",\"px\",\"py\",\"pz\",\"rx\",\"ry\",\"rz\",\"width\""]
          + all.map { place in
            let pose = try pose(place, scene)
            let (p, r) = (pose.position, pose.rotationVector)
            return (["\(time(place, scene))"] + [p.x, p.y, p.z, r.x, r.y, r.z, Self.opening(place)].map { "\($0)" }).joined(separator: ",")
          })
    }
    try files.save("takeset.yaml", description(scene))
    try files.save("truth.json", [try truth(images, scene).canonicalText])
  }

  /// What a gripper does: the opening in meters at a moment.
  static func opening(_ place: Int) -> Double { 0.04 + 0.035 * sin(Double(place) / 20) }

  private func writeImages(_ scene: PhoneScene, _ files: Files) throws {
    let folders: [String] =
      switch layout {
      case .tum: ["rgb", "depth"]
      case .euroc: ["mav0/cam0/data", "mav0/state_groundtruth_estimate0", "mav0/imu0"]
      case .kitti: ["sequences/00/image_2", "poses"]
      case .realsense: ["color", "depth"]
      case .robot: ["frames"]
      case .arm: []
      }
    for folder in folders { try files.folder(folder) }
    if layout == .arm {
      var options = MovieEncoder.Options(size: size)
      (options.rate, options.timescale) = (Self.rate / 2, 90_000)
      let encoder = try MovieEncoder(files.root + "/cam.mp4", options)
      try scene.renderInOrder { frame in
        if frame.number % 2 == 0 { try encoder.add(frame.pixels, at: (scene.time(frame.number) * 90_000 + 500_000_000) / 1_000_000_000) }
      }
      return try encoder.finish()
    }
    try scene.render { frame in
      let isImage = frame.number % 2 == 0
      let image: String? =
        switch layout {
        case .tum: "rgb/\(seconds(frame.number, scene)).png"
        case .euroc: "mav0/cam0/data/\(time(frame.number, scene)).png"
        case .kitti: "sequences/00/image_2/" + "00000\(frame.number / 2)".suffix(6) + ".png"
        case .realsense: "color/color_\(milliseconds(frame.number, scene)).jpg"
        case .robot: "frames/cam_\(time(frame.number, scene) / 1_000_000).jpg"
        case .arm: nil
        }
      if isImage, let image {
        let isPNG = image.hasSuffix("png")
        try files.save(
          image, isPNG ? PNG.encode(frame.pixels, size: size, isFast: true) : JPEGEncoder().encode(frame.pixels, size: size, quality: 90))
      }
      guard !isImage, layout == .tum || layout == .realsense else { return }
      let scale = layout == .tum ? 5000 : Float(1000)
      let values = frame.meters.map { $0 < 8 ? UInt16(($0 * scale).rounded()) : 0 }
      let name = layout == .tum ? seconds(frame.number, scene) : "depth_\(milliseconds(frame.number, scene))"
      try files.save("depth/\(name).png", PNG.encodeGray(values.withUnsafeBytes { Array($0) }, bits: 16, size: depthSize))
    }
  }

  // MARK: Times and poses

  private func time(_ number: Int, _ scene: PhoneScene) -> Int64 {
    let time = Self.start + scene.time(number)
    switch layout {
    // As exact as the format writes them.
    case .tum: return time / 1000 * 1000
    case .realsense: return time / 1000 * 1000
    case .robot: return number % 2 == 0 ? time / 1_000_000 * 1_000_000 : time / 1000 * 1000
    case .kitti: return scene.time(number)
    case .euroc, .arm: return time
    }
  }

  private func seconds(_ number: Int, _ scene: PhoneScene) -> String {
    let microseconds = time(number, scene) / 1000
    return "\(microseconds / 1_000_000)." + "\(1_000_000 + microseconds % 1_000_000)".dropFirst()
  }

  /// Milliseconds with microseconds; a double of this size has them.
  private func milliseconds(_ number: Int, _ scene: PhoneScene) -> Double { Double(time(number, scene) / 1000) / 1000 }

  /// The pose in a world with z up, with OpenCV's axes of the camera.
  private func pose(_ number: Int, _ scene: PhoneScene) throws -> Pose {
    try Pose(rowMajor: Self.upright(scene.path.samples[number].matrix)).rotated(by: [1, 0, 0, 0])
  }

  static func upright(_ m: [Double]) -> [Double] { Array(m[0..<4]) + m[8..<12].map { -$0 } + m[4..<8] + m[12..<16] }

  private func numbers(_ pose: Pose) -> [String] {
    let (p, q) = (pose.position, pose.quaternion)
    return [p.x, p.y, p.z, q.x, q.y, q.z, q.w].map { "\($0)" }
  }

  /// The 16 numbers of the matrix, by rows.
  private func matrix(_ pose: Pose) -> [Double] {
    let columns = [pose.axes.x, pose.axes.y, pose.axes.z, pose.position]
    return (0..<3).flatMap { row in columns.map { $0[row] } } + [0, 0, 0, 1]
  }

  /// Angles in radians about the fixed axes x, y and z, in that order.
  private static func fixedAngles(_ m: [Double]) -> [Double] {
    [atan2(m[9], m[10]), asin(max(-1, min(1, -m[8]))), atan2(m[4], m[0])]
  }

  /// Times and poses of the rows as a reader should give them: camera to world with ARKit's axes, in a world that has y or z up.
  private func truth(_ images: [Int], _ scene: PhoneScene) throws -> JSONValue {
    let first = try pose(0, scene).inverse
    let poses = try images.map { number -> [Double] in
      if layout != .kitti { return Self.upright(scene.path.samples[number].matrix) }
      // Half a turn about x, from the axes of OpenCV to those of ARKit, on both sides.
      let flip = Pose(position: .zero, quaternion: [1, 0, 0, 0])
      return matrix(flip.composed(with: first.composed(with: try pose(number, scene))).composed(with: flip))
    }
    return [
      "frames": JSONValue(images.count), "frame_time_ns": .array(images.map { .integer(time($0, scene)) }),
      "camera_to_world": .array(poses.map { .array($0.map { .number($0) }) }),
      "gripper": layout == .robot || layout == .arm ? .array(images.map { .number(Self.opening($0)) }) : .null,
    ]
  }

  // MARK: The description

  private func description(_ scene: PhoneScene) -> [String] {
    let focal = scene.focalLength(0)
    // OpenCV counts from the middle of the first pixel.
    let camera =
      "cameras: {camera: {fx: \(focal), fy: \(focal), cx: \(Double(size.width) / 2 - 0.5), cy: \(Double(size.height) / 2 - 0.5), width: \(size.width), height: \(size.height), center: pixel}}"
    let body = Self.cameraInBody.map { "\($0)" }.joined(separator: ", ")
    switch layout {
    case .tum:
      return [
        "images: {camera_image: {files: \"rgb/*.png\", times: rgb.txt}}",
        "depth: {camera_depth: {files: \"depth/*.png\", times: depth.txt, scale: 0.0002, unit: m}}",
        "pose: {table: groundtruth.txt, layout: tum, axes: opencv, world-up: z}", camera, "time: {unit: s, unix: true}",
      ]
    case .euroc:
      return [
        "images: {camera_image: {files: \"mav0/cam0/data/*.png\", times: mav0/cam0/data.csv}}",
        "pose:", "  table: mav0/state_groundtruth_estimate0/data.csv", "  layout: euroc", "  axes: opencv", "  world-up: z",
        "  camera-in-body: [\(body)]",
        "imu:", "  table: mav0/imu0/data.csv", "  accel: [a_RS_S_x, a_RS_S_y, a_RS_S_z]", "  gyro: [w_RS_S_x, w_RS_S_y, w_RS_S_z]", camera,
        "time: {unit: ns}",
      ]
    case .kitti:
      return [
        "images: {camera_image: {files: \"sequences/00/image_2/*.png\", times: sequences/00/times.txt}}",
        "pose: {table: poses/00.txt, layout: kitti, times: sequences/00/times.txt, axes: opencv, world-up: -y}", camera,
      ]
    case .realsense:
      return [
        "images: {camera_image: {files: \"color/*.jpg\", times: name}}", "depth: {camera_depth: {files: \"depth/*.png\", times: name}}",
        "pose:", "  table: extrinsics.csv", "  matrix: [\((0..<12).map { "m\($0 / 4)\($0 % 4)" }.joined(separator: ", "))]",
        "  maps: world-to-camera", "  axes: opencv", "  world-up: z",
        "imu: {table: accel.tsv, accel: [X, Y, Z], accel-unit: g, gyro-table: gyro.tsv, gyro: [X, Y, Z], gyro-unit: deg/s}", camera,
        "time: {unit: ms}",
      ]
    case .robot:
      return [
        "images: {camera_image: {files: \"frames/*.jpg\", times: name}}",
        "pose: {table: log.csv, columns: {x: x, y: y, z: z, roll: roll, pitch: pitch, yaw: yaw}, unit: mm, angle-unit: deg, axes: opencv, world-up: z}",
        "streams: {gripper: {table: log.csv, columns: [gripper], unit: mm}}", camera, "time: {unit: ms}", "labels: {task: fold the towel}",
      ]
    case .arm:
      return [
        "images: {camera_image: {video: cam.mp4, times: {table: frames.csv, time: stamp}}}",
        "pose: {table: arm.csv, columns: {time: stamp, x: px, y: py, z: pz, rx: rx, ry: ry, rz: rz}, axes: opencv, world-up: z}",
        "streams: {gripper: {table: arm.csv, columns: [width], unit: m}}", camera, "time: {unit: ns}",
      ]
    }
  }
}
