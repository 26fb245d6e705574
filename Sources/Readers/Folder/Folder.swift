import Evidence
import Media
package import Model
package import Steps

/// Folders of images or a video with tables, as a `takeset.yaml` in them describes them, or one beside the pipeline.
///
///     reader: {name: folder, description: realsense.yaml}
package struct Folder: DescribedReader {
  package static let name = "folder"
  package static let summary = "any folder of images or a video, depth, poses and tables, by a description in takeset.yaml"

  @StepOption("the description of folders that have no takeset.yaml of their own; a file is relative to the pipeline's")
  var description: DescriptionOption? = nil
  @StepOption("an image farther from the pose before or after it has no row (seconds)", 0...10) var maxPoseGap = 0.1
  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 256
  var video = VideoOptions()
  var pairing = MoviePairingOptions()
  var archive = Archive.Limits()

  package init() {}

  /// Throws `OptionError` for a description with a mistake.
  package func validate() throws {
    guard case .members(_, .failure(let error as PipelineFileError))? = description else { return }
    throw OptionError(error.path.isEmpty ? "description" : "description.\(error.path)", error.message)
  }

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  // MARK: Descriptions

  package var descriptionFile: String? { if case .file(let file)? = description { file } else { nil } }

  package mutating func describe(_ text: String) throws {
    let document = try FolderDescription.document(text)
    _ = try FolderDescription(document)
    // As the manifest will have it: 72 for 72.0.
    description = DescriptionOption(json: try JSONReader(Array(document.value.canonicalBytes)).document())
  }

  private func given() throws -> FolderDescription? {
    guard case .members(_, let read)? = description else { return nil }
    return try read.get()
  }

  /// The description in a take. Throws `TakeFailure`.
  private static func own(_ inputs: TakeInputs) throws -> FolderDescription? {
    guard let entry = inputs.index(of: FolderDescription.fileName) else { return nil }
    var bytes: [UInt8] = []
    try inputs.read(entry, limit: FolderDescription.byteLimit, hasher: SHA256(), into: &bytes)
    do {
      return try FolderDescription(FolderDescription.document(String(decoding: bytes, as: UTF8.self)))
    } catch let error as PipelineFileError {
      let place = error.line.map { ", line \($0), column \(error.column ?? 1)" }
      throw TakeFailure(
        .descriptionInvalid, [error.path.isEmpty ? nil : error.path, error.message].compactMap(\.self).joined(separator: ": "),
        file: FolderDescription.fileName, field: place)
    }
  }

  // MARK: Files

  /// Recognizes a folder, or an archive, with a `takeset.yaml`, whatever else it looks like; and any that has images where the pipeline's description
  /// says.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    if try place.members().contains(where: { $0.name == FolderDescription.fileName && $0.kind == .file }) {
      return Candidate(.declared, stem: place.name) { [path = place.path] in
        try Self.inputs { try TakeListing(folder: path, subfolders: $0) }
      }
    }
    guard let given = try given() else { return nil }
    let anchor = given.anchor
    let folder = anchor.folder.isEmpty ? place.path : place.path + "/" + anchor.folder
    if !anchor.folder.isEmpty, try place.kind(of: anchor.folder) != .directory { return nil }
    let prefix = anchor.folder.isEmpty ? "" : anchor.folder + "/"
    guard try Directory.members(of: folder).contains(where: { $0.kind == .file && anchor.matches(prefix + $0.name) }) else { return nil }
    return Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path, subfolders: given.folders).inputs(role: given.roles())
    }
  }

  /// The files of a take that has its description.
  private static func inputs(_ list: (Set<String>) throws -> TakeListing) throws -> TakeInputs {
    let only = try list([]).inputs { $0 == FolderDescription.fileName ? .metadata : nil }
    guard let own = try own(only) else { return only }
    return try list(own.folders).inputs(role: own.roles())
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    let found: Archive?
    do { found = try place.archive(archive) } catch is TakeFailure { return nil }
    guard let found else { return nil }
    do {
      if let root = try found.root(holding: [FolderDescription.fileName], folders: []) {
        // Beside other things, it may be part of another take.
        let isAlone = root.isEmpty || found.members.allSatisfy { $0.path.hasPrefix(root + "/") || $0.path.hasPrefix("__MACOSX") }
        return Candidate(isAlone ? .declared : .possible, stem: place.stem) {
          try Self.inputs { TakeListing(archive: found, root: root, subfolders: $0) }
        }
      }
      guard let given = try given(), let root = try given.root(in: found) else { return nil }
      return Candidate(.certain, stem: place.stem) {
        TakeListing(archive: found, root: root, subfolders: given.folders).inputs(role: given.roles())
      }
    } catch let failure as TakeFailure {
      return Candidate(.possible, stem: place.stem) { throw failure }
    }
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    guard let description = try Self.own(inputs) ?? given() else {
      throw TakeFailure(.descriptionInvalid, "the folder has no description", file: FolderDescription.fileName)
    }
    let limit = maxCsvMebibytes << 20
    let rows = description.images[0]
    var opened = FolderEpisode(description: description, inputs: inputs, notes: notes, limit: limit)
    var episode =
      switch rows.source {
      case .files(let pattern, let times):
        try opened.episode(
          of: pattern, times, id: take.id, maxImageSide: maxImageSide, keepsLocation: video.keepLocation)
      case .video(let path, let times, let start):
        try opened.episode(ofVideo: path, times, start, id: take.id, options: video, pairing: pairing)
      }
    if let pose = description.pose { try opened.addPoses(pose, &episode, gap: Int64((maxPoseGap * 1e9).rounded())) }
    for images in description.images.dropFirst() { try opened.add(images, &episode, maxImageSide: maxImageSide, options: video) }
    for depth in description.depth { try opened.add(depth, &episode) }
    for stream in description.streams { try opened.add(stream, &episode) }
    if let imu = description.imu { episode.streams[.imu] = try opened.imu(imu) }
    if !description.labels.isEmpty { episode.details[LabelDetails.format] = .object(description.labels) }
    for (camera, part) in description.cameras where part.distortion.contains(where: { abs($0) > 1e-9 }) {
      notes.add(
        .distortionIgnored, "the lens of \(camera) has distortion; images are stored as they are", file: FolderDescription.fileName)
    }
    episode.findings = notes.findings
    return episode
  }
}
