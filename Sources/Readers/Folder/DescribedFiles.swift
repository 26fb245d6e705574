import Model
import Steps

/// The files of a take that its description names.
extension FolderDescription {
  /// The tables, with the role of each; a table with poses and other numbers is listed once.
  private var tables: [String: TakeInputs.Role] {
    var found: [String: TakeInputs.Role] = [:]
    func add(_ table: Table?, _ role: TakeInputs.Role) { if let table, found[table.path] == nil { found[table.path] = role } }
    add(pose?.table, .poses)
    add(pose?.times, .metadata)
    for case .table(let table, _) in images.compactMap(\.times) + depth.map(\.times) { add(table, .metadata) }
    add(imu?.table, .imu)
    add(imu?.gyroTable, .imu)
    for stream in streams { add(stream.table, .stream) }
    return found
  }

  /// The folders that have files of the take.
  var folders: Set<String> {
    var found = Set(patterns.map(\.folder))
    for path in Array(tables.keys) + videos { found.insert(PathParts.folder(of: path)) }
    return found.subtracting([""])
  }

  private var patterns: [FilePattern] { images.compactMap(\.files) + depth.map(\.files) }
  private var videos: [String] { images.compactMap(\.video) }

  /// Returns the role of each path in the take.
  func roles() -> (String) -> TakeInputs.Role? {
    let (tables, videos, images, depth) = (tables, Set(videos), images.compactMap(\.files), depth.map(\.files))
    return { path in
      if path == Self.fileName { return .metadata }
      if let role = tables[path] { return role }
      if videos.contains(path) { return .movie }
      if images.contains(where: { $0.matches(path) }) { return .image }
      return depth.contains { $0.matches(path) } ? .depth : nil
    }
  }

  /// What a folder has to have so that the description can be of it: a file of the rows' images.
  var anchor: (folder: String, matches: (String) -> Bool) {
    switch images[0].source {
    case .files(let pattern, _): (pattern.folder, pattern.matches)
    case .video(let path, _, _): (PathParts.folder(of: path), { $0 == path })
    }
  }

  /// The folder in an archive that has the images; `nil` where none has. Throws `TakeFailure` where several have.
  func root(in archive: Archive) throws -> String? {
    let depth = anchor.folder.split(separator: "/").count + 1
    let roots = archive.members.compactMap { member -> String? in
      let parts = member.path.split(separator: "/")
      guard parts.count >= depth, !parts.contains(where: { $0.hasPrefix(".") || $0 == "__MACOSX" }),
        anchor.matches(parts.suffix(depth).joined(separator: "/"))
      else { return nil }
      return parts.dropLast(depth).joined(separator: "/")
    }
    let distinct = Set(roots).sorted()
    guard distinct.count < 2 else {
      throw TakeFailure(
        .archiveAmbiguous, "it holds \(distinct.count) takes, \(distinct.prefix(3).joined(separator: ", ")) among them; expected one")
    }
    return distinct.first
  }
}

extension FolderDescription.Images {
  var times: FolderDescription.Times? {
    switch source {
    case .files(_, let times): times
    case .video(_, let times, _): times
    }
  }
  var files: FilePattern? { if case .files(let pattern, _) = source { pattern } else { nil } }
  var video: String? { if case .video(let path, _, _) = source { path } else { nil } }
}
