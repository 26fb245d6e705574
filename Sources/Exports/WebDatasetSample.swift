import Datasets
import Evidence
import Foundation
import Media
import Model

/// The endings of the files of a sample: short ones where no episode has several streams of a kind, else the streams' names.
struct SampleMembers: Sendable {
  private let hasOneImage: Bool
  private let hasOneDepth: Bool
  private let hasOneConfidence: Bool

  init(_ episodes: [ExportedEpisode]) {
    func hasOne(_ kind: StreamKind) -> Bool { Set(episodes.flatMap { $0.streams { $0 == kind }.map(\.name) }).count < 2 }
    (hasOneImage, hasOneDepth, hasOneConfidence) = (hasOne(.image), hasOne(.depth), hasOne(.confidence))
  }

  func image(_ name: StreamName, _ fileExtension: String) -> String { hasOneImage ? fileExtension : "\(name).\(fileExtension)" }
  func depth(_ name: StreamName) -> String { hasOneDepth ? "depth.png" : "\(name).png" }
  func confidence(_ name: StreamName) -> String { hasOneConfidence ? "confidence.png" : "\(name).png" }

  /// The name of the intrinsics of an image or a depth map in the JSON file.
  func intrinsics(_ name: StreamName, _ kind: StreamKind) -> String {
    if kind == .image { return hasOneImage ? "intrinsics" : "\(name)_intrinsics" }
    return hasOneDepth ? "depth_intrinsics" : "\(name)_intrinsics"
  }
}

/// Makes the samples of an episode. One reader serves one thread.
struct SampleReader {
  struct Sample: Sendable {
    /// Endings and contents, in the order of the file.
    var files: [(ending: String, bytes: [UInt8])] = []
    var counts = SampleCounts()
  }

  private let episode: ExportedEpisode
  private let members: SampleMembers
  private var images: [(name: StreamName, ending: String, files: FrameFiles)] = []
  private var depths: [(name: StreamName, ending: String, files: DepthMillimeters)] = []
  /// Confidence and masks.
  private var grays: [(name: StreamName, ending: String, size: ImageSize, files: RasterReader)] = []
  private let vectors: [StreamName]
  private var reader: RowReader

  init(_ episode: ExportedEpisode, _ members: SampleMembers, _ options: WebDatasetExporter) throws {
    (self.episode, self.members) = (episode, members)
    for (name, stream) in episode.images {
      let ending = members.image(name, FrameFiles.fileExtension(stream, options.image))
      images.append((name, ending, try FrameFiles(name, of: episode, as: options.image, quality: options.quality)))
    }
    for (name, _) in episode.depths { depths.append((name, members.depth(name), try DepthMillimeters(name, of: episode))) }
    for (name, stream) in episode.streams({ [.confidence, .segmentation].contains($0) }) {
      let ending = stream.spec.kind == .confidence ? members.confidence(name) : "\(name).png"
      grays.append((name, ending, stream.spec.gridSize, try RasterReader(name, of: episode)))
    }
    vectors = episode.streams { !$0.isRaster && $0.place == .observation }.map(\.name)
    reader = RowReader(episode.episode)
  }

  mutating func sample(_ row: Int) throws -> Sample {
    var sample = Sample()
    var valid: [String: JSONValue] = [:]
    for index in images.indices {
      let file = try images[index].files.image(row)
      valid[images[index].name.rawValue] = .bool(file != nil)
      if let file { sample.files.append((images[index].ending, file)) } else { sample.counts.withoutImage += 1 }
    }
    for index in depths.indices {
      let before = depths[index].files.beyondRange
      let file = try depths[index].files.png(row)
      valid[depths[index].name.rawValue] = .bool(file != nil)
      if let file { sample.files.append((depths[index].ending, file)) }
      sample.counts.beyondRange += depths[index].files.beyondRange - before
    }
    for index in grays.indices {
      let values = try grays[index].files.read(row)
      valid[grays[index].name.rawValue] = .bool(values != nil)
      if let values { sample.files.append((grays[index].ending, try PNG.encodeGray(values, bits: 8, size: grays[index].size))) }
    }
    sample.files.append(("json", try numbers(row, &valid).canonicalBytes))
    return sample
  }

  private mutating func numbers(_ row: Int, _ valid: inout [String: JSONValue]) throws -> JSONValue {
    let frames = episode.episode.frames
    var numbers: [String: JSONValue] = [
      "take": .string(episode.id), "row": JSONValue(row), "timestamp_ns": .integer(episode.nanoseconds(row)),
      "clock": .string(episode.timeBase.description), "source_index": .integer(frames.sourceIndex[row]),
    ]
    for name in vectors {
      let values = try reader.values(of: name, at: row)
      let isPose = episode.episode.streams[name]?.spec.kind.poseFrame != nil
      numbers[name.rawValue] = isPose && values.contains(where: \.isNaN) ? .null : .array(values.map(Self.number))
      valid[name.rawValue] = isPose ? .bool(!values.contains(where: \.isNaN)) : .array(values.map { .bool(!$0.isNaN) })
    }
    if episode.episode.derived[.actions] != nil {
      let values = try reader.values(of: .actions, at: row)
      let isKnown = !values.contains(where: \.isNaN)
      numbers["action"] = isKnown ? .array(values.map(Self.number)) : .null
      valid["action"] = .bool(isKnown)
    }
    for (name, stream) in episode.images + episode.depths {
      guard let camera = episode.intrinsics(stream, row) else { continue }
      numbers[members.intrinsics(name, stream.spec.kind)] = .array([camera.fx, camera.fy, camera.cx, camera.cy].map { .number($0) })
    }
    numbers["valid"] = .object(valid)
    let labels = episode.labels
    if !labels.isEmpty {
      numbers["labels"] = .object(labels.values.filter { $0.key != LabelValue.segmentsName && $0.value != .null })
      numbers["text"] = labels.text(ofRow: row).map { .string($0) }
    }
    return .object(numbers)
  }

  /// The shortest number that gives the same 32-bit float; `null` where there is none.
  private static func number(_ value: Float) -> JSONValue { Double("\(value)").map { $0.isFinite ? .number($0) : .null } ?? .null }
}
