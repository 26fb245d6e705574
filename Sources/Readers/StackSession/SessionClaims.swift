import Model

/// Metadata claims that contradict a session's files, and the scale of its poses.
struct SessionClaims {
  let session: SessionContents
  let notes: FindingCollector

  func check() {
    let (metadata, folder) = (session.metadata, session.folder)
    if let claimed = metadata.rgbResolution, let size = session.size, claimed != size, !session.variant.isPacked {
      note(.resolutionMismatch, "rgbResolution", "rgbResolution says \(claimed), the images are \(size)")
    }
    if let source = metadata.captureSource, !["iphone_arkit", "iphone_ultrawide"].contains(source), !metadata.isLiveStream {
      note(.captureSourceUnknown, "captureSource", "captureSource is \"\(source)\"; the session is handled as one without ARKit")
    }
    if let count = metadata.count("rgbFrameCount", "frameCount"), count != Int64(folder.images.count) {
      note(.countMismatch, "rgbFrameCount", "it is \(count), rgb/ has \(folder.images.count) images")
    }
    if let count = metadata.count("poseCount"), let poses = session.poses, count != Int64(poses.entries.count) {
      note(.countMismatch, "poseCount", "it is \(count), poses.json has \(poses.entries.count)")
    }
    if let count = metadata.count("depthFrameCount"), count != Int64(folder.depths.count) {
      note(.countMismatch, "depthFrameCount", "it is \(count), depth/ has \(folder.depths.count) maps")
    }
    if session.variant.poses.isSLAM {
      if metadata.scaleFactor == nil {
        notes.add(.scaleArbitrary, "poses are from SLAM without a scale; lengths are in an arbitrary unit", file: PosesFile.name)
      } else {
        note(.scaleClaimed, "scale_factor", "poses are from SLAM; the metadata claim that they were scaled to meters, without proof")
      }
    }
    if session.variant.isPacked, metadata.declared["imuCount"] != nil || metadata.hasVideo {
      note(
        .packedWithout, "hasVideo", "hasVideo and imuCount describe the session before it was packed; packing removed video and IMU")
    }
  }

  /// Compares a declared number of readings with those in a file.
  func checkReadings(_ key: String, _ count: Int, _ file: String) {
    guard let declared = session.metadata.count(key), declared != Int64(count) else { return }
    note(.countMismatch, key, "it is \(declared), \(file) has \(count) readings")
  }

  /// Time of a firmware change (2026-02-17 23:39 in the developer's time zone); until then, the third and fourth joints were reversed.
  private static let signChange: Int64 = 1_771_401_600_000_000_000

  func checkSigns(_ signs: JointSigns) {
    guard signs.isDefault, let start = session.metadata.startTime, start < Self.signChange else { return }
    notes.add(
      .jointSignsUnknown,
      "the session is from before 2026-02-18, when firmware reversed the third and fourth joints; the option joint-signs sets their signs")
  }

  private func note(_ code: FindingCode, _ field: String, _ message: String) {
    notes.add(code, message, file: SessionMetadata.name, field: ".\(field)")
  }
}
