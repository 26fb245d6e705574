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

  private let poses: [Pose?]
  private let gripper: Gripper?

  init(_ episode: ExportedEpisode, _ gripper: Gripper?) throws {
    self.gripper = gripper
    if episode.poseFrame?.body == nil {
      poses = try episode.cameraPoses(.opencv) ?? []
    } else {
      // The pipeline said which body the poses are of: the gripper, with axes of its own.
      var reader = RowReader(episode.episode)
      poses = try (0..<episode.rows).map { try reader.pose(.pose, at: $0) }
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

  /// The keys of UMI: images of 224x224, poses as position and rotation vector, and the gripper's width.
  ///
  /// Throws `ExportRefusal` for episodes without poses or images, or images of another size.
  static func umi(_ episodes: [ExportedEpisode], gripper option: String?) throws -> ReplayContents {
    let without = episodes.filter { $0.poseFrame == nil || $0.images.isEmpty }.map(\.id)
    guard without.isEmpty else {
      throw ExportRefusal("umi needs poses and images, and these episodes lack one: \(without.abridged); leave them out with --episodes")
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
    let images = episodes[0].images.map(\.name)
    var keys = images.enumerated().map { number, name in
      ReplayKey(name: "camera\(number)_rgb", type: .uint8, shape: [umiSize.height, umiSize.width, 3], content: .raster(name))
    }
    func add(_ name: String, _ type: ScalarType, _ width: Int, _ part: UMIRow.Part) {
      keys.append(ReplayKey(name: "robot0_\(name)", type: type, shape: [width], content: .umi(part)))
    }
    add("eef_pos", .float32, 3, .position)
    add("eef_rot_axis_angle", .float32, 3, .rotation)
    add("gripper_width", .float32, 1, .width)
    add("demo_start_pose", .float64, 6, .start)
    add("demo_end_pose", .float64, 6, .end)
    var contents = ReplayContents(
      keys: keys, streams: [.pose] + images,
      lost: [], unplaced: unplaced(episodes),
      conventions: [
        "Poses are camera-to-world with OpenCV's camera axes (x right, y down, z forward), or those of the body that the pipeline gives.",
        "UMI computes actions itself: its window begins with row t, and its 6 numbers of a rotation are the first two rows of the matrix.",
      ])
    // The loader interpolates between rows, which fails for an episode of one.
    contents.minimumRows = 2
    contents.gripper = try gripper(option, episodes)
    if let gripper = contents.gripper {
      contents.streams.append(gripper.stream)
      contents.elements[gripper.stream] = gripper.element
      let unit = episodes[0].episode.streams[gripper.stream]?.spec.unit ?? ""
      if unit != "m" { contents.lost.append("The unit of robot0_gripper_width is \(unit), and UMI takes it for meters.") }
    } else {
      contents.lost.append("robot0_gripper_width is 0, because no stream is named with --gripper.")
    }
    let observations = Set(episodes.flatMap { $0.streams { $0.place == .observation }.map(\.name) })
    contents.unplaced.formUnion(observations.subtracting(contents.streams))
    if episodes.contains(where: { $0.episode.derived[.actions] != nil }) { contents.unplaced.insert(.actions) }
    for episode in episodes {
      if let unit = episode.poseFrame?.unit, unit != .meters {
        contents.lost.append("\(episode.id): the unit of positions is \(unit), and UMI takes them for meters.")
      }
    }
    let rates = EpisodeGroups(episodes) { $0.episode.frames.cadence.rateHz.map { String(format: "%.2f", $0) } ?? "unknown" }
    contents.conventions.append(
      "UMI's configuration is for \(umiRate) rows per second, of which it takes every third; these are \(rates). Set its down-sampling "
        + "steps accordingly.")
    return contents
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
