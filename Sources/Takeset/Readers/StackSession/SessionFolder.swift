import Foundation

/// The files of a session by what they are: pictures and depth maps by their own numbers.
struct SessionFolder {
  let inputs: TakeInputs
  /// Entry in `inputs` of each picture, by the number in its name.
  private(set) var images: [Int64: Int] = [:]
  private(set) var depths: [Int64: Int] = [:]
  private(set) var hasDepthFolder = false

  var poses: Int? { inputs.index(of: "poses.json") }
  var metadata: Int? { inputs.index(of: "metadata.json") }
  var encoders: Int? { inputs.index(of: "encoders.json") }
  var imu: Int? { inputs.index(of: "imu.json") }
  var calibration: Int? { inputs.index(of: "calib.txt") }
  var movie: Int? { inputs.entries.firstIndex { $0.role == .movie } }

  init(_ inputs: TakeInputs) {
    self.inputs = inputs
    for (index, entry) in inputs.entries.enumerated() {
      switch entry.role {
      case .image: images[Self.number(inFileName: entry.path.dropFirst("rgb/".count)) ?? -1] = index
      case .depth: depths[Self.number(inFileName: entry.path.dropFirst("depth/".count)) ?? -1] = index
      default: break
      }
    }
    hasDepthFolder = Directory.existingKind(of: inputs.root + "/depth") == .directory
  }

  /// The files in `root` that belong to a session; what desktop tools leave behind does not.
  static func entries(of root: String) throws -> [TakeInputs.Entry] {
    var entries: [TakeInputs.Entry] = []
    let roles: [String: TakeInputs.Role] = [
      "metadata.json": .metadata, "poses.json": .poses, "encoders.json": .encoders, "imu.json": .imu, "calib.txt": .calibration,
    ]
    for member in try Directory.members(of: root) {
      if let role = roles[member.name] ?? (member.name.lowercased() == "video.mov" ? .movie : nil) {
        entries.append(TakeInputs.Entry(path: member.name, role: role))
      } else if member.kind == .directory, member.name == "rgb" || member.name == "depth" {
        let (role, ending): (TakeInputs.Role, String) = member.name == "rgb" ? (.image, ".jpg") : (.depth, ".bin")
        for file in try Directory.members(of: root + "/" + member.name)
        where file.name.hasSuffix(ending) && number(inFileName: file.name[...]) != nil {
          entries.append(TakeInputs.Entry(path: "\(member.name)/\(file.name)", role: role))
        }
      }
    }
    return entries
  }

  /// The number that a name of six digits or more, zero-padded to six, stands for; other names are not the app's.
  static func number(inFileName name: Substring) -> Int64? {
    let digits = name.prefix { $0 != "." }
    // 000003.small.jpg is somebody else's.
    guard name.dropFirst(digits.count + 1).firstIndex(of: ".") == nil else { return nil }
    guard digits.utf8.count >= 6, digits.utf8.count <= 18, digits.utf8.allSatisfy({ (48...57).contains($0) }),
      digits.utf8.count == 6 || digits.first != "0"
    else { return nil }
    return Int64(digits)
  }
}
