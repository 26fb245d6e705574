/// The kind of a finding, a failure or a rejection. The raw value is the code that `inspect`, `run` and the manifest show, and that
/// `takeset explain` looks up. Codes are stable.
public enum FindingCode: String, CaseIterable, Sendable, Codable {
  // MARK: Findings of a take that is written
  case accelerationInG = "acceleration-in-g"
  case assertionAbsent = "assertion-absent"
  case assertionInvalid = "assertion-invalid"
  case assertionMock = "assertion-mock"
  case assertionPlaceholder = "assertion-placeholder"
  case assertionUnverified = "assertion-unverified"
  case axesUnknown = "axes-unknown"
  case captureSourceUnknown = "capture-source-unknown"
  case chainAbsent = "chain-absent"
  case chainBroken = "chain-broken"
  case chainCountMismatch = "chain-count-mismatch"
  case chainReordered = "chain-reordered"
  case chainShort = "chain-short"
  case checkpointSpacing = "checkpoint-spacing"
  case clockUnaligned = "clock-unaligned"
  case codecMismatch = "codec-mismatch"
  case colorPrimaries = "color-primaries"
  case colorUntagged = "color-untagged"
  case confidenceMissing = "confidence-missing"
  case confidenceUndecodable = "confidence-undecodable"
  case countMismatch = "count-mismatch"
  case countUnusable = "count-unusable"
  case dayContradictory = "day-contradictory"
  case depthAlignmentAmbiguous = "depth-alignment-ambiguous"
  case depthCountMismatch = "depth-count-mismatch"
  case depthFormat = "depth-format"
  case depthMetricsUnavailable = "depth-metrics-unavailable"
  case depthMissing = "depth-missing"
  case depthNotMetric = "depth-not-metric"
  case depthOrphaned = "depth-orphaned"
  case depthSeveralMembers = "depth-several-members"
  case depthSuspicious = "depth-suspicious"
  case depthTimesUnordered = "depth-times-unordered"
  case depthTrailingBytes = "depth-trailing-bytes"
  case depthUndecodable = "depth-undecodable"
  case depthWrongSize = "depth-wrong-size"
  case distortionIgnored = "distortion-ignored"
  case duplicateID = "duplicate-id"
  case durationMismatch = "duration-mismatch"
  case editListRetimed = "edit-list-retimed"
  case encoderCSVLinesSkipped = "encoder-csv-lines-skipped"
  case encoderCSVUnaligned = "encoder-csv-unaligned"
  case exifRotation = "exif-rotation"
  case formatAmbiguous = "format-ambiguous"
  case frameCountMismatch = "frame-count-mismatch"
  case frameRate = "frame-rate"
  case framesDropped = "frames-dropped"
  case geometryContradictory = "geometry-contradictory"
  case hashEncoding = "hash-encoding"
  case hdrMapped = "hdr-mapped"
  case imageMissing = "image-missing"
  case imagePoseLag = "image-pose-lag"
  case imageRepeated = "image-repeated"
  case imageTransparent = "image-transparent"
  case imageUndecodable = "image-undecodable"
  case imagesDuplicate = "images-duplicate"
  case imuImplausible = "imu-implausible"
  case imuUnusable = "imu-unusable"
  case inputIgnored = "input-ignored"
  case inputVanished = "input-vanished"
  case intrinsicsAbsent = "intrinsics-absent"
  case intrinsicsDiffer = "intrinsics-differ"
  case intrinsicsImplausible = "intrinsics-implausible"
  case intrinsicsScaled = "intrinsics-scaled"
  case intrinsicsTransposed = "intrinsics-transposed"
  case intrinsicsUnusable = "intrinsics-unusable"
  case joinAlone = "join-alone"
  case joinClock = "join-clock"
  case jointDead = "joint-dead"
  case jointReadFailed = "joint-read-failed"
  case jointSignsUnknown = "joint-signs-unknown"
  case jointsGap = "joints-gap"
  case jointsLate = "joints-late"
  case jointsRecalibrated = "joints-recalibrated"
  case keyframesOnly = "keyframes-only"
  case linesUnreadable = "lines-unreadable"
  case locationRemoved = "location-removed"
  case messagesUnreadable = "messages-unreadable"
  case metadataFromSidecar = "metadata-from-sidecar"
  case metadataMissing = "metadata-missing"
  case metadataNumber = "metadata-number"
  case metadataRange = "metadata-range"
  case movieAlignmentAmbiguous = "movie-alignment-ambiguous"
  case movieCountMismatch = "movie-count-mismatch"
  case movieUnusable = "movie-unusable"
  case nameRemoved = "name-removed"
  case numbersRounded = "numbers-rounded"
  case odometryTruncated = "odometry-truncated"
  case optionUnused = "option-unused"
  case packedWithout = "packed-without"
  case partialMismatch = "partial-mismatch"
  case partialUpload = "partial-upload"
  case partiallyVerified = "partially-verified"
  case pixelsNotSquare = "pixels-not-square"
  case poseInterpolated = "pose-interpolated"
  case poseJump = "pose-jump"
  case poseMissing = "pose-missing"
  case poseRepeated = "pose-repeated"
  case poseUnusable = "pose-unusable"
  case posesDuplicate = "poses-duplicate"
  case posesTransposed = "poses-transposed"
  case posesTruncated = "poses-truncated"
  case posesUnreadable = "poses-unreadable"
  case posesUnsorted = "poses-unsorted"
  case positionsFar = "positions-far"
  case pythonAbsent = "python-absent"
  case rateImplausible = "rate-implausible"
  case recordingUnfinished = "recording-unfinished"
  case resolutionMismatch = "resolution-mismatch"
  case resolutionUnusable = "resolution-unusable"
  case rotationIgnored = "rotation-ignored"
  case rotationSuspect = "rotation-suspect"
  case rotationUnknown = "rotation-unknown"
  case rotationUnsupported = "rotation-unsupported"
  case samplesHidden = "samples-hidden"
  case samplesOutside = "samples-outside"
  case scaleArbitrary = "scale-arbitrary"
  case scaleClaimed = "scale-claimed"
  case senderClockUnusable = "sender-clock-unusable"
  case senderRestarted = "sender-restarted"
  case shortEpisode = "short-episode"
  case sidecarDiffers = "sidecar-differs"
  case slamOrdinals = "slam-ordinals"
  case stampsMissing = "stamps-missing"
  case startTimeUnreadable = "start-time-unreadable"
  case streamConstant = "stream-constant"
  case streamIncomplete = "stream-incomplete"
  case tableCutShort = "table-cut-short"
  case timeNotAscending = "time-not-ascending"
  case timesAssumed = "times-assumed"
  case timesFromIMU = "times-from-imu"
  case timesFromMovie = "times-from-movie"

  // MARK: Findings of a dataset
  case actionsMissing = "actions-missing"
  case added
  case dayUnknown = "day-unknown"
  case duplicateContent = "duplicate-content"
  case labelsInvalid = "labels-invalid"
  case labelsUnmatched = "labels-unmatched"
  case mixedOrientation = "mixed-orientation"
  case mixedSizes = "mixed-sizes"
  case mixedUnits = "mixed-units"
  case pythonChanged = "python-changed"
  case sampleMissing = "sample-missing"
  case splitEmpty = "split-empty"
  case splitFileUnknown = "split-file-unknown"
  case splitFileUnlisted = "split-file-unlisted"

  // MARK: Failures of a take
  case archiveAmbiguous = "archive-ambiguous"
  case archiveDamaged = "archive-damaged"
  case archiveHostile = "archive-hostile"
  case archiveMissing = "archive-missing"
  case archiveUnreadable = "archive-unreadable"
  case badName = "bad-name"
  case bodyDamaged = "body-damaged"
  case changedWhileReading = "changed-while-reading"
  case clockSet = "clock-set"
  case codecUnsupported = "codec-unsupported"
  case colorUnsupported = "color-unsupported"
  case conversionCrashed = "conversion-crashed"
  case cropOutside = "crop-outside"
  case csvInvalid = "csv-invalid"
  case descriptionInvalid = "description-invalid"
  case fileEmpty = "file-empty"
  case formatUnsupported = "format-unsupported"
  case gridsDiffer = "grids-differ"
  case imageSizeChanged = "image-size-changed"
  case inputMissing = "input-missing"
  case inputTooLarge = "input-too-large"
  case `internal` = "internal"
  case intrinsicsMissing = "intrinsics-missing"
  case joinAmbiguous = "join-ambiguous"
  case jsonInvalid = "json-invalid"
  case jsonType = "json-type"
  case limit = "limit"
  case memoryLimit = "memory-limit"
  case metadataInvalid = "metadata-invalid"
  case movieCorrupt = "movie-corrupt"
  case movieEncrypted = "movie-encrypted"
  case movieExternalData = "movie-external-data"
  case movieTimesDiffer = "movie-times-differ"
  case movieTruncated = "movie-truncated"
  case movieUnfinished = "movie-unfinished"
  case nameTaken = "name-taken"
  case noFrames = "no-frames"
  case noTakeFound = "no-take-found"
  case noVideo = "no-video"
  case notAMovie = "not-a-movie"
  case notARegularFile = "not-a-regular-file"
  case notATake = "not-a-take"
  case notAligned = "not-aligned"
  case notJPEG = "not-jpeg"
  case partEmpty = "part-empty"
  case partMissing = "part-missing"
  case permission = "permission"
  case posesMissing = "poses-missing"
  case pythonStepFailed = "python-step-failed"
  case pythonStepInvalid = "python-step-invalid"
  case recordingInvalid = "recording-invalid"
  case sampleSize = "sample-size"
  case streamMissing = "stream-missing"
  case streamNeeded = "stream-needed"
  case timeLimit = "time-limit"
  case timesMissing = "times-missing"
  case tooFewImages = "too-few-images"
  case tooFewPoses = "too-few-poses"
  case tooFewTimes = "too-few-times"
  case topicMissing = "topic-missing"
  case topicsAmbiguous = "topics-ambiguous"
  case unreadable = "unreadable"
  case videoAmbiguous = "video-ambiguous"

  // MARK: Rejections of a take
  case calibration = "calibration"
  case duplicate = "duplicate"
  case joinIncomplete = "join-incomplete"
  case minFrames = "min-frames"
  case needsSLAM = "needs-slam"
  case noRows = "no-rows"
  case python = "python"
  case trim = "trim"
  case verifyDepth = "verify-depth"
  case verifyHashChain = "verify-hash-chain"

  /// The rule in the reason of a rejected take's record.
  package init?(ofRejection reason: String?) {
    guard let reason else { return nil }
    self.init(rawValue: String(reason.prefix { $0 != ":" }))
  }

  /// The codes that are about the machine, and not about the files.
  package static let ofMachine: Set<FindingCode> = [.changedWhileReading, .permission, .unreadable]

  /// Failures that another try, or more memory or time, may not have.
  public static let mayPass: Set<FindingCode> = ofMachine.union([
    .conversionCrashed, .inputMissing, .internal, .memoryLimit, .sampleSize, .timeLimit,
  ])

  /// The usual severity, which some findings raise; a rejection is a decision and no problem.
  package var severity: Finding.Severity {
    switch self {
    case .accelerationInG, .added, .assertionAbsent, .assertionUnverified, .axesUnknown, .calibration, .colorPrimaries, .colorUntagged,
      .dayContradictory,
      .duplicate, .frameRate, .joinIncomplete, .hashEncoding, .hdrMapped, .inputIgnored, .intrinsicsScaled, .intrinsicsTransposed,
      .keyframesOnly,
      .locationRemoved, .metadataNumber, .minFrames, .nameRemoved, .needsSLAM, .noRows, .optionUnused, .posesUnsorted, .python,
      .pythonAbsent, .samplesHidden,
      .tableCutShort, .timesFromMovie, .trim, .verifyDepth, .verifyHashChain:
      .info
    case .actionsMissing, .assertionInvalid, .assertionMock, .assertionPlaceholder, .captureSourceUnknown, .chainAbsent, .chainBroken,
      .chainCountMismatch, .chainReordered, .chainShort, .checkpointSpacing, .clockUnaligned, .codecMismatch, .confidenceMissing,
      .confidenceUndecodable, .countMismatch, .countUnusable, .dayUnknown, .depthAlignmentAmbiguous, .depthCountMismatch, .depthFormat,
      .depthMetricsUnavailable, .depthMissing, .depthNotMetric, .depthOrphaned, .depthSeveralMembers, .depthSuspicious,
      .depthTimesUnordered, .depthTrailingBytes, .depthUndecodable, .depthWrongSize, .distortionIgnored, .duplicateContent, .duplicateID,
      .durationMismatch, .editListRetimed, .encoderCSVLinesSkipped, .encoderCSVUnaligned, .exifRotation, .formatAmbiguous,
      .frameCountMismatch, .framesDropped, .geometryContradictory, .imageMissing, .imageRepeated, .imageTransparent, .imageUndecodable,
      .imagePoseLag, .imagesDuplicate, .imuImplausible, .imuUnusable, .inputVanished, .intrinsicsAbsent, .intrinsicsDiffer,
      .intrinsicsImplausible,
      .intrinsicsUnusable, .joinAlone, .joinClock, .jointDead, .jointReadFailed, .jointSignsUnknown, .jointsGap, .jointsLate,
      .jointsRecalibrated, .labelsInvalid,
      .labelsUnmatched, .linesUnreadable, .messagesUnreadable, .recordingUnfinished, .stampsMissing,
      .metadataFromSidecar, .metadataMissing, .metadataRange, .mixedOrientation, .mixedSizes, .mixedUnits, .movieAlignmentAmbiguous,
      .movieCountMismatch, .movieUnusable, .numbersRounded, .odometryTruncated, .packedWithout, .partiallyVerified, .partialMismatch,
      .partialUpload, .pixelsNotSquare, .poseInterpolated, .poseJump, .poseMissing, .poseRepeated, .posesDuplicate, .posesTransposed,
      .posesTruncated, .posesUnreadable, .poseUnusable, .positionsFar, .pythonChanged, .rateImplausible, .resolutionMismatch,
      .resolutionUnusable,
      .rotationIgnored, .rotationSuspect, .rotationUnknown, .rotationUnsupported, .sampleMissing, .samplesOutside, .scaleArbitrary,
      .scaleClaimed, .senderClockUnusable, .senderRestarted, .shortEpisode, .sidecarDiffers, .slamOrdinals, .splitEmpty, .splitFileUnknown,
      .splitFileUnlisted, .startTimeUnreadable, .streamConstant, .streamIncomplete, .timeNotAscending, .timesAssumed, .timesFromIMU:
      .warning
    case .archiveAmbiguous, .archiveDamaged, .archiveHostile, .archiveMissing, .archiveUnreadable, .badName, .bodyDamaged,
      .changedWhileReading, .clockSet, .codecUnsupported, .colorUnsupported, .conversionCrashed, .cropOutside, .csvInvalid,
      .descriptionInvalid,
      .fileEmpty,
      .formatUnsupported, .gridsDiffer, .imageSizeChanged, .inputMissing, .inputTooLarge, .internal, .intrinsicsMissing, .joinAmbiguous,
      .jsonInvalid,
      .jsonType, .limit, .memoryLimit, .metadataInvalid, .movieCorrupt, .movieEncrypted, .movieExternalData, .movieTimesDiffer,
      .movieTruncated, .movieUnfinished, .nameTaken, .noFrames, .noTakeFound, .noVideo, .notAMovie, .notARegularFile, .notATake,
      .notAligned, .notJPEG, .partEmpty, .partMissing, .permission, .posesMissing, .pythonStepFailed,
      .pythonStepInvalid, .recordingInvalid, .topicMissing, .topicsAmbiguous, .sampleSize, .streamMissing, .streamNeeded, .timeLimit,
      .timesMissing, .tooFewImages, .tooFewPoses, .tooFewTimes, .unreadable, .videoAmbiguous:
      .error
    }
  }
}
