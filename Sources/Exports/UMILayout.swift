import Foundation
import Model
import Steps

/// The part of a row that UMI's loader reads: the pose of the hand, its width, and the first and last pose of the demonstration.
///
/// Source: `umi_dataset.py`, `sampler.py` and `07_generate_replay_buffer.py` of UMI (Chi et al. 2024). The hand has the axes of its camera,
/// which are OpenCV's.
struct UMIRow {
  enum Part: Sendable { case position, rotation, width, start, end }

  /// The source of the gripper's width.
  struct Gripper: Sendable {
    var stream: StreamName
    var element: Int
  }

  /// A hand: the stream of its poses, and its member of a take of several phones.
  struct Robot: Sendable {
    var pose: StreamName
    var member: String?
    var gripper: Gripper?
  }

  private let poses: [Pose?]
  private let gripper: Gripper?

  init(_ episode: ExportedEpisode, _ robot: Robot) throws {
    gripper = robot.gripper
    if episode.episode.streams[robot.pose]?.spec.kind.poseFrame?.body == nil {
      poses = try episode.cameraPoses(.opencv, of: robot.pose) ?? []
    } else {
      // The pipeline said which body the poses are of: the gripper, with axes of its own.
      var reader = RowReader(episode.episode)
      poses = try (0..<episode.rows).map { try reader.pose(robot.pose, at: $0) }
    }
  }

  /// The numbers of a part of a row that has a pose.
  func values(_ part: Part, _ row: Int, _ reader: inout RowReader) throws -> [Double] {
    func numbers(_ pose: Pose?) -> (position: [Double], rotation: [Double]) {
      guard let pose else { return ([.nan, .nan, .nan], [.nan, .nan, .nan]) }
      return ((0..<3).map { pose.position[$0] }, (0..<3).map { pose.rotationVector[$0] })
    }
    switch part {
    case .position: return numbers(poses[row]).position
    case .rotation: return numbers(poses[row]).rotation
    case .width:
      guard let gripper else { return [0] }
      return [Double(try reader.values(of: gripper.stream, at: row)[gripper.element])]
    case .start, .end:
      let pose = numbers(part == .start ? poses.first { $0 != nil } ?? nil : poses.last { $0 != nil } ?? nil)
      return pose.position + pose.rotation
    }
  }
}

extension ReplayContents {
  /// Width and height of UMI's images.
  private static let umiSize = ImageSize(width: 224, height: 224)
  /// Rows per second of UMI's recordings, which its training configuration assumes: it takes every third.
  private static let umiRate = 59.94

  /// The names of the keys.
  enum UMIKeys {
    /// `robot0_eef_pos`, `camera0_rgb`: UMI's.
    case umi
    /// `gripper_left_eef_pos`, `camera_left_main_rgb`: iPhUMI's.
    case iphumi
  }

  /// The keys of UMI: images of 224x224, poses as position and rotation vector, and the gripper's width; of several hands in the order of the
  /// actions.
  ///
  /// Throws `ExportRefusal` for episodes without poses or images, or images of another size.
  static func umi(_ episodes: [ExportedEpisode], gripper option: String?, keys names: UMIKeys = .umi) throws -> ReplayContents {
    var robots = (episodes.first { !$0.hands.isEmpty } ?? episodes[0]).hands.map { UMIRow.Robot(pose: $0.pose, member: $0.member) }
    let without = episodes.filter { episode in
      episode.images.isEmpty || robots.isEmpty || robots.contains { episode.episode.streams[$0.pose]?.rows == nil }
    }.map(\.id)
    guard without.isEmpty else {
      let hands = robots.count > 1 ? "the poses of \(robots.compactMap(\.member).joined(separator: ", "))" : "poses"
      throw ExportRefusal("umi needs \(hands) and images, and these episodes lack one: \(without.abridged); leave them out with --episodes")
    }
    let sizes = episodes.filter { $0.images.contains { $0.stream.spec.gridSize != umiSize } }
    if !sizes.isEmpty {
      let found = EpisodeGroups(sizes) { $0.images.map { "\($0.stream.spec.gridSize)" }.joined(separator: ", ") }
      throw ExportRefusal(
        "umi needs images of \(umiSize), found \(found); convert with resize-image: {width: 224, height: 224, mode: cover}")
    }
    let cameras = EpisodeGroups(episodes) { $0.images.map(\.name.rawValue).joined(separator: " ") }
    if cameras.differ {
      throw ExportRefusal("umi needs the same cameras in all episodes, found \(cameras); choose episodes with --episodes")
    }
    if names == .iphumi, robots.contains(where: { $0.member == nil }) {
      throw ExportRefusal("--keys iphumi names keys after phones, and these takes are of one phone; leave it out")
    }
    let images = Self.cameras(of: episodes[0], robots)
    var keys = images.enumerated().map { number, image in
      let name = names == .umi ? "camera\(number)_rgb" : "camera_\(image.member ?? "")_\(image.isMain ? "main" : image.stream)_rgb"
      return ReplayKey(name: name, type: .uint8, shape: [umiSize.height, umiSize.width, 3], content: .raster(image.name))
    }
    for number in robots.indices {
      let robot = robots[number], prefix = Self.prefix(names, number, robot)
      func add(_ name: String, _ type: ScalarType, _ width: Int, _ part: UMIRow.Part) {
        keys.append(ReplayKey(name: "\(prefix)_\(name)", type: type, shape: [width], content: .umi(part, robot: number)))
      }
      add("eef_pos", .float32, 3, .position)
      add("eef_rot_axis_angle", .float32, 3, .rotation)
      add("gripper_width", .float32, 1, .width)
      if names == .umi {
        add("demo_start_pose", .float64, 6, .start)
        add("demo_end_pose", .float64, 6, .end)
      }
      robots[number].gripper = try gripper(option.map { StreamName($0).of(robot.member).rawValue }, episodes)
    }
    var contents = ReplayContents(
      keys: keys, streams: robots.map(\.pose) + images.map(\.name),
      lost: [], unplaced: unplaced(episodes),
      conventions: [
        "Poses are camera-to-world with OpenCV's camera axes (x right, y down, z forward), or those of the body that the pipeline gives.",
        "UMI computes actions itself: its window begins with row t, and its 6 numbers of a rotation are the first two rows of the matrix.",
      ])
    // The loader interpolates between rows, which fails for an episode of one.
    contents.minimumRows = 2
    contents.robots = robots
    for (number, robot) in robots.enumerated() {
      guard let gripper = robot.gripper else { continue }
      contents.streams.append(gripper.stream)
      contents.elements[gripper.stream] = gripper.element
      let unit = episodes[0].episode.streams[gripper.stream]?.spec.unit ?? ""
      if unit != "m" {
        contents.lost.append("The unit of \(Self.prefix(names, number, robot))_gripper_width is \(unit), and UMI takes it for meters.")
      }
    }
    if option == nil {
      contents.lost.append(
        "\(robots.enumerated().map { "\(Self.prefix(names, $0, $1))_gripper_width" }.joined(separator: ", ")) is 0, because no stream is named with --gripper."
      )
    }
    let observations = Set(episodes.flatMap { $0.streams { $0.place == .observation }.map(\.name) })
    contents.unplaced.formUnion(observations.subtracting(contents.streams))
    if episodes.contains(where: { $0.episode.derived[.actions] != nil }) { contents.unplaced.insert(.actions) }
    for episode in episodes {
      if let unit = episode.episode.streams[robots[0].pose]?.spec.kind.poseFrame?.unit, unit != .meters {
        contents.lost.append("\(episode.id): the unit of positions is \(unit), and UMI takes them for meters.")
      }
    }
    let rates = EpisodeGroups(episodes) { $0.episode.frames.cadence.rateHz.map { String(format: "%.2f", $0) } ?? "unknown" }
    contents.conventions.append(
      "UMI's configuration is for \(umiRate) rows per second, of which it takes every third; these are \(rates). Set its down-sampling "
        + "steps accordingly.")
    return contents
  }

  private static func prefix(_ keys: UMIKeys, _ number: Int, _ robot: UMIRow.Robot) -> String {
    keys == .umi ? "robot\(number)" : "gripper_\(robot.member ?? "")"
  }

  /// A stream of images; the first of a member is its main camera's.
  private struct UMICamera {
    var name: StreamName
    var member: String?
    /// The name without the member and the ending `_image`: `ultrawide`.
    var stream: String
    var isMain: Bool
  }

  /// The cameras: the hands' own, in their order, those of other phones, and then further ones of each.
  private static func cameras(of episode: ExportedEpisode, _ robots: [UMIRow.Robot]) -> [UMICamera] {
    var seen: Set<String?> = []
    let all = episode.images.map { name, stream in
      let member = stream.spec.member
      let plain = name.rawValue.dropFirst(member.map { $0.count + 1 } ?? 0)
      return UMICamera(
        name: name, member: member, stream: String(plain.hasSuffix("_image") ? plain.dropLast(6) : plain),
        isMain: seen.insert(member).inserted)
    }
    guard seen != [nil] else { return all }
    func rank(_ camera: UMICamera) -> (Int, Int, StreamName) {
      (camera.isMain ? 0 : 1, robots.firstIndex { $0.member == camera.member } ?? robots.count, camera.name)
    }
    return all.sorted { rank($0) < rank($1) }
  }

  /// `joints:0`, an element of a stream that all episodes have.
  private static func gripper(_ option: String?, _ episodes: [ExportedEpisode]) throws -> UMIRow.Gripper? {
    guard let option else { return nil }
    let words = option.split(separator: ":", omittingEmptySubsequences: false)
    let name = StreamName(String(words[0]))
    let width = { (episode: ExportedEpisode) in
      let stream = episode.episode.streams[name]
      return stream?.rows == nil || stream?.spec.kind.isRaster == true ? 0 : stream?.spec.elementCount ?? 0
    }
    let without = episodes.filter { width($0) == 0 }.map(\.id)
    guard without.count < episodes.count else { throw UsageError("--gripper: no episode has numbers called \(name)") }
    guard without.isEmpty else {
      throw ExportRefusal("--gripper: these episodes have no \(name): \(without.abridged); leave them out with --episodes")
    }
    let widths = episodes.map(width).min() ?? 0
    guard words.count == 2 || widths == 1, words.count <= 2, let element = words.count == 2 ? Int(words[1]) : 0,
      (0..<widths).contains(element)
    else { throw UsageError("--gripper: \(name) has \(widths) elements; name one, from \(name):0 to \(name):\(widths - 1)") }
    return UMIRow.Gripper(stream: name, element: element)
  }
}
