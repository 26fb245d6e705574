import Evidence
import Foundation
import HDF5
package import Model
import Steps

/// A vector that is added to an episode which is written already: one value for each row.
///
/// The shard gets new arrays, and no byte of the others changes: neither do the statistics and the checksums that it carries, so it is sound by
/// its old record, too, as a shard to which another program has added something. A command that is killed between the shard and its line in
/// the journal has damaged nothing, therefore, and what it has written is found and recorded the next time.
///
///     let addition = ShardAddition(stream: "width", unit: "m", elements: ["width"], values: widths)
///     let output = try addition.write(to: record, in: "dataset", checks)       // of record.output, with the new arrays
package struct ShardAddition {
  package let stream: StreamName
  package let unit: String
  /// The names of a row's numbers.
  package let elements: [String]
  /// Row after row; NaN where a number is absent.
  package let values: [Float]

  package init(stream: StreamName, unit: String, elements: [String], values: [Float]) {
    (self.stream, self.unit, self.elements, self.values) = (stream, unit, elements, values)
  }

  /// Writes the shard of an episode again, with the vector; returns its new description.
  ///
  /// Throws `ExportRefusal` for a shard that is damaged, or that another program has given arrays of these names; `OutputFailure`.
  package func write(to record: TakeRecord, in directory: String, _ checks: Verification.ExternalChecks) throws -> OutputRecord {
    guard let output = record.output else { throw ExportRefusal("\(record.id) has no file") }
    let path = directory + "/" + output.path
    let episode: Episode
    do {
      episode = try Dataset.episode(record, in: directory, checks)
    } catch {
      throw ExportRefusal("\(record.id): \(Dataset.problem(error, record)); nothing is added to it")
    }
    let layout = self.layout(of: episode)
    let isForeign = episode.findings.contains { $0.code == .added }
    if isForeign, let own = try recorded(path, output, layout, directory) { return own }
    let temporary = SealedFile.temporaryPath(for: path)
    unlink(temporary)
    do {
      try SealedFile.copy(path, to: temporary)
      let arrays = try write(layout, to: temporary)
      let described = try describe(output, arrays, at: temporary, isForeign: isForeign)
      try SealedFile.seal(temporary, as: path)
      return described
    } catch {
      let failure = OutputFailure(error, writing: path)
      unlink(temporary)
      throw error is ExportRefusal ? error : failure
    }
  }

  private func layout(of episode: Episode) -> ShardLayout {
    let (frames, width) = (episode.frames, elements.count)
    var spec = StreamSpec(kind: .vector, type: .float32, shape: [width], unit: unit, clock: frames.clock)
    spec.elements = elements
    let rows = (0..<frames.count).map { row in
      values[(row * width)..<((row + 1) * width)].allSatisfy(\.isNaN) ? nil : Row(row)
    }
    let added = SampleStream(
      spec: spec, source: VectorSource(width: width, values: values), timestamps: frames.timestamps, sourceIndex: frames.sourceIndex,
      rows: rows)
    return ShardLayout(adding: stream, added, to: episode)
  }

  /// Creates the arrays in a file and returns their records.
  private func write(_ layout: ShardLayout, to path: String) throws -> [ArrayRecord] {
    let file = try File.modify(path)
    defer { try? file.close() }
    var (columns, attributes) = (try ColumnWriter(layout, rowDigests: [], isUnreadable: [:]), AttributeList())
    let records = try layout.columns.compactMap { column -> ArrayRecord? in
      let planned = layout.arrays[column.array]
      let parts = planned.path.split(separator: "/").map(String.init)
      var group = file.root
      for part in parts.dropLast() { group = try group.contains(part) ? group.group(part) : group.createGroup(part) }
      guard !group.contains(parts[parts.count - 1]) else { throw ExportRefusal("\(path): \(planned.path) is there already") }
      let dataset = try group.createDataset(parts[parts.count - 1], planned.layout)
      return try planned.describe(dataset, columns.write(column, to: dataset), noting: &attributes)
    }
    try file.close()
    return records
  }

  /// The description of a shard with these arrays beside those of an earlier one.
  ///
  /// - Parameter isForeign: Whether another program has written to it. Then the digest of its structure stays that of the file as Takeset wrote
  ///   it, by which everything that looks at the shard sees that, and names what was added.
  private func describe(_ earlier: OutputRecord, _ arrays: [ArrayRecord], at path: String, isForeign: Bool) throws -> OutputRecord {
    let all = (earlier.arrays + arrays).sorted { $0.path < $1.path }
    let file = try File.open(path)
    let attributes = try ExternalCheck.attributesDigest(of: all, in: file.root)
    try file.close()
    let written = isForeign ? nil : try WrittenShard(path)
    for array in arrays {
      guard let written, let layout = Layout(array) else { continue }
      guard try written.digest(of: String(array.path.dropFirst()), layout) == array.digest else {
        throw HDF5Error(call: "read back", target: path + ":" + array.path, message: "reads back differently than written")
      }
    }
    return OutputRecord(
      path: earlier.path, bytes: written?.size ?? earlier.bytes, samples: earlier.samples, arrays: all,
      structureDigest: try written?.structureDigest() ?? earlier.structureDigest, attributesDigest: attributes)
  }

  // MARK: After a kill

  /// The description of a shard that has the arrays already, because a command was killed before it could record them; `nil` for one that has
  /// none of them. Throws `ExportRefusal` where it has others of the same names.
  private func recorded(_ path: String, _ output: OutputRecord, _ layout: ShardLayout, _ directory: String) throws -> OutputRecord? {
    let file = try File.open(path)
    defer { try? file.close() }
    let present = layout.arrays.filter { file.root.contains($0.path) }
    guard let first = present.first else { return nil }
    var columns = try ColumnWriter(layout, rowDigests: [], isUnreadable: [:])
    let arrays = try layout.columns.map { column in
      let planned = layout.arrays[column.array]
      var record = planned.record
      let content = try (0..<(planned.layout.dims.first ?? 0)).flatMap { try columns.bytes(of: column, row: $0) }
      (record.digest, record.digestOf) = (Digest.of(content), .bytes)
      guard present.count == layout.arrays.count, let dataset = try? file.root.dataset(planned.path), dataset.dims == planned.layout.dims,
        dataset.type == planned.layout.type, try dataset.readAll() == content,
        try dataset.textAttribute("sha256") == record.digest?.description
      else {
        throw ExportRefusal(
          "\(output.path) has /\(first.path), which another program or an earlier takeset add with other values has added; remove it, or add the stream under another name"
        )
      }
      return record
    }
    let foreign = try describe(output, arrays, at: path, isForeign: true)
    guard try ExternalCheck.additions(to: file.root, foreign).isEmpty, let own = try? describe(output, arrays, at: path, isForeign: false)
    else { return foreign }
    // Where another program has compressed arrays anew, the checksums of their chunks are not those that the shard carries.
    var report = Verification(.none, of: directory)
    report.catching(output.path) { report in try HDF5Check(directory: directory).checkArrays(own, WrittenShard(path), into: &report) }
    return report.isSound ? own : foreign
  }
}
