package import HDF5
package import Steps

/// The episodes of an open file and the parts of its split: an index, a packed file or a shard. As `StoredEpisode` is for one episode, read with
/// libhdf5, so that another program's groups, links and masks are seen, too. All members throw `HDF5Error` for a file that is damaged.
package struct StoredIndex {
  private let root: Group
  private let data: Group

  /// `nil` for a file that neither Takeset wrote nor another program in robomimic's layout.
  package init?(_ root: Group) throws {
    guard root.contains(ShardNames.allData) else { return nil }
    (self.root, data) = (root, try root.group(ShardNames.allData))
    if try root.textAttribute("format") == "takeset" { return }
    let demos = try data.members().filter { $0.kind == .group }
    guard let first = demos.first, try data.group(first.name).contains(ShardNames.observations) else { return nil }
  }

  /// The groups of the episodes in the order of their names, each with what its link names, relative to this file; `nil` where it is here.
  package func episodes() throws -> [(name: String, target: (file: String, object: String)?)] {
    try data.members().map { name, kind in (name, kind == .external ? try data.externalTarget(name) : nil) }
  }

  /// The label `task` of an episode; `nil` where it has none.
  package func task(of name: String) throws -> String? {
    guard root.contains(ShardNames.labels), case let labels = try root.group(ShardNames.labels), labels.contains(name) else { return nil }
    return try labels.group(name).textAttribute("task")
  }

  /// The names of a part's episodes; `nil` where there is no such mask, or where another program has written it as something else than text.
  package func names(in part: SplitPart) throws -> [String]? {
    guard root.contains(ShardNames.masks), case let masks = try root.group(ShardNames.masks), masks.contains(part.rawValue) else {
      return nil
    }
    let names = try masks.dataset(part.rawValue)
    if names.dims.first ?? 0 == 0 { return [] }
    guard let width = names.type?.textWidth, width > 0 else { return nil }
    let bytes = try names.readAll()
    return stride(from: 0, to: bytes.count, by: width).map { start in
      String(decoding: bytes[start..<min(start + width, bytes.count)].prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}
