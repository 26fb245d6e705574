import Model
package import Steps

extension StackSession {
  /// A session has as many images, depth maps and files as its metadata say; one without metadata lists nothing.
  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? {
    if inputs.entries.first?.role == .sidecar { return "the archive that its metadata describe is not there" }
    let folder = try SessionFolder(inputs)
    if folder.metadata == nil { return hasRestedLong ? nil : "metadata.json, which lists its files, is missing" }
    let metadata: SessionMetadata
    do {
      metadata = try SessionMetadata(folder, limit: 1 << 20, notes: FindingCollector())
    } catch let failure as TakeFailure where failure.code == .jsonInvalid {
      return failure.description
    } catch is TakeFailure {
      // Metadata that are whole and wrong do not become right by waiting.
      return nil
    }
    if let count = metadata.count("rgbFrameCount", "frameCount"), count > Int64(folder.images.count) {
      return "metadata.json lists \(count) images, rgb has \(folder.images.count)"
    }
    if let count = metadata.count("depthFrameCount"), count > Int64(folder.depths.count) {
      return "metadata.json lists \(count) depth maps, depth has \(folder.depths.count)"
    }
    if let count = metadata.count("poseCount"), count > 0, folder.poses == nil {
      return "metadata.json lists \(count) poses, poses.json is missing"
    }
    return nil
  }
}
