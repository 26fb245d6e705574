package import Evidence
import Model

/// A problem that a loader has with a dataset, and what removes it.
package struct Diagnosis: Sendable, Equatable {
  /// The effect of a problem on a loader.
  package enum Severity: String, Sendable, CaseIterable, Comparable {
    /// The loader stops with an error, or the export refuses.
    case breaks
    /// The loader reads the data, and what is learned from them is worse than it could be.
    case trainsBadly = "trains-badly"
    /// Something that only some uses of the loader need.
    case info

    /// Orders from the worst, which is the least, to `info`.
    package static func < (a: Severity, b: Severity) -> Bool { a.rank < b.rank }
    private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
  }

  package var code: DiagnosisCode
  package var severity: Severity
  /// The place and the problem that was found there, and what the loader makes of it.
  package var message: String
  /// The episodes it is about; empty for the dataset as a whole.
  package var episodes: [String]
  package var remedy: Remedy

  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "code": .string(code.rawValue), "severity": .string(severity.rawValue), "message": .string(message),
      "episodes": .array(episodes.map { .string($0) }), "remedy": .string(remedy.text),
    ]
    if !remedy.steps.isEmpty { members["steps"] = .array(remedy.steps.map { .string($0) }) }
    if let writer = remedy.writer { members["writer"] = .string(writer) }
    if let command = remedy.command { members["command"] = .string(command) }
    return .object(members)
  }
}

/// The remedy for a diagnosis: a sentence, and the lines of a pipeline file or the command that carry it out.
package struct Remedy: Sendable, Equatable {
  package var sentence: String
  /// Steps of a pipeline file, each as YAML: `split-episodes: {at: gaps}`.
  package var steps: [String] = []
  /// The writer of a pipeline file, as YAML: `hdf5: {image: raw}`.
  package var writer: String?
  package var command: String?

  init(_ sentence: String, steps: String..., writer: String? = nil, command: String? = nil) {
    (self.sentence, self.steps, self.writer, self.command) = (sentence, steps, writer, command)
  }

  /// The sentence, with the exact lines after a colon.
  package var text: String {
    let lines = steps.map { "- \($0)" } + (writer.map { ["writer: {\($0)}"] } ?? []) + (command.map { [$0] } ?? [])
    return lines.isEmpty ? sentence : sentence + ": " + lines.map { "`\($0)`" }.joined(separator: ", ")
  }
}

/// The kind of a diagnosis. A code that is also a finding's is about the same thing, seen in the finished dataset. Codes are stable.
package enum DiagnosisCode: String, Sendable, CaseIterable {
  // MARK: What is there
  case noEpisodes = "no-episodes"
  case episodeUnreadable = "episode-unreadable"
  case rowsDiffer = "rows-differ"
  case typeWrong = "type-wrong"
  case actionsMissing = "actions-missing"
  case imagesMissing = "images-missing"
  case taskMissing = "task-missing"
  case posesMissing = "poses-missing"
  case depthMissing = "depth-missing"
  case intrinsicsImplausible = "intrinsics-implausible"
  case intrinsicsMissing = "intrinsics-missing"
  case gripperMissing = "gripper-missing"
  case keyMissing = "key-missing"
  case severalPhones = "several-phones"
  case nextMissing = "next-obs-missing"
  case maskEmpty = "mask-empty"
  case imagesEncoded = "images-encoded"
  case mixedSizes = "mixed-sizes"
  case imageSize = "image-size"
  case duplicateContent = "duplicate-content"
  case tooFewEpisodes = "too-few-episodes"
  case tooFewRows = "too-few-rows"
  // MARK: Values
  case notFinite = "not-finite"
  case rowsMasked = "rows-masked"
  case imageUndecodable = "image-undecodable"
  case columnConstant = "column-constant"
  case jointDead = "joint-dead"
  case actionsOutOfRange = "actions-out-of-range"
  case spreadClipped = "spread-clipped"
  case depthClipped = "depth-clipped"
  case mixedUnits = "mixed-units"
  case imagesRepeated = "images-repeated"
  case imagesBlurred = "images-blurred"
  // MARK: Poses
  case quaternionNorm = "quaternion-norm"
  case quaternionSign = "quaternion-sign"
  case poseRepeated = "pose-repeated"
  case poseJump = "pose-jump"
  case poseInterpolated = "pose-interpolated"
  case geometryUnknown = "geometry-unknown"
  case geometryContradictory = "geometry-contradictory"
  case scaleArbitrary = "scale-arbitrary"
  case originDiffers = "origin-differs"
  case poseOfBody = "pose-of-body"
  case cameraStill = "camera-still"
  // MARK: Times
  case lengthsDiffer = "lengths-differ"
  case shortEpisode = "short-episode"
  case gaps = "gaps"
  case timesUneven = "times-uneven"
  case rateOther = "rate-other"

  /// The meaning of the code, in a sentence.
  package var meaning: String {
    switch self {
    case .noEpisodes: "The dataset has no episode: every take was rejected or failed."
    case .episodeUnreadable: "The file of an episode is missing or damaged."
    case .rowsDiffer: "Arrays of one episode differ in their number of rows."
    case .typeWrong: "An array has an element type or a number of dimensions that the loader does not take."
    case .actionsMissing:
      "Episodes without actions, because the take has no poses or the pipeline has no `actions` step. If they have joints or other numbers instead, the remedy makes actions of those."
    case .imagesMissing: "Episodes without images."
    case .taskMissing: "Episodes without the label `task`."
    case .posesMissing: "Episodes without camera poses."
    case .depthMissing: "Episodes without depth maps."
    case .intrinsicsImplausible: "Episodes whose principal point lies outside of the image: intrinsics of images of another size."
    case .intrinsicsMissing: "Episodes whose camera has no focal lengths."
    case .gripperMissing: "Episodes without joints or another stream to use as the gripper's width."
    case .keyMissing: "An observation that some episodes have and others do not."
    case .severalPhones: "Episodes that are joined from takes of several phones, in a program that knows one camera."
    case .nextMissing: "Episodes without the observations of the next row."
    case .maskEmpty: "A part of the split that the pipeline asks for and that has no episode."
    case .imagesEncoded: "Images that are stored as JPEG or PNG files, which the loader does not decode."
    case .mixedSizes: "Episodes whose images, depth maps, observations or actions differ in shape."
    case .imageSize: "Images of a size that the loader or its usual models do not take."
    case .duplicateContent: "Episodes with the same poses, or, without poses, the same images: copies of one recording."
    case .tooFewEpisodes: "Fewer episodes than the loader's own split needs."
    case .tooFewRows: "Fewer rows than a batch or a scene needs."
    case .notFinite: "Observations or actions that are NaN or infinite, as where a sensor gave nothing."
    case .rowsMasked: "Rows that are masked and hold zeros, in a loader that reads no masks."
    case .imageUndecodable: "Rows whose image could not be decoded and is black."
    case .columnConstant: "A column of the actions that never changes in the whole dataset."
    case .jointDead: "A joint that has no angle, or one and the same, in an episode."
    case .actionsOutOfRange: "Actions below -1 or above 1."
    case .spreadClipped: "Columns whose standard deviation the loader clips when it normalizes."
    case .depthClipped: "Depth beyond the range to which the loader clips it."
    case .mixedUnits: "Episodes that give one key different units, types or axes."
    case .imagesRepeated: "Rows whose image equals the one before: a frozen camera, or a resampling faster than the camera."
    case .imagesBlurred: "Images with less than a quarter of the sharpness that is usual in their episode, in a sample of them."
    case .quaternionNorm: "Quaternions whose length is not 1."
    case .quaternionSign: "Quaternions that change sign between rows although the rotation hardly changes."
    case .poseRepeated: "Rows whose pose equals those of their neighbors, as when tracking is lost."
    case .poseJump: "Rows to which the camera would have moved faster than 5 m/s or 10 rad/s."
    case .poseInterpolated: "Rows whose pose SLAM filled in between others."
    case .geometryUnknown: "Episodes of which it cannot be said whether depth and poses agree."
    case .geometryContradictory: "Depth of one row, moved by the poses into a later one, is not where that row measures it."
    case .scaleArbitrary: "Poses from SLAM without a scale: a unit of length that differs from episode to episode."
    case .originDiffers: "Poses in the world of each recording, which begins wherever the app was started."
    case .poseOfBody: "Poses of another body than the camera."
    case .cameraStill: "A camera that never moves."
    case .lengthsDiffer: "Episodes of different numbers of rows."
    case .shortEpisode: "Episodes shorter than a training window."
    case .gaps: "Steps in time inside an episode in which frames are missing."
    case .timesUneven: "Rows that are not evenly spaced in time."
    case .rateOther: "Episodes at another frame rate than the others, or than the loader assumes."
    }
  }
}
