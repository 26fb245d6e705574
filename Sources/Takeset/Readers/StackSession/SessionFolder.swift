import Foundation
import Model

/// The files of a session by what they are: pictures and depth maps by their own numbers.
struct SessionFolder {
  let inputs: TakeInputs
  /// Entry in `inputs` of each picture, by the number in its name.
  let images: [Int64: Int]
  let depths: [Int64: Int]
  let hasDepthFolder: Bool

  var poses: Int? { inputs.index(of: PosesFile.name) }
  var metadata: Int? { inputs.index(of: SessionMetadata.name) }
  /// A copy of the metadata beside an archive.
  var sidecar: Int? { inputs.entries.firstIndex { $0.role == .sidecar } }
  /// What the phone wrote, then what a laptop did.
  var encoders: [Int] {
    [inputs.index(of: "encoders.json")].compactMap(\.self) + inputs.entries.indices.filter { inputs.entries[$0].path.hasSuffix(".csv") }
  }
  var imu: Int? { inputs.index(of: IMUFile.name) }
  var calibration: Int? { inputs.index(of: "calib.txt") }
  var movie: Int? { inputs.entries.firstIndex { $0.role == .movie } }

  init(_ inputs: TakeInputs) throws {
    self.inputs = inputs
    images = NumberedFiles.entries(.image, in: inputs)
    depths = NumberedFiles.entries(.depth, in: inputs)
    hasDepthFolder = try !depths.isEmpty || inputs.archive == nil && Directory.kind(at: inputs.root + "/depth") == .directory
  }

  /// What a session's own folders are called.
  static let subfolders: Set<String> = ["rgb", "depth"]

  /// What a file of a session is, by its path; what desktop tools leave behind is nothing.
  static func role(of path: String) -> TakeInputs.Role? {
    switch path {
    case SessionMetadata.name: return .metadata
    case PosesFile.name: return .poses
    case "encoders.json": return .encoders
    case IMUFile.name: return .imu
    case "calib.txt": return .calibration
    case _ where path.utf8.count == 9 && path.lowercased() == "video.mov": return .movie
    case _ where path.hasPrefix("encoders") && path.hasSuffix(".csv"): return .encoders
    default: break
    }
    if NumberedFiles.matches(path, folder: "rgb", ending: ".jpg") { return .image }
    return NumberedFiles.matches(path, folder: "depth", ending: ".bin") ? .depth : nil
  }
}
