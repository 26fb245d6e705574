package import Evidence
import Foundation
import Steps

/// What takes were joined to one: the name of their group, and the place of each member below the folder of all.
package struct JoinedGroup: Sendable, Equatable {
  package var name: String
  package var places: [String: String]

  /// - Parameter options: Those of the reader, as a task or a record has them.
  package init(_ options: JSONValue) {
    name = options["group"]?.string ?? ""
    places = (options["members"]?.object ?? [:]).compactMapValues { $0["place"]?.string }
  }

  /// Reads what `text` gives; `nil` for any other text.
  init?(text: String) {
    guard let value = try? JSONReader(Array(text.utf8)).value(), let name = value["group"]?.string else { return nil }
    self.name = name
    places = (value["places"]?.object ?? [:]).compactMapValues(\.string)
  }

  package var text: String {
    JSONValue.object(["group": .string(name), "places": .object(places.mapValues { .string($0) })]).canonicalText
  }

  /// The paths of the members of a group in a folder.
  package func paths(in folder: String) -> [String] { places.values.map { Self.path(of: $0, in: folder) } }

  /// The path of what is at a place in a folder.
  package static func path(of place: String, in folder: String) -> String { (folder == "/" ? "" : folder) + "/" + place }
}

extension Journal.Entry {
  /// The group of a joined take; `nil` for any other.
  package var joinedGroup: JoinedGroup? { self[dynamicMember: \.group].flatMap { JoinedGroup(text: $0) } }
}

extension TakeRecord {
  /// The name of the reader of takes that are joined from others.
  package static let joiningReader = "join"

  /// The paths of the inputs of a take that is at a location; `nil` for one whose path leads out of it, or whose member is not recorded.
  ///
  /// - Parameter isFile: Whether a file is at the location, where that is known.
  package func inputPaths(at location: String, isFile: Bool? = nil) -> [String?] {
    let (names, members) = (Set(inputs.map(\.path)), steps.first.map { JoinedGroup($0.options).places } ?? [:])
    /// A take may be a single file, which is then one of its inputs.
    func root(_ location: String, _ prefix: String = "", _ isFile: Bool? = nil) -> String {
      let url = URL(fileURLWithPath: location)
      return isFile ?? names.contains(prefix + url.lastPathComponent) ? url.deletingLastPathComponent().path : location
    }
    return inputs.map { input in
      guard DatasetFiles.isInside(input.path) else { return nil }
      guard reader == Self.joiningReader else { return JoinedGroup.path(of: input.path, in: root(location, "", isFile)) }
      let parts = input.path.split(separator: "/", maxSplits: 1).map(String.init)
      guard parts.count == 2, let place = members[parts[0]], DatasetFiles.isInside(place) else { return nil }
      return JoinedGroup.path(of: parts[1], in: root(JoinedGroup.path(of: place, in: location), parts[0] + "/"))
    }
  }
}
