import Evidence
import Foundation
import Media
package import Model
import Rasters
package import Steps

/// Bundles that the RealityCam app uploads: a video of up to 15 s, depth keyframes at a third of its rate, a hash for each frame, and
/// metadata. In a folder, in the layout of the app's server, or as the body of the upload.
///
///     reader: {name: realitycam-bundle, depth: optional}
package struct RealityCamBundle: Reader {
  package static let name = "realitycam-bundle"
  package static let summary = "Uploaded bundles: video, depth keyframes, a hash chain and metadata"

  /// The treatment of a bundle whose depth cannot be read.
  package enum DepthPolicy: String, OptionChoice { case required, optional }
  /// The treatment of depth maps whose frames are unknown.
  package enum AmbiguityPolicy: String, OptionChoice { case mask, assume }

  @StepOption("required: a bundle whose depth cannot be read fails; optional: it is written without depth") var depth = DepthPolicy.required
  @StepOption("depth whose frames are unknown; mask: no frame gets it; assume: keyframe k belongs to frame 3k") var ambiguousDepth =
    AmbiguityPolicy.mask
  @StepOption("enforce the limits of the app's own server") var strict = false
  @StepOption("auto, apply: images are stored upright, by the display matrix; keep: as coded") var rotation = VideoRotation.auto
  var video = VideoOptions()
  var archive = Archive.Limits()

  package init() {}

  /// Recognizes a folder, an archive or an upload's body by the names of a bundle's parts.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    let isGeneric = MovieFile.isGeneric(place.stem)
    if place.isDirectory {
      let folder = try BundleFolder(place)
      return folder.confidence.map { confidence in
        Candidate(confidence, stem: place.name, hasGenericName: MovieFile.isGeneric(place.name)) { [path = place.path] in
          TakeInputs(root: path, entries: folder.files.map { TakeInputs.Entry(path: $0.value, role: $0.key.role) })
        }
      }
    }
    do {
      guard let archive = try place.archive(self.archive) else {
        guard try MultipartBody.isStart(place.start(count: 1024)) else { return nil }
        return Candidate(.certain, stem: place.stem, hasGenericName: isGeneric) { [path = place.path] in TakeInputs(file: path, role: .body)
        }
      }
      guard let root = BundleFolder.root(in: archive) else { return nil }
      let folder = try BundleFolder(archive, root: root)
      return folder.confidence.map { confidence in
        Candidate(confidence, stem: place.stem, hasGenericName: isGeneric) {
          TakeListing(archive: archive, root: root, subfolders: []).inputs(role: folder.role)
        }
      }
    } catch is TakeFailure {
      return nil  // Another reader claims what cannot be listed.
    }
  }

  package func open(_ take: Take) throws -> Episode {
    let parts = try BundleParts(take.inputs)
    let video = try parts.required(.video)
    let metadata = try readMetadata(parts)
    let movie = try MovieTake(
      video.slice, file: video.file, at: video.place,
      options: self.video, rotation: rotation)
    var episode = movie.episode(id: take.id, snapsRate: false)
    episode.findings += metadata?.findings ?? []
    if metadata == nil {
      episode.findings.append(
        Finding(.metadataMissing, "the server's storage keeps no metadata; start time, counts and signature are unknown"))
    }
    episode.dates = Day.dates(
      name: take.id,
      metadata?.startedAt.map { RecordingDate(parts.existing(.metadata)?.file ?? "the metadata", unixNanoseconds: $0) }, movie.date)
    if let metadata { compare(metadata, movie, parts, &episode) }

    episode.variant = "no-depth"
    let notes = FindingCollector()
    let depth = try readDepth(parts, metadata, notes)
    episode.findings += notes.findings
    if let depth { addDepth(depth, movie, &episode) }
    episode = episode.rotating(.phone, by: movie.rotation)
    episode.details.merge(take.inputs.details) { own, _ in own }
    episode.details["parts"] = try parts.json()
    episode.evidence = try evidence(take, parts, metadata, movie)
    return episode
  }

  private func readMetadata(_ parts: BundleParts) throws -> BundleMetadata? {
    if parts.isServerStorage, parts.existing(.metadata) == nil { return nil }
    let part = try parts.required(.metadata)
    return try BundleMetadata(parts.bytes(part), file: part.file, isStrict: strict)
  }

  /// Notes metadata that contradict the video; the video is believed.
  private func compare(_ metadata: BundleMetadata, _ movie: MovieTake, _ parts: BundleParts, _ episode: inout Episode) {
    let file = parts.existing(.metadata)?.file
    func note(_ code: FindingCode, _ field: String, _ message: String) {
      episode.findings.append(Finding(code, message, file: file, field: ".\(field)"))
    }
    let samples = movie.movie.samples.count
    if metadata.frameCount != Int64(samples) {
      note(.frameCountMismatch, "frame_count", "it is \(metadata.frameCount), the video has \(samples) frames")
    }
    let seconds = movie.seconds
    if abs(Double(metadata.durationMilliseconds) / 1000 - seconds) > 2 {
      note(
        .durationMismatch, "duration_ms", "it is \(metadata.durationMilliseconds), the video lasts \(Int((seconds * 1000).rounded())) ms")
    }
    if metadata.resolution != movie.movie.size {
      note(
        .resolutionMismatch, "resolution",
        "it is \(metadata.resolution), the images are \(movie.movie.size); whether they were cropped or scaled to that size is not recorded, so "
          + "depth may not cover them edge to edge")
    }
    if metadata.codec.lowercased() != movie.movie.codec {
      note(.codecMismatch, "codec", "it differs, the video is \(movie.movie.codec)")
    }
    if let rate = movie.measuredRate, !(24...31).contains(rate) {
      note(
        .frameRate, "frame_count",
        "the video has \((rate * 100).rounded() / 100) frames per second, not the 30 that the app's constants assume")
    }
    episode.unixOrigin = metadata.startedAt.map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    episode.device = metadata.device ?? metadata.deviceModel
    if let location = metadata.location {
      if self.video.keepLocation {
        episode.details["location"] = location
      } else {
        episode.findings.append(Finding.locationRemoved(file: file ?? "", field: ".location"))
      }
    }
  }

  // MARK: Depth

  private func readDepth(
    _ parts: BundleParts, _ metadata: BundleMetadata?, _ notes: FindingCollector
  ) throws -> (blob: DepthBlob, part: BundleParts.Part)? {
    do {
      let part = try parts.required(.depth)
      do {
        let blob = try naming(part.file) { try DepthBlob(part.slice, claimed: metadata?.keyframeCount, file: part.file) }
        return (blob, part)
      } catch let error as DepthBlob.Undecodable {
        throw TakeFailure(error.code, error.message, file: part.file)
      }
    } catch let failure as TakeFailure where depth == .optional && failure.code != .unreadable {
      var finding = failure.finding
      finding.severity = .warning
      notes.add(finding)
      return nil
    }
  }

  /// The app takes no more.
  private static let mostKeyframes = 150

  /// Adds the depth stream. The frame of a keyframe is only known from times in the index, or when there are as many keyframes as the app
  /// takes: every third frame, up to 150. A dropped map leaves no gap in the numbering.
  private func addDepth(_ depth: (blob: DepthBlob, part: BundleParts.Part), _ movie: MovieTake, _ episode: inout Episode) {
    let blob = depth.blob
    let frames = episode.frames.timestamps
    let expected = min(Self.mostKeyframes, (frames.count + 2) / 3)
    episode.findings += blob.findings
    var alignment = "every-third"
    var stamps = (0..<blob.keyframes).map { frames[min(3 * $0, frames.count - 1)] }
    if let seconds = blob.seconds {
      alignment = "timestamps"
      stamps = seconds.map { frames[0].advanced(byNanoseconds: $0 * 1e9) }
    } else if blob.keyframes != expected {
      alignment = "ambiguous"
      episode.findings.append(
        Finding(
          .depthAlignmentAmbiguous,
          "\(blob.keyframes) keyframes for \(frames.count) frames, expected \(expected); the frames they belong to are unknown"
            + (ambiguousDepth == .mask ? ", so all are masked" : ""), file: depth.part.file))
    }
    var stream = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: blob.size, covering: movie.movie.size), kind: .depth, type: .float32, channels: 1, unit: "m", clock: .mediaTime
      ),
      source: DepthKeyframes(blob, depth.part.slice, file: depth.part.file, place: depth.part.place), timestamps: stamps,
      sourceIndex: stamps.indices.map { Int64($0) })
    stream.endsEarlier = blob.keyframes >= Self.mostKeyframes
    if alignment == "ambiguous", ambiguousDepth == .mask {
      stream.rows = frames.map { _ in nil }
      episode.alignments.append(Episode.Alignment(stream: .depth, method: "ambiguous"))
    }
    episode.streams[.depth] = stream
    let container = blob.container == .none ? "" : blob.container.rawValue
    let layout = blob.layout == .rldp ? "rldp" : ""
    episode.variant = container.isEmpty && layout.isEmpty ? "raw" : [container, layout].filter { !$0.isEmpty }.joined(separator: "-")
    episode.details["depth"] = [
      "container": .string(blob.container.rawValue), "layout": .string(blob.layout.rawValue), "keyframes": JSONValue(blob.keyframes),
      "width": JSONValue(blob.size.width), "height": JSONValue(blob.size.height), "bytes_inflated": .integer(blob.inflatedBytes),
      "sha256_inflated": .string(blob.inflatedDigest.description), "alignment": .string(alignment),
    ]
  }

  // MARK: Evidence

  private func evidence(
    _ take: Take, _ parts: BundleParts, _ metadata: BundleMetadata?, _ movie: MovieTake
  ) throws -> BundleEvidence {
    let chain = parts.existing(.chain)
    let url = URL(fileURLWithPath: take.location.path)
    let name = take.location.isDirectory ? url.lastPathComponent : url.deletingPathExtension().lastPathComponent
    return BundleEvidence(
      chain: try chain.map { (try parts.bytes($0), $0.file) }, finalHash: metadata?.finalHash, assertion: metadata?.assertion,
      frameCount: metadata?.frameCount, isPartial: metadata?.isPartial, metadataFile: parts.existing(.metadata)?.file,
      device: metadata?.device, folders: [name, url.deletingLastPathComponent().lastPathComponent].map { $0.lowercased() },
      isStrict: strict, frameSeconds: movie.movie.nanoseconds.map { Double($0) / 1e9 }, recordedSeconds: movie.seconds)
  }
}
