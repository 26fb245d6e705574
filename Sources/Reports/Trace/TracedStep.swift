package import Datasets
import Evidence
import Foundation
package import Model
import Runs
import Transforms

/// A step of the pipeline, as recorded, and what it did to one row.
package struct TracedStep: Sendable {
  /// A change of the row, or of one stream's value in it.
  package struct Effect: Sendable, Equatable {
    package var stream: StreamName?
    package var words: String

    package var text: String { (stream.map { "\($0): " } ?? "") + words }
  }

  package var record: TakeRecord.Step
  /// The row's number after the step; `nil` where that is not known.
  package var row: Int?
  /// `nil` where the take could not be opened again.
  package var effects: [Effect]?

  init(_ record: TakeRecord.Step) { self.record = record }

  var json: JSONValue {
    guard case .object(var members) = record.json else { return .null }
    members["row"] = row.map { JSONValue($0) } ?? .null
    members["effects"] =
      effects.map { .array($0.map { ["stream": JSONValue($0.stream?.rawValue), "words": .string($0.words)] }) } ?? .null
    return .object(members)
  }

  /// The recorded steps, and, if the take could be opened, what each did to a row of the episode.
  ///
  /// - Parameter stream: The stream, by its name in the dataset, to which effects are limited.
  static func all(_ record: TakeRecord, _ take: TracedTake?, row: Int, stream: StreamName?) -> [TracedStep] {
    // Takeset 0.3.0 recorded the steps of the index, too.
    var steps = record.steps.filter { Registry.transform($0.name)?.concernsIndexOnly != true }.map { TracedStep($0) }
    guard let history = take?.trace.history, history.count == steps.count, !history.isEmpty else { return steps }
    // From the last step back: which row it was, and what the stream was called.
    var rows = Array(repeating: row, count: history.count)
    var names = Array(repeating: stream, count: history.count)
    for index in history.indices.dropLast().reversed() {
      rows[index] = rowBefore(rows[index + 1], of: history[index + 1], in: history[index])
      names[index] = names[index + 1].map { steps[index + 1].nameBefore($0) }
    }
    for index in steps.indices {
      steps[index].row = rows[index]
      if index == 0 {
        steps[0].effects = opened(history[0], row: rows[0], stream: names[0])
      } else {
        let change = Change(
          step: steps[index], before: history[index - 1], after: history[index], from: rows[index - 1], to: rows[index],
          stream: names[index])
        steps[index].effects = change.effects
      }
    }
    return steps
  }

  /// The row of an earlier episode at the time of a row, or the nearest to it, the earlier of two equally near.
  private static func rowBefore(_ row: Int, of after: Episode, in before: Episode) -> Int {
    let (time, times) = (after.frames.timestamps[row], before.frames.timestamps)
    var (low, high) = (0, times.count)
    while low < high {
      let middle = (low + high) / 2
      if times[middle] < time { low = middle + 1 } else { high = middle }
    }
    if low == times.count { return max(0, times.count - 1) }
    return low > 0 && time.since(times[low - 1]) <= times[low].since(time) ? low - 1 : low
  }

  /// The stream that a step in Python makes.
  var madeStream: StreamName? {
    guard record.name == Python.name else { return nil }
    return record.options["recorded"]?["writes"]?["name"]?.string.map { StreamName($0) }
  }

  /// The function that a step in Python calls, with its file and the digest of that.
  var program: String? {
    guard record.name == Python.name, let options = record.options.object, let file = options["file"]?.string else { return nil }
    let recorded = options["recorded"]?.object ?? [:]
    let digest = recorded["digests"]?.object?[RelativePath.plain(file)]?.string
    return [recorded["function"]?.string.map { "\($0) of" }, file, digest.map { "(sha256 \($0))" }].compactMap(\.self).joined(
      separator: " ")
  }

  /// The name that a stream had before the step.
  func nameBefore(_ name: StreamName) -> StreamName {
    guard record.name == Rename.name, let names = record.options["streams"]?.object else { return name }
    return names.first { $0.value.string == name.rawValue }.map { StreamName($0.key) } ?? name
  }

  private static func opened(_ episode: Episode, row: Int, stream: StreamName?) -> [Effect] {
    var effects = [
      Effect(stream: nil, words: "frame \(episode.frames.sourceIndex[row]) of the source is row \(row) of \(episode.frames.count)")
    ]
    for (name, own) in episode.streams.sorted(by: { $0.key < $1.key }) where stream == nil || stream == name {
      let shape = own.spec.shape.map(String.init).joined(separator: "x")
      effects.append(Effect(stream: name, words: "\(own.timestamps.count) samples of \(shape) \(own.spec.type.rawValue), \(own.spec.unit)"))
    }
    return effects
  }
}

/// Two episodes, before and after a step, at one row.
private struct Change {
  let step: TracedStep
  let before: Episode
  let after: Episode
  let from: Int
  let to: Int
  /// The name after the step of the only stream that counts.
  let stream: StreamName?

  var effects: [TracedStep.Effect] {
    var effects: [TracedStep.Effect] = []
    func add(_ words: String, _ stream: StreamName? = nil) { effects.append(TracedStep.Effect(stream: stream, words: words)) }
    let isGrid = after.frames.isResampled && !before.frames.isResampled
    if isGrid {
      let distance = after.frames.timestamps[to].since(before.frames.timestamps[from])
      add("row \(to) is a tick of the grid, \(Self.milliseconds(distance)) from row \(from), the nearest frame")
    } else if from != to || before.frames.count != after.frames.count {
      add("row \(from) of \(before.frames.count) is row \(to) of \(after.frames.count)")
    }
    if let program = step.program { add("calls \(program)") }
    let names = after.streams.keys.sorted().filter { stream == nil || $0 == stream }
    for name in names {
      let old = step.nameBefore(name)
      guard let later = after.streams[name] else { continue }
      guard let earlier = before.streams[old] else {
        add(
          "is made here: \(later.spec.shape.map(String.init).joined(separator: "x")) \(later.spec.type.rawValue), \(later.spec.unit)", name)
        continue
      }
      if old != name { add("is what was called \(old)", name) }
      for words in changes(old, earlier, name, later) { add(words, name) }
    }
    if stream == nil {
      let renamed = Set(after.streams.keys.map(step.nameBefore))
      for name in before.streams.keys.sorted() where !renamed.contains(name) { add("is left out", name) }
    }
    for (name, derived) in after.derived.sorted(by: { $0.key < $1.key })
    where before.derived[name] == nil && (stream == nil || stream == name) {
      let parts = derived.spec.parts.map(\.description).joined(separator: " ")
      add(
        "computed from \(Set(derived.inputs).sorted().map(\.rawValue).joined(separator: " and "))\(parts.isEmpty ? "" : ": \(parts)")", name
      )
    }
    if after.storesNextObservations, !before.storesNextObservations {
      add("observations of row \(min(to + 1, after.frames.count - 1)) are stored as the next ones")
    }
    return effects.isEmpty ? [TracedStep.Effect(stream: nil, words: "changes nothing here")] : effects
  }

  private func changes(_ old: StreamName, _ earlier: SampleStream, _ name: StreamName, _ later: SampleStream) -> [String] {
    var words: [String] = []
    if let rows = later.rows, rows.indices.contains(to) {
      let previous = earlier.rows.flatMap { $0.indices.contains(from) ? $0[from] : nil }
      if earlier.rows == nil || previous != rows[to] || earlier.latency != later.latency { words.append(pairing(rows[to], later)) }
    }
    if let alignment = after.alignments.first(where: { $0.stream == name }), !before.alignments.contains(where: { $0.stream == old }),
      earlier.spec.clock != later.spec.clock || alignment.latency != nil
    {
      var shift = alignment.offset.map { "its clock is shifted by \(Self.milliseconds($0)) (\(alignment.method))" } ?? alignment.method
      if let latency = alignment.latency { shift += ", and its latency of \(Self.milliseconds(latency)) is subtracted" }
      words.append(shift)
    }
    if let a = earlier.spec.raster, let b = later.spec.raster, a != b { words.append(grid(a, b)) }
    if earlier.spec.type != later.spec.type || earlier.spec.unit != later.spec.unit {
      words.append(
        "from \(earlier.spec.unit) as \(earlier.spec.type.rawValue) to \(later.spec.unit) as \(later.spec.type.rawValue)")
    }
    if earlier.poseChange != later.poseChange || earlier.spec.kind.poseFrame != later.spec.kind.poseFrame {
      var (first, second) = (RowReader(before), RowReader(after))
      if let pose = try? first.pose(old, at: from), let changed = try? second.pose(name, at: to) {
        words.append("from [\(Self.numbers(pose))] to [\(Self.numbers(changed))]")
      }
      if let a = earlier.spec.kind.poseFrame, let b = later.spec.kind.poseFrame, a.cameraAxes != b.cameraAxes {
        words.append("camera axes from \(a.cameraAxes.rawValue) to \(b.cameraAxes.rawValue)")
      }
    }
    return words
  }

  private func pairing(_ row: Row?, _ stream: SampleStream) -> String {
    guard let row else { return "no sample is near enough to the row" }
    let number = stream.sourceIndex[row.sample]
    if row.isBlend {
      return
        "between samples \(number) and \(stream.sourceIndex[row.next]), weights \(1 - row.weight) and \(row.weight)"
    }
    let delay = stream.delay(of: row, at: after.frames.timestamps[to])
    let distance =
      delay == 0 ? "at the row's time" : "\(Self.milliseconds(abs(delay))) \(delay > 0 ? "after" : "before") the row"
    return "sample \(number), \(distance)"
  }

  /// Returns the change of a grid of pixels in words: rotated, cropped or padded, resized, or a mixture.
  private func grid(_ a: Raster, _ b: Raster) -> String {
    let map = b.rasterFromFull.after(a.rasterFromFull.inverse)
    let sizes = "from \(a.size) to \(b.size)"
    func isNear(_ x: Double, _ y: Double) -> Bool { abs(x - y) < 1e-9 * max(1, abs(y)) }
    if isNear(map.xx, 0), isNear(map.yy, 0) { return "rotated by \(map.xy < 0 ? 90 : 270) degrees clockwise, \(sizes)" }
    if map.xx < 0 { return "rotated by 180 degrees" }
    let (x, y) = (-map.x0 / map.xx, -map.y0 / map.yy)
    let box = "the box [\([x, y, Double(b.size.width) / map.xx, Double(b.size.height) / map.yy].map(Self.number).joined(separator: ", "))]"
    let isScaled = !isNear(map.xx, 1) || !isNear(map.yy, 1)
    let isWhole =
      isNear(x, 0) && isNear(y, 0) && isNear(map.xx * Double(a.size.width), Double(b.size.width))
      && isNear(map.yy * Double(a.size.height), Double(b.size.height))
    if isWhole { return "resized \(sizes)" }
    return isScaled ? "\(box) of it, resized \(sizes)" : "\(box) of it, \(sizes)"
  }

  private static func number(_ value: Double) -> String { JSONValue.number((value * 1000).rounded() / 1000).canonicalText }

  private static func numbers(_ pose: Pose) -> String { pose.floats.map { String(format: "%.6g", Double($0)) }.joined(separator: ", ") }

  private static func milliseconds(_ nanoseconds: Int64) -> String {
    JSONValue.number(Double(nanoseconds) / 1e6).canonicalText + " ms"
  }
}
