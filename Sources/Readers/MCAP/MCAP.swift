import Evidence
import Media
package import Model
package import Steps

/// Recordings in MCAP, as ROS 2, Foxglove and many robots write them: one file, a zip of one, or a bag of several files.
///
///     reader: {name: mcap, topics: {camera_image: /cam/rgb, pose: /odom}}
package struct MCAP: Reader {
  package static let name = "mcap"
  package static let summary = "MCAP recordings of ROS 2, Foxglove and takeset: images, depth, poses, joints, IMU by their topics"

  package enum Time: String, OptionChoice { case header, log }
  package enum Up: String, OptionChoice { case y, z }

  @StepOption(
    "the topic of each stream, such as {camera_image: /cam/rgb, pose: /odom, gripper: /gripper/width}; without it, the topic that is alone of its kind is taken"
  )
  var topics: [String: String] = [:]
  @StepOption("times of messages; header: their own, or that of their logging where it is 0; log: that of their logging") var time = Time
    .header
  @StepOption("the axes of the camera that poses are of") var axes = AxesName.opencv
  @StepOption("the axis of the world that points up, such as z in the frames map and odom of ROS; null: not known") var worldUp: Up? = nil
  @StepOption("an image farther from the pose before or after it has no row (seconds)", 0...10) var maxPoseGap = 0.1
  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("a chunk or message larger than this fails the take (MiB)", 1...4096) var maxChunkMebibytes = 256
  var video = VideoOptions()
  var archive = Archive.Limits()

  package init() {}

  package func validate() throws {
    for name in topics.keys.sorted() {
      guard StreamName.isName(name) else {
        throw OptionError("topics", "\(name) is no name of a stream; expected lowercase letters, digits and underscores, after a letter")
      }
      guard !StreamName(name).isReserved else { throw OptionError("topics", "the name \(name) is reserved") }
    }
    if let name = topics.keys.sorted().first(where: { topics[$0]?.isEmpty ?? false }) {
      throw OptionError("topics", "\(name) has no topic; expected a name such as /camera/image")
    }
    let again = Dictionary(grouping: topics.keys) { topics[$0] ?? "" }.first { $0.value.count > 1 }
    if let again {
      throw OptionError("topics", "\(again.value.sorted().joined(separator: " and ")) are of one topic, \(again.key)")
    }
    guard topics.isEmpty || topics[StreamName.image.rawValue] != nil else {
      throw OptionError("topics", "camera_image is missing: its images are the rows")
    }
  }

  // MARK: Files

  private static let ending = ".mcap", bag = "metadata.yaml"

  /// Recognizes a file that begins as MCAP, an archive with one, and a folder with the `metadata.yaml` of a bag.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    if place.isDirectory {
      let members = try place.members()
      guard members.contains(where: { $0.name == Self.bag && $0.kind == .file }),
        members.contains(where: { $0.name.hasSuffix(Self.ending) })
      else { return nil }
      return Candidate(.certain, stem: place.name) { [path = place.path] in
        try TakeListing(folder: path, subfolders: []).inputs(role: Self.role)
      }
    }
    if try place.start(count: 8) == MCAPRecord.magic {
      return Candidate(.certain, stem: place.stem) { [path = place.path] in TakeInputs(file: path, role: .stream) }
    }
    return try place.candidate(inArchive: archive) { archive in
      let files = archive.members.filter { $0.path.hasSuffix(Self.ending) && !$0.path.contains("__MACOSX") }
      guard let first = files.first else { return nil }
      if let root = try archive.root(holding: [Self.bag], folders: []) { return (root, [], Self.role) }
      guard files.count == 1 else {
        throw TakeFailure(
          .archiveAmbiguous, "it holds \(files.count) MCAP files and no metadata.yaml of a bag; expected one recording", file: place.name)
      }
      let root = first.path.split(separator: "/").dropLast().joined(separator: "/")
      return (root, [], Self.role)
    }
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    path == bag ? .metadata : path.hasSuffix(ending) && !path.contains("/") ? .stream : nil
  }

  /// The files of a recording in their order.
  private static func files(_ inputs: TakeInputs) throws -> [String] {
    let present = inputs.entries.filter { $0.role == .stream }.map(\.path)
    guard let entry = inputs.index(of: bag) else {
      guard present.count == 1 else { throw TakeFailure(.recordingInvalid, "there are \(present.count) MCAP files and no metadata.yaml") }
      return present
    }
    var bytes: [UInt8] = []
    try inputs.read(entry, limit: 4 << 20, hasher: SHA256(), into: &bytes)
    let document: YAMLDocument?
    do {
      document = try YAMLDocument(String(decoding: bytes, as: UTF8.self))
    } catch let error as PipelineFileError {
      throw TakeFailure(.recordingInvalid, "it cannot be read: \(error.message)", file: bag)
    }
    let names = document?.value["rosbag2_bagfile_information"]?["relative_file_paths"]?.array?.compactMap(\.string)
    guard let names, !names.isEmpty else {
      throw TakeFailure(.recordingInvalid, "it names no files: expected rosbag2_bagfile_information with relative_file_paths", file: bag)
    }
    let plain = names.map { String($0.split(separator: "/").last ?? "") }
    if let other = plain.first(where: { !$0.hasSuffix(ending) }) {
      throw TakeFailure(.formatUnsupported, "the bag has \(other.onOneLine.prefix(80)); only bags of MCAP files are read", file: bag)
    }
    guard Set(plain).count == plain.count else { throw TakeFailure(.recordingInvalid, "it names a file twice", file: bag) }
    return plain
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let notes = FindingCollector()
    let limits = MCAPLog.Limits(
      chunk: maxChunkMebibytes << 20, total: Int64(min(archive.maxArchiveGibibytes * 0x1p30, 0x1p62)))
    let log = try MCAPLog(Self.files(take.inputs), in: take.inputs, limits)
    let named = Dictionary(topics.map { ($0.value, StreamName($0.key)) }) { first, _ in first }
    let recording = try MCAPRecording(log, named: named, usesStamps: time == .header, notes)
    let streams = try recording.streams(named: named)
    var opened = MCAPEpisode(recording: recording, streams: streams, options: self, notes: notes)
    var episode = try opened.episode(id: take.id)
    episode.findings = notes.findings
    return episode
  }
}
