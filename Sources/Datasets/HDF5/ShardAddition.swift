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
///     try addition.check(record, in: "dataset", checks)
///     let output = try addition.write(to: record, in: "dataset", checks)       // of record.output, with the new arrays
package struct ShardAddition: Sendable {
  package let stream: StreamName
  package let unit: String
  /// The names of a row's numbers.
  package let elements: [String]
  /// Row after row; NaN where a number is absent.
  package let values: [Float]
  /// Whether arrays of these names that the record does not have are removed.
  package var replaces = false

  package init(stream: StreamName, unit: String, elements: [String], values: [Float]) {
    (self.stream, self.unit, self.elements, self.values) = (stream, unit, elements, values)
  }

  /// The values of the stream that a shard has under the name already; `nil` where it has none.
  package func stored(in output: OutputRecord) -> ArrayRecord? {
    output.arrays.first { $0.path == "\(ShardNames.dataPath)\(ShardNames.observations)/\(stream)" }
  }

  /// Whether stored values are these.
  package func isSame(as array: ArrayRecord) -> Bool {
    array.shape.dropFirst() == [elements.count] && array.digest == values.withUnsafeBytes { Digest.of(Array($0)) }
  }

  /// Throws `ExportRefusal` for a shard that is damaged, or that another program has given objects of these names.
  package func check(_ record: TakeRecord, in directory: String, _ checks: Verification.ExternalChecks) throws {
    let shard = try open(record, in: directory, checks)
    defer { try? shard.file.close() }
    if try shard.isForeign && recorded(shard, directory) != nil { return }
    try checkNames(shard)
  }

  /// Writes the shard of an episode again, with the vector; returns its new description.
  ///
  /// Throws `ExportRefusal` as `check` does; `OutputFailure`.
  package func write(to record: TakeRecord, in directory: String, _ checks: Verification.ExternalChecks) throws -> OutputRecord {
    let shard = try open(record, in: directory, checks)
    if shard.isForeign, let own = try recorded(shard, directory) { return own }
    try shard.file.close()
    let temporary = SealedFile.temporaryPath(for: shard.path)
    unlink(temporary)
    do {
      try SealedFile.copy(shard.path, to: temporary)
      let arrays = try write(shard.layout, to: temporary)
      let described = try describe(shard.output, arrays, at: temporary, isForeign: shard.isForeign)
      try SealedFile.seal(temporary, as: shard.path)
      return described
    } catch {
      let failure = OutputFailure(error, writing: shard.path)
      unlink(temporary)
      throw failure
    }
  }

  /// The description of a shard whose record is to have the stream no longer. The arrays stay in the file until something else is written.
  package static func without(
    _ stream: StreamName, _ record: TakeRecord, in directory: String, _ checks: Verification.ExternalChecks
  ) throws -> OutputRecord {
    guard var output = record.output else { throw ExportRefusal("\(record.id) has no file") }
    do {
      let file = try RecordedShard(directory + "/" + output.path, output, checks).open()
      defer { try? file.close() }
      output.arrays.removeAll { StoredRow.belongs(String($0.path.dropFirst()).replacing("/\(ShardNames.demo)/", with: "/"), to: stream) }
      output.attributesDigest = try ExternalCheck.attributesDigest(of: output.arrays, in: file.root)
      output.contentDigest = OutputRecord.contentDigest(of: output.arrays)
      return output
    } catch {
      throw ExportRefusal("\(record.id): \(Dataset.problem(error, record))")
    }
  }

  // MARK: The shard

  private struct Shard {
    var path: String
    var output: OutputRecord
    var layout: ShardLayout
    /// Whether another program has written to it, or this one before it was killed.
    var isForeign: Bool
    var file: File
  }

  private func open(_ record: TakeRecord, in directory: String, _ checks: Verification.ExternalChecks) throws -> Shard {
    guard let output = record.output else { throw ExportRefusal("\(record.id) has no file") }
    let path = directory + "/" + output.path
    do {
      let episode = try Dataset.episode(record, in: directory, checks)
      return Shard(
        path: path, output: output, layout: layout(of: episode), isForeign: episode.findings.contains { $0.code == .added },
        file: try File.open(path))
    } catch {
      throw ExportRefusal("\(record.id): \(Dataset.problem(error, record)); nothing is added")
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

  /// Throws `ExportRefusal` where objects of these names are in the way.
  private func checkNames(_ shard: Shard) throws {
    for planned in shard.layout.arrays {
      var path = ""
      for part in planned.path.split(separator: "/").dropLast() {
        path += path.isEmpty ? part : "/" + part
        guard shard.file.root.contains(path), (try? shard.file.root.group(path)) == nil else { continue }
        throw refusal(shard.output, path)
      }
      if !replaces, shard.file.root.contains(planned.path) { throw refusal(shard.output, planned.path) }
    }
  }

  private func refusal(_ output: OutputRecord, _ path: String) -> ExportRefusal {
    ExportRefusal(
      "\(output.path) has /\(path), which another program has added, or takeset add with other values before it was interrupted; choose another name, or give --replace"
    )
  }

  /// Creates the arrays in a file and returns their records.
  private func write(_ layout: ShardLayout, to path: String) throws -> [ArrayRecord] {
    let file = try File.modify(path)
    defer { try? file.close() }
    if replaces { for planned in layout.arrays where file.root.contains(planned.path) { try file.root.remove(planned.path) } }
    var (columns, attributes) = (try ColumnWriter(layout, rowDigests: [], isUnreadable: [:]), AttributeList())
    let records = try layout.columns.compactMap { column -> ArrayRecord? in
      let planned = layout.arrays[column.array]
      let parts = planned.path.split(separator: "/").map(String.init)
      var group = file.root
      for part in parts.dropLast() { group = try group.contains(part) ? group.group(part) : group.createGroup(part) }
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

  /// The description of a shard that has the arrays with these values already, because a command was killed before it could record them; `nil`
  /// for any other.
  private func recorded(_ shard: Shard, _ directory: String) throws -> OutputRecord? {
    let (root, output, layout) = (shard.file.root, shard.output, shard.layout)
    var columns = try ColumnWriter(layout, rowDigests: [], isUnreadable: [:])
    var arrays: [ArrayRecord] = []
    for column in layout.columns {
      let planned = layout.arrays[column.array]
      guard root.contains(planned.path), let dataset = try? root.dataset(planned.path), dataset.dims == planned.layout.dims,
        dataset.type == planned.layout.type
      else { return nil }
      let content = try (0..<(planned.layout.dims.first ?? 0)).flatMap { try columns.bytes(of: column, row: $0) }
      var record = planned.record
      (record.digest, record.digestOf) = (Digest.of(content), .bytes)
      guard try dataset.readAll() == content, try dataset.textAttribute("sha256") == record.digest?.description,
        try dataset.textAttribute("unit") == planned.attributes["unit"]?.json.string
      else { return nil }
      arrays.append(record)
    }
    let foreign = try describe(output, arrays, at: shard.path, isForeign: true)
    guard try ExternalCheck.additions(to: root, foreign).isEmpty,
      let own = try? describe(output, arrays, at: shard.path, isForeign: false)
    else { return foreign }
    // Where another program has compressed arrays anew, the checksums of their chunks are not those that the shard carries.
    var report = Verification(.none, of: directory)
    report.catching(output.path) { report in
      try HDF5Check(directory: directory).checkArrays(own, WrittenShard(shard.path), into: &report)
    }
    return report.isSound ? own : foreign
  }
}
