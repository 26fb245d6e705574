package import Datasets
package import Evidence
import Foundation
package import Model

/// One stream of a traced row: which samples its value comes from, where their bytes are, and what is stored.
package struct TracedStream: Sendable {
  /// A place that a value comes from, and whose it is.
  package struct Origin: Sendable {
    /// The stream and the row whose value it is: of actions, another stream's and perhaps the next row's.
    package var stream: StreamName
    package var row: Int
    /// The source's number of the sample.
    package var sample: Int64?
    /// The sample's weight in the value.
    package var weight: Double
    package var place: SampleOrigin
  }

  package var name: StreamName
  package var kind: String
  /// The source sample of the row's value, and its blend with the next: `/meta/demo_N/streams/<name>`.
  package var sourceIndex: Int64?
  package var nextIndex: Int64?
  package var weight: Double?
  package var delay: Int64?
  package var isValid: Bool?
  package var origins: [Origin] = []
  /// The streams and rows that a computed value depends on.
  package var inputs: [StreamName] = []
  package var inputRows: ClosedRange<Int>?
  /// Files that may hold the sample, by their names alone, where the take is gone.
  package var candidates: [TakeRecord.Input] = []
  /// The file that `takeset add` has added the stream from.
  package var addition: TakeRecord.Addition?
  /// The reason why the sample could not be read.
  package var unreadable: String?
  /// Path of the array in the file, its type and the shape of the row.
  package var array: String?
  package var dtype: String?
  package var shape: [Int] = []
  package var unit: String?
  /// The stored numbers, of streams that are not grids of pixels.
  package var values: [Double] = []
  /// SHA-256 of the row's bytes, and the recorded one, where each row has one.
  package var digest: Digest?
  package var recordedDigest: Digest?
  /// The scope of the recorded digest: `row` or `array`.
  package var recordedDigestOf: String?
  package var problem: String?
  /// Whether the row made again from the source has the same bytes; `nil` where it could not be made.
  package var isReproduced: Bool?

  /// A stream with values in the rows.
  init(_ name: StreamName, _ field: StoredRow.Field, _ stored: StoredRow) {
    (self.name, kind) = (name, field.kind ?? "")
    let group = "meta/streams/\(name)/"
    sourceIndex = stored.integer(group + "source_index")
    nextIndex = stored.integer(group + ShardNames.nextIndex)
    weight = stored.number(group + ShardNames.weight)
    delay = stored.integer(group + ShardNames.delay)
    isValid = stored.integer(group + "valid").map { $0 == 1 } ?? stored.integer("data/\(name)_valid").map { $0 == 1 }
    (array, dtype, shape, unit) = (field.path, field.type.numpyName, field.shape, field.unit)
    if !["image", "depth", "confidence"].contains(kind) { values = field.values }
    (digest, recordedDigest, recordedDigestOf, problem) = (field.digest, field.recordedDigest, field.recordedDigestOf, field.problem)
  }

  /// A sensor with times of its own.
  init(_ reading: StoredRow.Reading, demo: String) {
    (name, kind) = (reading.name, "inertial")
    (delay, values) = (reading.delay, reading.values.map { Double($0) })
    (array, sourceIndex) = ("/meta/\(demo)/\(reading.name)", Int64(reading.index))
  }

  var hasSample: Bool { (sourceIndex ?? -1) >= 0 }

  /// Looks up the origins in the take. Throws `TakeFailure`.
  mutating func trace(_ row: Int, in episode: Episode) throws {
    if let derived = episode.derived[name] {
      inputs = Set(derived.inputs).sorted()
      let last = episode.frames.count - 1
      let horizon = derived.spec.shape.count > 1 ? derived.spec.shape[0] : 1
      let end = min(row + horizon, last)
      inputRows = row...end
      // Of a chunk of actions there may be many rows; each of them can be traced by itself.
      let rows = horizon > 1 ? [row] : Set([row, end]).sorted()
      for input in inputs { for row in rows { try add(episode, input, row) } }
    } else if kind == "inertial" {
      // Readings are stored in the stream's order.
      guard let stream = episode.streams[name], let index = sourceIndex.flatMap({ Int(exactly: $0) }),
        stream.sourceIndex.indices.contains(index)
      else { return }
      try add(stream, name, row, sample: index, weight: 1)
    } else {
      try add(episode, name, row)
    }
  }

  private mutating func add(_ episode: Episode, _ name: StreamName, _ row: Int) throws {
    guard let stream = episode.streams[name], let rows = stream.rows, rows.indices.contains(row), let own = rows[row] else { return }
    try add(stream, name, row, sample: own.sample, weight: own.isBlend ? 1 - Double(own.weight) : 1)
    if own.isBlend { try add(stream, name, row, sample: own.next, weight: Double(own.weight)) }
  }

  private mutating func add(_ stream: SampleStream, _ name: StreamName, _ row: Int, sample: Int, weight: Double) throws {
    for place in try stream.source.origins(of: sample) {
      origins.append(Origin(stream: name, row: row, sample: stream.sourceIndex[sample], weight: weight, place: place))
    }
  }

  // MARK: JSON

  var json: JSONValue {
    func whole(_ value: Int64?) -> JSONValue { value.map { .integer($0) } ?? .null }
    var members: [String: JSONValue] = [
      "name": .string(name.rawValue), "kind": .string(kind), "source_index": whole(sourceIndex), "next_index": whole(nextIndex),
      "weight": weight.map { .number($0) } ?? .null, "dt_ns": whole(delay), "valid": isValid.map { .bool($0) } ?? .null,
      "origins": .array(origins.map(\.json)), "unreadable": JSONValue(unreadable), "array": JSONValue(array), "dtype": JSONValue(dtype),
      "shape": .array(shape.map { JSONValue($0) }), "unit": JSONValue(unit), "sha256": JSONValue(digest?.description),
      "recorded_sha256": JSONValue(recordedDigest?.description), "recorded_sha256_of": JSONValue(recordedDigestOf),
      "as_recorded": recordedDigestOf == nil && problem == nil ? .null : .bool(problem == nil), "problem": JSONValue(problem),
      "reproduced": isReproduced.map { .bool($0) } ?? .null,
    ]
    if !values.isEmpty { members["values"] = .array(values.map { $0.isFinite ? .number($0) : .null }) }
    if let inputRows {
      members["computed_from"] = [
        "streams": .array(inputs.map { .string($0.rawValue) }), "rows": [JSONValue(inputRows.lowerBound), JSONValue(inputRows.upperBound)],
      ]
    }
    if let addition { members["added"] = ["file": .string(addition.file), "sha256": .string(addition.digest.description)] }
    if !candidates.isEmpty { members["candidates"] = .array(candidates.map { .string($0.path) }) }
    return .object(members)
  }
}

extension TracedStream.Origin {
  fileprivate var json: JSONValue {
    func stretch(_ range: Range<Int64>) -> JSONValue {
      ["offset": .integer(range.lowerBound), "bytes": .integer(range.upperBound - range.lowerBound)]
    }
    var members: [String: JSONValue] = [
      "stream": .string(stream.rawValue), "row": JSONValue(row), "sample": sample.map { .integer($0) } ?? .null, "weight": .number(weight),
      "file": .string(place.file), "range": stretch(place.range), "compression": JSONValue(place.compression),
      "range_in_file": place.bytesInFile.map(stretch) ?? .null, "member": .null, "part": .null, "record": .null,
      "text": JSONValue(place.text),
    ]
    if let member = place.member {
      members["member"] = [
        "name": .string(member.name), "data": stretch(member.data), "bytes": .integer(member.bytes),
        "compression": JSONValue(member.compression),
      ]
    }
    if let part = place.part { members["part"] = ["name": .string(part.name), "range": stretch(part.range)] }
    if let record = place.record { members["record"] = ["kind": .string(record.kind.rawValue), "number": JSONValue(record.number)] }
    return .object(members)
  }

  /// The place of the bytes in words: `rgb/000003.jpg, all 5120 bytes`.
  package var words: String {
    func stretch(_ range: Range<Int64>) -> String { "bytes \(range.lowerBound) to \(range.upperBound)" }
    var words = place.file
    if let member = place.member {
      words += ", member \(member.name)"
      words += member.compression.map { " (\($0), at \(stretch(member.data)))" } ?? ""
    }
    if let part = place.part { words += ", part \(part.name)" }
    let isWhole = place.record == nil && place.part == nil && place.compression == nil && place.range.lowerBound == 0
    if let record = place.record {
      words += ", \(record.kind.rawValue) \(record.number)"
    }
    if isWhole, place.member?.compression != nil || place.member == nil {
      words += ", all \(place.range.count) bytes"
    } else if let own = place.bytesInFile {
      words += ", \(stretch(own))"
    } else {
      let what = place.compression.map { "the inflated \($0) data" } ?? "the inflated member"
      words += ", \(stretch(place.range)) of \(what)"
    }
    return words
  }
}
