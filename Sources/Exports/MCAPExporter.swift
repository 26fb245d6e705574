import Codecs
import Datasets
import Evidence
import Media
import Model
import Steps

/// A file of messages for each episode, as Foxglove, Rerun and ROS tools open it.
///
///     <take>.mcap
///       /camera/image, /camera/depth, /camera/info, /camera/pose, /tf    Foxglove's schemas
///       /camera_mask                                                     masks as PNG images, by their names
///       /joints, /actions, /imu                                          JSON
///       /left/camera/image, /left/joints                                 of a take of several phones
///
/// Poses are those of the optical axes: x right, y down, z forward.
struct MCAPExporter: Exporter {
  static let holdsMembers = true
  static let name = "mcap"
  static let summary = "MCAP files for Foxglove and Rerun: images, depth, calibrations, poses, joints"

  @StepOption("images that are stored as pixels: jpeg or png; images that the dataset stores as files keep their bytes")
  var image = ImageFileFormat.jpeg
  @StepOption("quality of JPEG images", 1...100) var quality = 95

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let entries = Dictionary(dataset.written.map { ($0.id.text, $0) }) { first, _ in first }
    for episode in episodes {
      let record = try entries[episode.id].map { try dataset.record(of: $0).canonicalBytes }
      try directory.writing("\(episode.id).mcap") { write in
        try withoutActuallyEscaping(write) { write in
          try self.write(episode, record: record, of: dataset, to: directory, write)
        }
      }
    }
    let confidence = Set(episodes.flatMap { $0.streams { $0 == .confidence }.map(\.name) })
    if !confidence.isEmpty { directory.lose("There are no messages of \(confidence.sorted().map(\.rawValue).joined(separator: ", ")).") }
    if episodes.contains(where: { episode in episode.depths.contains { $0.stream.spec.type == .float32 } }) {
      directory.lose("Depth is rounded to whole millimeters.")
    }
    if image == .jpeg, episodes.contains(where: { episode in episode.images.contains { $0.stream.spec.sourceEncoding == nil } }) {
      directory.lose("Images are compressed as JPEG of quality \(quality).")
    }
    for episode in episodes {
      directory.loseUnit(of: episode)
      let known = Set(EpisodeTopics.inertial(of: episode).map(\.name))
      let others = episode.episode.streams.filter { $0.value.spec.kind == .inertial && !known.contains($0.key) }.keys.sorted()
      if !others.isEmpty {
        directory.lose(
          "\(episode.id): \(others.map(\.rawValue).joined(separator: ", ")) is on another clock than the rows, and has no messages.")
      }
    }
  }

  private func write(
    _ episode: ExportedEpisode, record: [UInt8]?, of dataset: Dataset, to directory: ExportDirectory,
    _ write: @escaping (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    var file = try MCAPFile(library: "takeset", write)
    let clock = MessageClock(episode)
    let topics = try EpisodeTopics(episode, in: &file)
    let options = self
    var lost = MessageReader.Lost()
    var imu = try InertialMessages(episode, clock)
    func add(_ messages: [EpisodeMessage], row: Int) throws {
      for message in messages {
        guard let time = clock.logged(message.time), let channel = topics.channels[message.topic] else { continue }
        try file.addMessage(message.bytes, on: channel, sequence: row, at: time)
      }
    }
    try directory.inOrder(episode.rows) {
      try MessageReader(episode, topics, options)
    } make: { reader, row in
      try reader.messages(of: row)
    } store: { row, product in
      try add(imu.messages(upTo: episode.nanoseconds(row)), row: row)
      try add(product.messages, row: row)
      lost.add(product.lost)
    }
    try add(imu.messages(upTo: .max), row: episode.rows)
    if let record { try file.attach(record, named: "record.json", mediaType: "application/json") }
    try file.addMetadata("takeset", metadata(of: episode, dataset))
    if !episode.labels.isEmpty { try file.addMetadata("labels", Self.labels(of: episode)) }
    try file.finish()
    if lost.images > 0 { directory.lose("\(episode.id): \(lost.images) rows have no image, and no message of one.") }
    if lost.beyondRange > 0 { directory.lose("\(episode.id): \(lost.beyondRange) depth values beyond 65.535 m are 0.") }
    if imu.outside > 0 {
      directory.lose("\(episode.id): \(imu.outside) readings of the IMU are from before the first row or after the last.")
    }
  }

  /// Texts as they are, and the rest as JSON.
  private static func labels(of episode: ExportedEpisode) -> [String: String] {
    var texts: [String: String] = [:]
    for (name, value) in episode.labels.values where name != LabelValue.segmentsName && value != .null {
      texts[name] = value.string ?? value.canonicalText
    }
    if !episode.labels.segments.isEmpty { texts["segments"] = JSONValue.array(episode.labels.segments.map(\.json)).canonicalText }
    return texts
  }

  private func metadata(of episode: ExportedEpisode, _ dataset: Dataset) -> [String: String] {
    var texts = ["episode": episode.id, "rows": "\(episode.rows)", "record_sha256": dataset.recordDigest]
    switch episode.timeBase {
    case .unix(let resolution): (texts["time"], texts["time_resolution_ns"]) = ("unix", "\(resolution)")
    case .clock(let clock): (texts["time"], texts["clock"]) = ("from the first row", clock.rawValue)
    }
    if let frame = episode.poseFrame { (texts["world_axes"], texts["unit"]) = (frame.worldAxes.text, frame.unit.rawValue) }
    return texts
  }
}

/// Times of messages: Unix time where it is known, else from the first row.
struct MessageClock: Sendable {
  private let origin: Int64

  init(_ episode: ExportedEpisode) {
    if case .unix = episode.timeBase { origin = 0 } else { origin = episode.nanoseconds(0) }
  }

  /// A time in an episode's nanoseconds; before 1970 or the first row it is `nil`.
  func logged(_ time: Int64) -> UInt64? {
    let (difference, overflow) = time.subtractingReportingOverflow(origin)
    return overflow ? nil : UInt64(exactly: difference)
  }

  /// The same for the time in a message, which may be before the first row.
  func stamped(_ time: Int64) -> Int64 { time.subtractingReportingOverflow(origin).partialValue }
}
