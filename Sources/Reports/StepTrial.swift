package import Evidence
import Foundation
import Media
package import Model
package import Runs
package import Steps
import Transforms

/// A step in Python, called for some rows of a take, for whoever writes it: what it reads and gives, and how long it takes. Nothing is written.
///
///     let trial = try StepTrial(of: "width.py", in: nil, take: "takes/a", rows: 0..<64)
///     for element in trial.elements { print(element.name, element.mean) }
package struct StepTrial {
  /// A step, and the pipeline in which it is called.
  package struct Request {
    /// The file with the step.
    package var step: String
    package var function: String?
    /// Options of the step, in place of the pipeline's.
    package var options: [String: JSONValue]?
    /// The pipeline file with the step; without one, it comes after `align`.
    package var pipeline: String?
    package var python: String?
    package var limits = IsolationLimits()
    package var keys: DeviceKeys?
    /// The rows, of which there may be fewer; those of the first block by default.
    package var rows: Range<Int>?

    package init(step: String) { self.step = step }
  }

  /// A stream that the step reads, and the rows in which it has a sample.
  package struct Input {
    package var name: StreamName
    package var shape: [Int]
    /// NumPy's name of the type.
    package var type: String
    package var unit: String
    package var valid: Int
  }

  /// The valid values of an element of a vector.
  package struct Element {
    package var name: String
    package var least: Float
    package var mean: Float
    package var most: Float
  }

  /// How messages name the step: `width of steps/width.py`.
  package private(set) var title = ""
  package private(set) var take = ""
  /// The rows that are shown, and the number of those of the take.
  package private(set) var rows = 0..<0
  package private(set) var count = 0
  /// The rows for which the step was called: whole blocks from the first on, as in a run.
  package private(set) var called = 0
  package private(set) var inputs: [Input] = []
  /// The stream that the step makes, of which `valid` rows have a value.
  package private(set) var output: (name: StreamName, spec: StreamSpec, valid: Int)?
  package private(set) var elements: [Element] = []
  /// Whether the step keeps each of the rows, and the reason for which the others are dropped.
  package private(set) var kept: (isKept: [Bool], reason: String)?
  package private(set) var labels: [String: JSONValue]?
  /// Seconds in which the step was called, and those to read its streams and results.
  package private(set) var secondsOfStep = 0.0
  package private(set) var secondsOfReading = 0.0
  /// What the step printed.
  package private(set) var said: String?
  package private(set) var preview = ContactSheet()

  /// Calls the step. Throws `UsageError` for a request that fits no take, `PipelineFileError`, `StepMistake`, `TakeFailure`, `Rejection`.
  package init(_ request: Request, take path: String) throws {
    let (before, step) = try Self.pipeline(request, take: path)
    let search = TakeSearch(inputs: [path], pipeline: before)
    guard let found = search.found.first, search.found.count == 1 else {
      throw UsageError(search.found.isEmpty ? search.unmatchedInWords : "\(path) has \(counted(search.found.count, "take")); name one")
    }
    let opened = Take(
      id: found.id, location: found.location, inputs: try found.reader.inputs(of: found.location), duplicateFolder: found.duplicateFolder)
    var context = RunContext(keys: request.keys)
    guard let source = try before.open(opened, with: found.reader, in: context).first?.get() else {
      throw UsageError("\(path) has no episode at that place of the pipeline")
    }
    (take, count, title) = (source.id.text, source.frames.count, step.title)
    let wanted = request.rows ?? 0..<step.block
    rows = wanted.clamped(to: 0..<count)
    if rows.isEmpty {
      throw UsageError("\(take) has the rows 0 to \(count - 1); --rows \(wanted.lowerBound):\(wanted.upperBound) is none of them")
    }

    // A step that keeps rows would be called for all of them.
    context.isPlan = true
    let episode = try step.apply(to: source, in: context)
    guard let pass = episode.stepPasses.last else { throw TakeFailure(.internal, "\(title) was not called") }
    try call(pass, episode, source)
    secondsOfStep = pass.seconds
    said = episode.stepLease?.takeSaid()
  }

  /// The pipeline before the step, and the step as it was loaded.
  private static func pipeline(_ request: Request, take path: String) throws -> (before: Pipeline, step: Python) {
    let step = Directory.absolute(request.step)
    var folder = URL(fileURLWithPath: step).deletingLastPathComponent().path
    var whole: Pipeline
    if let path = request.pipeline {
      guard let data = FileManager.default.contents(atPath: path) else { throw UsageError("the pipeline file \(path) cannot be read") }
      folder = URL(fileURLWithPath: Directory.absolute(path)).deletingLastPathComponent().path
      whole = try PipelineFile.parse(String(decoding: data, as: UTF8.self))
    } else {
      let name = JSONValue.string(URL(fileURLWithPath: step).lastPathComponent)
      let own: JSONValue = ["version": 1, "transforms": [["align": [:]], ["python": ["file": name]]]]
      whole = try PipelineFile.parse(own.canonicalText)
    }
    var transforms = whole.transforms
    if let join = whole.join {
      let id = TakeSearch(inputs: [path], readers: whole.candidates).found.first?.id ?? ""
      transforms = Self.transforms(transforms, of: join.member(of: id))
    }
    let index = transforms.firstIndex { transform in
      guard let python = transform as? Python else { return false }
      let isNamed = request.pipeline == nil || request.function == nil || python.function == nil || python.function == request.function
      return isNamed && URL(fileURLWithPath: folder + "/" + python.file).standardizedFileURL.path == step
    }
    guard let index, var python = transforms[index] as? Python else {
      let function = request.function.map { " and function: \($0)" } ?? ""
      throw UsageError("\(request.pipeline ?? "") has no step python with this file\(function); name it there, or leave --pipeline out")
    }
    python.function = request.function ?? python.function
    python.options = request.options ?? python.options
    whole = Pipeline(readers: whole.readers, join: nil, transforms: transforms.prefix(index) + [python], writer: whole.writer)
    let loaded = try ProgramLoader(folder: folder, interpreter: request.python, limits: request.limits).load(whole)
    guard let last = loaded.transforms.last as? Python else { throw TakeFailure(.internal, "the step was not loaded") }
    var before = Pipeline(readers: loaded.readers, join: nil, transforms: loaded.transforms.dropLast(), writer: loaded.writer)
    before.hosts = loaded.hosts
    return (before, last)
  }

  /// The steps for the take of one phone, whose streams have no member's names: those of other members are left out, where it is known which
  /// phone it is.
  private static func transforms(_ transforms: [any Transform], of member: String?) -> [any Transform] {
    transforms.compactMap { transform in
      guard let names = transform.namedMembers, names.option == "member" else { return transform }
      guard member == nil || names.names == [member] else { return nil }
      if var own = transform as? Python {
        own.member = nil
        return own
      }
      guard var own = transform as? any MemberTransform else { return transform }
      own.member = nil
      return own
    }
  }

  /// Calls the step for the rows, and takes its results and the pictures.
  private mutating func call(_ pass: StepPass, _ episode: Episode, _ source: Episode) throws {
    let pictured = ContactSheet.spread(rows)
    var drawing = try TrialDrawing(pass.declared, source, rows: rows, pictured: pictured)
    let started = ContinuousClock.now
    if let name = pass.declared.writes.map({ StreamName($0.name) }), let stream = episode.streams[name] {
      var (valid, bytes): (Int, [UInt8]) = (0, [])
      var sums: [(least: Float, sum: Double, most: Float)] = Array(repeating: (.infinity, 0, -.infinity), count: stream.spec.elements.count)
      var cursor = try stream.source.makeCursor(SampleRequest())
      for row in rows {
        var isThere = false
        if let sample = stream.rows?[row]?.sample {
          do {
            try cursor.read(sample, into: &bytes)
            isThere = true
          } catch is SampleFailure {}
        }
        if !stream.spec.kind.isRaster {
          let values = isThere ? bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) } : []
          isThere = isThere && values.allSatisfy(\.isFinite)
          if isThere {
            for (index, value) in values.enumerated() where sums.indices.contains(index) {
              sums[index] = (min(sums[index].least, value), sums[index].sum + Double(value), max(sums[index].most, value))
            }
          }
          drawing.add(isThere ? values : [])
        } else if pictured.contains(row) {
          drawing.add(isThere ? bytes : nil, stream.spec, of: row)
        }
        valid += isThere ? 1 : 0
      }
      output = (name, stream.spec, valid)
      if valid > 0 {
        elements = zip(stream.spec.elements, sums).map {
          Element(name: $0, least: $1.least, mean: Float($1.sum / Double(valid)), most: $1.most)
        }
      }
    }
    try pass.advance(through: rows.upperBound - 1)
    secondsOfReading = max(0, started.duration(to: .now) / .seconds(1) - pass.seconds)
    called = pass.rowsCalled
    switch pass.declared.kind {
    case .keep:
      let isKept = rows.map { pass.isKept[$0] }
      kept = (isKept, pass.declared.reason ?? "dropped")
      drawing.mark(pictured.map { pass.isKept[$0] })
    case .labels: labels = pass.labels
    case .rows: break
    }
    inputs = pass.declared.reads.map { name in
      let (shape, type, unit) = pass.shape(of: StreamName(name))
      return Input(name: StreamName(name), shape: shape, type: type, unit: unit, valid: pass.validRows[StreamName(name)] ?? 0)
    }
    preview = drawing.sheet(take: take)
  }
}
