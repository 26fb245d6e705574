import Foundation
import Media
import Model

/// Whether a take whose files rest has all the files that it lists.
enum TakeCompleteness {
  /// What is still missing, as a sentence; `nil` for a take that is complete.
  ///
  /// A session has as many images, depth maps and files as its metadata say; one without metadata lists nothing, and is complete when it has
  /// rested for long. An archive can be listed. A video has its index, which is written last. More files than listed are a finding of the
  /// conversion, not a reason to wait. Throws the reason that the take cannot be listed at all.
  static func obstacle(_ place: TakeLocation, _ reader: any Reader, hasRestedLong: Bool) throws -> String? {
    let inputs = try reader.inputs(of: place)
    _ = try inputs.stamp()
    if inputs.archive != nil { return nil }
    switch reader {
    case is StackSession: return try session(inputs, hasRestedLong)
    case is RealityCamBundle: return nil
    default: return try movies(inputs)
    }
  }

  private static func session(_ inputs: TakeInputs, _ hasRestedLong: Bool) throws -> String? {
    if inputs.entries.first?.role == .sidecar { return "the archive that its metadata describe is not there" }
    let folder = try SessionFolder(inputs)
    if folder.metadata == nil { return hasRestedLong ? nil : "metadata.json, which lists its files, is missing" }
    let metadata: SessionMetadata
    do {
      metadata = try SessionMetadata(folder, limit: 1 << 20, notes: Notes())
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

  /// A video that is being written has no index yet.
  private static func movies(_ inputs: TakeInputs) throws -> String? {
    for (index, entry) in inputs.entries.enumerated() where entry.role == .movie {
      do {
        try MovieIndex.check(inputs.slice(index))
      } catch let error as MovieError where [.movieUnfinished, .movieTruncated, .fileEmpty].contains(error.code) {
        return "\(entry.path): \(error)"
      } catch is MovieError {
        // What is wrong with a whole video is for its conversion to say.
      }
    }
    return nil
  }

  static func words(_ error: any Error) -> String {
    switch error {
    case let error as TakeFailure: error.description
    case let error as FileError: error.failure().description
    default: "\(error)"
    }
  }
}
