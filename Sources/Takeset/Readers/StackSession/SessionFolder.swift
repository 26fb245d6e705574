import Foundation
import Model

/// The files of a session by what they are: pictures and depth maps by their own numbers.
struct SessionFolder {
  let inputs: TakeInputs
  /// Entry in `inputs` of each picture, by the number in its name.
  private(set) var images: [Int64: Int] = [:]
  private(set) var depths: [Int64: Int] = [:]
  private(set) var hasDepthFolder = false

  var poses: Int? { inputs.index(of: "poses.json") }
  var metadata: Int? { inputs.index(of: "metadata.json") }
  /// A copy of the metadata beside an archive.
  var sidecar: Int? { inputs.entries.firstIndex { $0.role == .sidecar } }
  /// What the phone wrote, then what a laptop did.
  var encoders: [Int] {
    [inputs.index(of: "encoders.json")].compactMap(\.self) + inputs.entries.indices.filter { inputs.entries[$0].path.hasSuffix(".csv") }
  }
  var imu: Int? { inputs.index(of: "imu.json") }
  var calibration: Int? { inputs.index(of: "calib.txt") }
  var movie: Int? { inputs.entries.firstIndex { $0.role == .movie } }

  init(_ inputs: TakeInputs) throws {
    self.inputs = inputs
    for (index, entry) in inputs.entries.enumerated() {
      switch entry.role {
      case .image: images[Self.number(inFileName: entry.path.dropFirst("rgb/".count)) ?? -1] = index
      case .depth: depths[Self.number(inFileName: entry.path.dropFirst("depth/".count)) ?? -1] = index
      default: break
      }
    }
    hasDepthFolder = try !depths.isEmpty || inputs.archive == nil && Directory.kind(at: inputs.root + "/depth") == .directory
  }

  /// What a session's own folders are called.
  static let subfolders: Set<String> = ["rgb", "depth"]

  /// What a file of a session is, by its path; what desktop tools leave behind is nothing.
  static func role(of path: String) -> TakeInputs.Role? {
    switch path {
    case "metadata.json": return .metadata
    case "poses.json": return .poses
    case "encoders.json": return .encoders
    case "imu.json": return .imu
    case "calib.txt": return .calibration
    case _ where path.utf8.count == 9 && path.lowercased() == "video.mov": return .movie
    case _ where path.hasPrefix("encoders") && path.hasSuffix(".csv"): return .encoders
    default: break
    }
    for (folder, ending, role) in [("rgb/", ".jpg", TakeInputs.Role.image), ("depth/", ".bin", .depth)] where path.hasPrefix(folder) {
      let name = path.dropFirst(folder.count)
      return name.hasSuffix(ending) && number(inFileName: name) != nil ? role : nil
    }
    return nil
  }

  /// The number that a name of six digits or more, zero-padded to six, stands for; other names are not the app's.
  static func number(inFileName name: Substring) -> Int64? {
    let digits = name.utf8.prefix { $0 != UInt8(ascii: ".") }
    // 000003.small.jpg is somebody else's.
    guard !name.utf8[digits.endIndex...].dropFirst().contains(UInt8(ascii: ".")) else { return nil }
    guard (6...18).contains(digits.count), digits.allSatisfy({ (48...57).contains($0) }), digits.count == 6 || digits.first != 48
    else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
  }
}
