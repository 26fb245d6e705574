import Foundation
import Model
import Steps

/// Files of a session by role; images and depth maps by the number in their names.
struct SessionFolder {
  let inputs: TakeInputs
  /// Entry in `inputs` of each image, by the number in its name.
  let images: [Int64: Int]
  let depths: [Int64: Int]
  let hasDepthFolder: Bool

  var poses: Int? { inputs.index(of: PosesFile.name) }
  var metadata: Int? { inputs.index(of: SessionMetadata.name) }
  /// A copy of the metadata next to an archive.
  var sidecar: Int? { inputs.entries.firstIndex { $0.role == .sidecar } }
  /// Encoder files: the phone's, then those that a laptop logged.
  var encoders: [Int] {
    [inputs.index(of: "encoders.json")].compactMap(\.self)
      + inputs.entries.indices.filter { inputs.entries[$0].role == .encoders && inputs.entries[$0].path.hasSuffix(".csv") }
  }
  /// Tables of further streams.
  var tables: [Int] { inputs.entries.indices.filter { inputs.entries[$0].role == .stream } }
  var imu: Int? { inputs.index(of: IMUFile.name) }
  var calibration: Int? { inputs.index(of: "calib.txt") }
  var movie: Int? { inputs.entries.firstIndex { $0.role == .movie } }

  init(_ inputs: TakeInputs) throws {
    self.inputs = inputs
    images = NumberedFiles.entries(.image, in: inputs)
    depths = NumberedFiles.entries(.depth, in: inputs)
    hasDepthFolder = try !depths.isEmpty || inputs.archive == nil && Directory.kind(at: inputs.root + "/depth") == .directory
  }

  /// Names of a session's own folders.
  static let subfolders: Set<String> = ["rgb", "depth", StreamTable.folder]

  /// Role of a session's file, by its path; `nil` for files left by desktop tools and all others.
  static func role(of path: String) -> TakeInputs.Role? {
    switch path {
    case SessionMetadata.name: return .metadata
    case PosesFile.name: return .poses
    case "encoders.json": return .encoders
    case IMUFile.name: return .imu
    case "calib.txt": return .calibration
    case _ where path.utf8.count == 9 && path.lowercased() == "video.mov": return .movie
    case _ where path.hasPrefix(StreamTable.folder + "/") && path.hasSuffix(".csv") && !path.hasPrefix(StreamTable.folder + "/."):
      return .stream
    case _ where path.hasPrefix("encoders") && path.hasSuffix(".csv"): return .encoders
    default: break
    }
    if NumberedFiles.matches(path, folder: "rgb", ending: ".jpg") { return .image }
    return NumberedFiles.matches(path, folder: "depth", ending: ".bin") ? .depth : nil
  }
}
