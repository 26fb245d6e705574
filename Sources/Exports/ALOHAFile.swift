import Datasets
import Foundation
import HDF5
import Model
import Steps

/// One file of an ALOHA export.
struct ALOHAFile {
  private let plan: ALOHAPlan
  private let part: ALOHAPlan.Part
  private let options: ALOHAExporter

  init(_ plan: ALOHAPlan, _ part: ALOHAPlan.Part, _ options: ALOHAExporter) {
    (self.plan, self.part, self.options) = (plan, part, options)
  }

  private var padding: Int { plan.length - part.rows.count }

  /// Writes the file, and says whether it has links into the dataset.
  func write(to name: String, of dataset: Dataset, in directory: ExportDirectory) throws -> Bool {
    let file = try File.create(at: directory.place(name))
    try file.root.setAttribute("sim", options.sim)
    try file.root.setAttribute("compress", false)
    if let meta = part.episode.metaAttribute { try file.root.setAttribute("ep_meta", meta) }
    let shard = try linkable(dataset, directory)
    let observations = try file.root.createGroup("observations")
    if let shard {
      try file.root.link("action", toFile: shard, object: ShardNames.dataPath + StreamName.actions.rawValue)
    } else {
      try write([.actions], width: part.episode.episode.derived[.actions]?.spec.elementCount ?? 0, as: "action", in: file.root)
    }
    let width = plan.qpos.reduce(0) { $0 + $1.width }
    try write(plan.qpos.map(\.name), width: width, as: "qpos", in: observations)
    let layout = Layout(type: .float32, dims: [plan.length, width])
    let zeros = [UInt8](repeating: 0, count: layout.chunkBytes)
    _ = try zeros.withUnsafeBytes { try observations.createDataset("qvel", layout).write($0) }
    if options.fixedLength == .pad {
      let flags = [UInt8](repeating: 0, count: part.rows.count) + [UInt8](repeating: 1, count: padding)
      _ = try flags.withUnsafeBytes { try file.root.createDataset("is_pad", Layout(type: .boolean, dims: [plan.length])).write($0) }
    }
    let images = try observations.createGroup("images")
    var isLinked = shard != nil
    for camera in plan.cameras {
      if let shard, part.episode.episode.streams[camera.stream]?.spec.sourceEncoding == nil {
        try images.link(camera.name, toFile: shard, object: "\(ShardNames.dataPath)obs/\(camera.stream)")
        isLinked = true
      } else {
        try write(camera, in: images, directory)
      }
    }
    try file.close()
    try directory.count(name)
    return isLinked
  }

  /// Writes numbers of the rows, those of several streams side by side; padding repeats the last row.
  private func write(_ names: [StreamName], width: Int, as member: String, in group: Group) throws {
    var reader = RowReader(part.episode.episode)
    var values: [Float] = []
    values.reserveCapacity(plan.length * width)
    for row in part.rows { for name in names { values += try reader.values(of: name, at: row) } }
    let last = values.suffix(width)
    for _ in 0..<padding { values += last }
    let dataset = try group.createDataset(member, Layout(type: .float32, dims: [plan.length, width]))
    try values.withUnsafeBytes { try dataset.write($0) }
  }

  private func write(_ camera: ALOHAPlan.Camera, in group: Group, _ directory: ExportDirectory) throws {
    let episode = part.episode
    guard let spec = episode.episode.streams[camera.stream]?.spec else { return }
    let dataset = try group.createDataset(
      camera.name, Layout(type: .uint8, dims: [plan.length] + spec.shape, chunk: [1] + spec.shape))
    let (first, count, length) = (part.rows.lowerBound, part.rows.count, plan.length)
    try directory.inOrder(count) {
      try RasterReader(camera.stream, of: episode)
    } make: { reader, index in
      guard let pixels = try reader.read(first + index) else {
        throw Dataset.unreadable("it has no image", "row \(first + index) of \(camera.stream) of \(episode.id)")
      }
      return pixels
    } store: { index, pixels in
      for row in index..<(index == count - 1 ? length : index + 1) {
        try pixels.withUnsafeBytes { try dataset.writeChunk($0, at: [row, 0, 0, 0], skipped: 0) }
      }
    }
  }

  // MARK: Links

  /// The episode's shard as a path relative to the export, if its rows are the rows of the file; `nil` where values have to be written.
  private func linkable(_ dataset: Dataset, _ directory: ExportDirectory) throws -> String? {
    guard options.link, padding == 0, part.rows == 0..<part.episode.rows,
      let shard = dataset.written.first(where: { $0.id.text == part.episode.id })?.output?.path
    else { return nil }
    return try Self.path(to: dataset.directory + "/" + shard, from: directory.path)
  }

  /// The path of a file relative to a directory, with no link of the file system on the way that `..` would not undo.
  static func path(to file: String, from directory: String) throws -> String {
    func parts(_ path: String) throws -> [Substring] {
      guard let real = realpath(path, nil) else { throw FileError("look up", path) }
      defer { free(real) }
      return Array(String(cString: real).split(separator: "/")[...])
    }
    let (to, from) = (try parts(file), try parts(directory))
    let shared = zip(to, from).prefix { $0 == $1 }.count
    return (Array(repeating: "..", count: from.count - shared) + to.dropFirst(shared)).joined(separator: "/")
  }
}
