import Foundation
import HDF5

/// `dataset.h5`: links to every shard's episode, masks and statistics, so that the directory opens as one file.
struct DatasetIndex {
  struct Member: Sendable {
    var id: String
    var reader: String
    var samples: Int
    var part: Split.Part
    /// The demo's name in the index.
    var demo: String
  }

  /// By take id; numbered from 0 in that order.
  let members: [Member]
  let directory: String
  let toolVersion: String
  let pipelineDigest: String

  static func demoName(_ number: Int) -> String {
    let digits = String(number)
    return "demo_" + String(repeating: "0", count: max(0, 6 - digits.count)) + digits
  }

  static func shardPath(_ id: String) -> String { "episodes/\(id).h5" }

  /// Writes the index and returns the statistics of the training takes by key.
  func write() throws -> [String: Statistics] {
    let statistics = try trainingStatistics()
    let path = directory + "/dataset.h5"
    let temporary = SealedFile.temporaryPath(for: path)
    unlink(temporary)
    do {
      let file = try File.create(at: temporary)
      try fill(file.root, statistics)
      try file.close()
      try SealedFile.seal(temporary, as: path)
    } catch {
      unlink(temporary)
      throw error
    }
    return statistics
  }

  private func fill(_ root: Group, _ statistics: [String: Statistics]) throws {
    try root.setAttributes([
      "format": .text("takeset"), "format_version": .text(formatVersion), "tool_version": .text(toolVersion),
      "pipeline_sha256": .text(pipelineDigest),
    ])
    let data = try root.createGroup("data")
    let meta = try root.createGroup("meta")
    for member in members {
      // A file name in a link is relative to the file that holds the link.
      try data.link(member.demo, toFile: Self.shardPath(member.id), object: "/data/demo_0")
      try meta.link(member.demo, toFile: Self.shardPath(member.id), object: "/meta/demo_0")
    }
    let readers = Set(members.map(\.reader))
    try data.setAttributes([
      "total": .integer(Int64(members.reduce(0) { $0 + $1.samples })),
      "env_args": .text(environmentArguments(readers.count == 1 ? readers.first ?? "" : "takeset")),
    ])
    try Self.writeMasks(members, to: root)
    let stats = try root.createGroup("stats")
    for (key, value) in statistics.sorted(by: { $0.key < $1.key }) {
      try value.write(to: try stats.createGroup(key), mergeable: false)
    }
  }

  /// Demo names as byte strings of one length, as robomimic wants them.
  private static func writeMasks(_ members: [Member], to root: Group) throws {
    let mask = try root.createGroup("mask")
    let width = members.map(\.demo.utf8.count).max() ?? 11
    for part in Split.Part.allCases {
      let names = members.filter { $0.part == part }.map(\.demo)
      let dataset = try mask.createDataset(part.rawValue, Layout(type: .string(width), dims: [names.count]))
      let bytes = names.flatMap { Array($0.utf8) + [UInt8](repeating: 0, count: width - $0.utf8.count) }
      try bytes.withUnsafeBytes { try dataset.write($0) }
    }
  }

  private func trainingStatistics() throws -> [String: Statistics] {
    var merged: [String: Statistics] = [:]
    for member in members where member.part == .train {
      let file = try File.open(directory + "/" + Self.shardPath(member.id))
      let group = try file.root.group("stats")
      for (key, kind) in try group.members() where kind == .group {
        let statistics = try Statistics(from: try group.group(key))
        if merged[key] == nil {
          merged[key] = statistics
        } else if merged[key]?.channels == statistics.channels {
          merged[key]?.merge(statistics)
        }
      }
      try file.close()
    }
    return merged
  }
}
