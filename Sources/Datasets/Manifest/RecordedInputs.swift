import Foundation
import Steps

extension TakeRecord {
  /// The name of the reader of takes that are joined from others.
  package static let joiningReader = "join"

  /// The places of the members of a joined take below its folder; empty for any other.
  package var joinedPlaces: [String: String] {
    guard let opened = steps.first, opened.name == Self.joiningReader else { return [:] }
    return (opened.options["members"]?.object ?? [:]).compactMapValues { $0["place"]?.string }
  }

  /// The path of what is at a place in a folder.
  package static func path(of place: String, in folder: String) -> String { (folder == "/" ? "" : folder) + "/" + place }

  /// The paths of the inputs of a take that is at a location; `nil` for one whose path leads out of it, or whose member is not recorded.
  ///
  /// - Parameter isFile: Whether a file is at the location, where that is known.
  package func inputPaths(at location: String, isFile: Bool? = nil) -> [String?] {
    let (names, members) = (Set(inputs.map(\.path)), joinedPlaces)
    /// A take may be a single file, which is then one of its inputs.
    func root(_ location: String, _ prefix: String = "", _ isFile: Bool? = nil) -> String {
      let url = URL(fileURLWithPath: location)
      return isFile ?? names.contains(prefix + url.lastPathComponent) ? url.deletingLastPathComponent().path : location
    }
    return inputs.map { input in
      guard DatasetFiles.isInside(input.path) else { return nil }
      guard reader == Self.joiningReader else { return Self.path(of: input.path, in: root(location, "", isFile)) }
      let parts = input.path.split(separator: "/", maxSplits: 1).map(String.init)
      guard parts.count == 2, let place = members[parts[0]], DatasetFiles.isInside(place) else { return nil }
      return Self.path(of: parts[1], in: root(Self.path(of: place, in: location), parts[0] + "/"))
    }
  }
}
