package import Evidence
import Foundation
package import Hosts
package import Model
import Steps
import Synchronization

/// The calls of one step over the rows of an episode, block after block, as far as they are needed. What it reads and what it makes is where the
/// host sees it, in shared memory, as long as somebody may ask for it.
///
/// `@unchecked Sendable`: `lock` guards all state but the images, which other threads take while the step is called for the next ones.
package final class StepPass: @unchecked Sendable {
  let episode: Episode
  package let declared: StepDeclaration
  private let step: Python
  let inputs: [StepInput]
  private let output: StreamSpec?
  private let lease: StepLease?
  private let lock = NSRecursiveLock()

  private var number: Int64?
  private var next = 0
  private var failure: (any Error)?
  private var readers: [StepInput.Reader] = []
  private var isFinished = false
  /// Numbers of a vector, row by row.
  private var numbers: [Float] = []
  /// Images of rows that may be asked for, and the rows for which it was called.
  private let images = Mutex<(samples: [Int: StepSample], end: Int)>(([:], 0))
  /// Whether the step keeps each row.
  package private(set) var isKept: [Bool] = []
  /// The labels of all blocks.
  package private(set) var labels: [String: JSONValue] = [:]
  /// Rows that had a sample, by the streams that the step reads.
  package private(set) var validRows: [StreamName: Int] = [:]
  /// Seconds in which the step was called.
  package private(set) var seconds = 0.0
  /// What gets each sample that the step reads.
  private var listeners: [(StreamName, [Int: StepSample]) -> Void] = []

  init(_ step: Python, _ declared: StepDeclaration, of episode: Episode, reads: [StepInput], output: StreamSpec?, lease: StepLease?) {
    (self.step, self.declared, self.episode, inputs, self.output, self.lease) = (step, declared, episode, reads, output, lease)
  }

  deinit { if failure == nil { abandon() } }

  /// Lets the host forget the pass.
  private func abandon() {
    if let number, !isFinished, let host = lease?.held { _ = try? host.call(["do": "end", "pass": .integer(number)]) }
  }

  private func locked<Result>(_ body: () throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body()
  }

  // MARK: Results

  /// Calls the step for all rows that are left.
  package func finish() throws {
    try locked {
      try advance(through: episode.frames.count - 1, dropping: .max)
      guard let number, !isFinished, let host = try lease?.host() else { return }
      isFinished = true
      try run { _ = try host.call(["do": "end", "pass": .integer(number)]) }
    }
  }

  /// The numbers of a row.
  func vector(at row: Int, width: Int) throws -> ArraySlice<Float> {
    try locked {
      try advance(through: row)
      return numbers[(row * width)..<((row + 1) * width)]
    }
  }

  /// The image of a row. Those of earlier rows that nobody holds are gone then; to ask for one again begins anew.
  func image(at row: Int) throws -> StepSample {
    if let image = images.withLock({ $0.samples[row] }) { return image }
    return try locked {
      if row < next, images.withLock({ $0.samples[row] }) == nil { restart() }
      // Before the next block needs memory.
      if row >= next { dropImages { _ in false } }
      try advance(through: row, dropping: row)
      guard let image = images.withLock({ $0.samples[row] }) else {
        throw TakeFailure(.internal, "\(step.title) made no image for row \(row)")
      }
      return image
    }
  }

  /// Holds the images of rows, until `release`.
  func hold(_ rows: [Int]) throws {
    for row in rows {
      // Another thread may drop it in between.
      while !images.withLock({ images in
        images.samples[row]?.uses += 1
        return images.samples[row] != nil
      }) { _ = try image(at: row) }
    }
  }

  func release(_ rows: [Int]) {
    images.withLock { images in
      for row in rows {
        images.samples[row]?.uses -= 1
        if images.samples[row]?.uses == 0, row < images.end - 1 { images.samples[row] = nil }
      }
    }
  }

  /// Drops the images that nobody holds, except of some rows.
  private func dropImages(except isKept: (Int) -> Bool) {
    images.withLock { images in images.samples = images.samples.filter { $0.value.uses > 0 || isKept($0.key) } }
  }

  /// Calls the step as far as a row, if it was not yet.
  ///
  /// - Parameter first: The first row of which the image may still be asked for.
  package func advance(through row: Int, dropping first: Int = 0) throws {
    try locked {
      if let failure { throw failure }
      guard row < episode.frames.count else {
        throw TakeFailure(.internal, "\(step.title) was asked for row \(row) of \(episode.frames.count)")
      }
      do {
        while next <= row {
          try callForNextBlock()
          if first > 0 { dropImages { $0 >= first } }
        }
      } catch {
        failure = error
        throw error
      }
    }
  }

  /// The number of rows for which it was called.
  package var rowsCalled: Int { locked { next } }

  /// The shape of a row of a stream that it reads, the name of its type in NumPy, and its unit.
  package func shape(of name: StreamName) -> (shape: [Int], type: String, unit: String) {
    let reader = locked { readers.first { $0.name == name } }
    let stream = inputs.first { $0.name == name }?.stream ?? name
    let unit = (episode.streams[stream]?.spec ?? episode.derived[stream]?.spec)?.unit
    let types = ["|u1": "uint8", "<u2": "uint16", "<f4": "float32"]
    return (reader?.shape ?? [], reader.map { types[$0.type] ?? $0.type } ?? "", unit ?? "1")
  }

  /// Whether this command calls steps.
  var canRun: Bool { lease != nil }

  /// Adds a listener for the samples that are read, block by block.
  func listen(_ listener: @escaping (StreamName, [Int: StepSample]) -> Void) { locked { listeners.append(listener) } }

  // MARK: Calls

  private func restart() {
    abandon()
    (number, next, isFinished, numbers, isKept) = (nil, 0, false, [], [])
    (labels, readers, validRows) = ([:], [], [:])
    dropImages { _ in false }
    images.withLock { $0.end = 0 }
  }

  /// The arrays of blocks: those that the step reads, and its results, to which alone it may write.
  private struct Layout {
    var streams: [StepPlace]
    var valid: [StepPlace]
    var times: StepPlace
    var inputBytes: Int
    var result: StepPlace?
    var mask: StepPlace
    var resultBytes: Int
  }

  /// The layout of blocks of so many rows.
  private func layout(of rows: Int) throws -> Layout {
    var bytes = 0
    func add(_ shape: [Int], _ type: String) throws -> StepPlace {
      let place = StepPlace(offset: bytes, shape: shape, type: type)
      // An image has at most 8192 x 8192 pixels, and a block 1024 rows.
      let size = shape.reduce(rows * (Int(type.suffix(1)) ?? 1), *)
      guard size <= 1 << 34, bytes <= 1 << 35 else {
        throw TakeFailure(.memoryLimit, "\(step.title): a block of \(rows) rows would take \(size >> 20) MiB; give it a smaller block")
      }
      bytes = (bytes + size + 63) & ~63
      return place
    }
    let streams = try readers.map { try add($0.shape, $0.type) }
    let valid = try readers.map { _ in try add([], "|b1") }
    let times = try add([], "<i8")
    let inputBytes = bytes
    bytes = 0
    let result = try output.map { try add($0.shape, $0.type == .float32 ? "<f4" : "|u1") }
    let mask = try add([], "|b1")
    return Layout(
      streams: streams, valid: valid, times: times, inputBytes: inputBytes, result: result, mask: mask, resultBytes: bytes)
  }

  /// Says of a failure whose step it is, and in which rows.
  private func run<Result>(_ body: () throws -> Result) throws -> Result {
    do {
      return try body()
    } catch let failure as StepHost.Failure {
      let last = min(next + step.block, episode.frames.count) - 1
      let place = "\(step.title), in rows \(next) to \(last): "
      switch failure.kind {
      case .invalid: throw TakeFailure(.pythonStepInvalid, place + failure.sentence)
      case .memory: throw TakeFailure(.memoryLimit, place + failure.sentence + "; raise --take-memory, or let it have smaller blocks")
      default: throw TakeFailure(.pythonStepFailed, place + failure.sentence)
      }
    } catch var failure as TakeFailure {
      lease?.isSound = false
      failure.message = "\(step.title): \(failure.message)"
      throw failure
    }
  }

  private func callForNextBlock() throws {
    guard let host = try lease?.host() else {
      throw TakeFailure(.internal, "\(step.title) has to run for this, and this command runs no steps")
    }
    if readers.isEmpty { readers = try inputs.map { try $0.makeReader(episode) } }
    let pass = number ?? host.nextPass()
    if number == nil {
      try run {
        _ = try host.call([
          "do": "begin", "pass": .integer(pass), "step": .string(step.key),
          "take": ["id": .string(episode.id.text), "reader": .string(episode.readerName)],
        ])
      }
      number = pass
    }
    let rows = next..<min(next + step.block, episode.frames.count)
    // All blocks of the pass have one layout, so that memory is used again.
    let layout = try layout(of: min(step.block, episode.frames.count))
    let (inputs, results) = (try host.memory.block(layout.inputBytes), try host.memory.block(layout.resultBytes))

    for index in readers.indices {
      let samples = try readers[index].read(rows, into: inputs, at: layout.streams[index].offset, valid: layout.valid[index].offset)
      validRows[readers[index].name, default: 0] += rows.indices.count {
        inputs.bytes[layout.valid[index].offset + $0 - rows.lowerBound] != 0
      }
      if !samples.isEmpty { for listener in listeners { listener(readers[index].name, samples) } }
    }
    let origin = episode.frames.timestamps[0]
    for (place, row) in rows.enumerated() {
      inputs.bytes.storeBytes(
        of: episode.frames.timestamps[row].since(origin), toByteOffset: layout.times.offset + 8 * place, as: Int64.self)
    }
    func named(_ places: [StepPlace]) -> JSONValue {
      .object(Dictionary(uniqueKeysWithValues: zip(readers, places).map { ($0.name.rawValue, $1.json(rows.count)) }))
    }
    var message: [String: JSONValue] = [
      "do": "block", "pass": .integer(pass), "rows": JSONValue(rows.count), "first": JSONValue(rows.lowerBound),
      "inputs": inputs.json, "streams": named(layout.streams), "valid": named(layout.valid), "time_ns": layout.times.json(rows.count),
      "results": results.json, "mask": layout.mask.json(rows.count),
    ]
    if let result = layout.result { message["result"] = result.json(rows.count) }
    let started = ContinuousClock.now
    let answer = try run { try host.call(.object(message)) }
    seconds += started.duration(to: .now) / .seconds(1)
    host.memory.note(answer, of: inputs)
    let isValid = rows.indices.map { results.bytes[layout.mask.offset + $0 - rows.lowerBound] != 0 }
    switch declared.kind {
    case .keep: isKept += isValid
    case .labels: labels.merge(answer["labels"]?.object ?? [:]) { $1 }
    case .rows:
      guard let output, let result = layout.result else { break }
      if output.kind.isRaster {
        images.withLock { images in
          for (place, row) in rows.enumerated() where images.samples[row] == nil {
            images.samples[row] = StepSample(
              block: results, offset: result.offset + place * output.sampleBytes, count: output.sampleBytes,
              failure: isValid[place] ? nil : SampleFailure(finding: Finding(.pythonAbsent, "\(step.title) gave no value for a row")))
          }
          images.end = rows.upperBound
        }
      } else {
        for index in 0..<(rows.count * output.elementCount) {
          let value = results.bytes.loadUnaligned(fromByteOffset: result.offset + 4 * index, as: Float.self)
          numbers.append(isValid[index / output.elementCount] && value.isFinite ? value : .nan)
        }
      }
    }
    next = rows.upperBound
  }
}

/// The place of an array in a block of shared memory.
private struct StepPlace {
  var offset: Int
  /// Shape of a row's value.
  var shape: [Int]
  /// NumPy's name of the type.
  var type: String

  /// The array of so many rows, for a message.
  func json(_ rows: Int) -> JSONValue {
    ["offset": JSONValue(offset), "shape": .array(([rows] + shape).map { JSONValue($0) }), "type": .string(type)]
  }
}

/// A sample in shared memory, or the reason why there is none.
package struct StepSample: Sendable {
  var block: SharedBlock
  var offset: Int
  var count: Int
  var failure: SampleFailure?
  var notes: [Finding] = []
  /// The blocks of rows that wait for it.
  var uses = 0

  func copy(into bytes: inout [UInt8]) throws {
    if let failure { throw failure }
    let sample = UnsafeRawBufferPointer(rebasing: block.bytes[offset..<(offset + count)])
    if bytes.count == count { bytes.withUnsafeMutableBytes { $0.copyMemory(from: sample) } } else { bytes = Array(sample) }
  }
}

/// A host for the steps of one take, which takes one when the first of them is called.
package final class StepLease: Sendable {
  private let hosts: StepHosts
  private let state = Mutex<(host: StepHost?, isSound: Bool, said: String)>((nil, true, ""))

  package init(_ hosts: StepHosts) { self.hosts = hosts }

  deinit { end() }

  /// Versions of Python, of NumPy and of the packages that the steps have imported.
  var environment: JSONValue? { hosts.environment }

  /// The host, if one was taken.
  var held: StepHost? { state.withLock { $0.host } }

  /// Whether the host can serve other takes.
  var isSound: Bool {
    get { state.withLock { $0.isSound } }
    set { state.withLock { $0.isSound = newValue } }
  }

  func host() throws -> StepHost {
    try state.withLock { state in
      if let host = state.host { return host }
      do {
        let host = try hosts.take()
        state.host = host
        return host
      } catch let mistake as StepMistake {
        throw TakeFailure(.pythonStepFailed, mistake.message)
      }
    }
  }

  /// Gives the host back for other takes, when no step is to be called any more.
  package func end() {
    let (host, isSound) = state.withLock { state in
      defer { state.host = nil }
      state.said += state.host?.takeSaid() ?? ""
      return (state.host, state.isSound)
    }
    if let host, isSound { hosts.give(host) }
  }

  /// What the steps of the take have printed; `nil` for nothing.
  package func takeSaid() -> String? {
    state.withLock { state in
      let said = state.said + (state.host?.takeSaid() ?? "")
      state.said = ""
      return said.isEmpty ? nil : said
    }
  }
}

extension Episode {
  /// The host of the take's steps in Python.
  package var stepLease: StepLease? {
    get { extensions[StepLease.self] }
    set { extensions[StepLease.self] = newValue }
  }

  /// The passes of its steps in Python, in order. They are to be finished before the take is: a step is called for all of its rows, whether or
  /// not all are stored.
  package var stepPasses: [StepPass] {
    get { extensions[[StepPass].self] ?? [] }
    set { extensions[[StepPass].self] = newValue }
  }
}
