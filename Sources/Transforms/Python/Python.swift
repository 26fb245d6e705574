package import Evidence
import Foundation
import Hosts
package import Model
package import Steps

/// Calls a function of the user's, written in Python, for one block of rows after the other: it makes a stream, chooses rows, or labels the take.
///
///     - python: {file: steps/width.py, function: width, options: {tag-size: 0.016}, files: [calibration.json], block: 64}
///
/// The function runs in a `StepHost`. `recorded` is what its file declares, and the digests of all that was loaded; the pipeline's digest covers it.
package struct Python: ProgrammedTransform {
  package static let name = "python"
  package static let summary = "Calls a step of your own, written in Python, on blocks of rows; see docs/steps.md"

  @StepOption("file with the step, relative to the pipeline file") package var file = ""
  @StepOption("function or class in the file; can be left out where it has one step") package var function: String? = nil
  @StepOption("values that the step gets as they are") package var options: [String: JSONValue] = [:]
  @StepOption("files that the step reads, relative to the pipeline file; their bytes count as part of the step") package var files:
    [String] = []
  @StepOption("rows that the step gets at once", 1...1024) package var block = 64
  @StepOption("member of a take of several phones, whose streams the step reads and writes by their names without the member's")
  package var member: String? = nil
  @StepOption(
    "what the file declares, and SHA-256 of all that was loaded; Takeset writes it, and a pipeline file that has it insists on it")
  package var recorded: [String: JSONValue]? = nil

  package static var needsAligned: Bool { true }
  package var namedMembers: (option: String, names: [String])? { member.map { ("member", [$0]) } }
  package var changesImages: Bool {
    if case .image = recorded.flatMap({ StepDeclaration($0) })?.writes { true } else { false }
  }

  package init() {}

  /// Throws `OptionError` for a missing file, and for paths that are not relative.
  package func validate() throws {
    if file.isEmpty { throw OptionError("file", "name the Python file with the step") }
    for (option, paths) in [("file", [file]), ("files", files)] {
      if let absolute = paths.first(where: { $0.hasPrefix("/") || $0.isEmpty }) {
        throw OptionError(option, "\"\(absolute)\" is no relative path; it is looked for from the folder of the pipeline file")
      }
    }
  }

  package static func mistake(in declared: [String: JSONValue]) -> String? {
    guard let declared = StepDeclaration(declared) else { return "it declares what this version of Takeset does not know" }
    return declared.mistake
  }

  /// What the step is called by in messages to a host: steps that differ in nothing share it.
  package var key: String { Digest.of(optionValues.canonicalBytes).description }

  private var optionValues: JSONValue {
    [
      "file": .string(file), "function": JSONValue(function), "options": .object(options), "block": JSONValue(block),
    ]
  }

  /// How messages name the step: `width of steps/width.py`.
  package var title: String {
    let function = function ?? recorded?["function"]?.string
    return (function.map { "\($0) of " } ?? "") + file
  }

  /// Adds the stream that the step makes, or keeps the rows that it chooses, for which it is called at once.
  ///
  /// - Throws: `TakeFailure` for a take without a stream that the step reads; `Rejection` where it keeps no row.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    guard let recorded, let declared = StepDeclaration(recorded) else {
      throw TakeFailure(.internal, "the step \(title) was not loaded")
    }
    var changed = episode
    if let member, !episode.has(member) {
      // What blurs faces must not be left out because the take of that phone is by itself.
      guard episode.streams.values.contains(where: { $0.spec.member != nil }) else {
        throw TakeFailure(
          .streamMissing, "\(title) is for \(member), and the take is of one phone by itself; leave it out, or complete its group")
      }
      changed.noteLacking(member, Self.self)
      return changed
    }
    let lease = episode.stepLease
    if let environment = lease?.environment { changed.details["python"] = environment }
    let reads = try declared.reads.map { try StepInput(StreamName($0), of: member, in: episode, for: title) }
    var output: (name: StreamName, spec: StreamSpec)?
    if let writes = declared.writes {
      output = (StreamName(writes.name).of(member), try writes.spec(in: episode, of: member, reads, for: title))
    }
    let pass = StepPass(self, declared, of: episode, reads: reads, output: output?.spec, lease: lease)
    // What it reads is read once, also where it is stored.
    for input in reads {
      guard let stream = episode.streams[input.stream], stream.spec.kind.isRaster else { continue }
      let shared = SharedInput(stream, pass)
      changed.streams[input.stream]?.source = shared
      pass.listen { [weak shared] name, samples in if name == input.name { shared?.add(samples) } }
    }
    changed.stepPasses.append(pass)
    if let output {
      changed.streams[output.name] = Self.stream(output.name, output.spec, of: pass, in: episode)
      // The step is not called for the row after the last one.
      changed.following?.rows[output.name] = nil
    }
    guard declared.kind == .keep else { return changed }
    // A plan shows the most that there can be.
    if context.isPlan { return changed }
    try pass.finish()
    let kept = pass.isKept.indices.filter { pass.isKept[$0] }
    let reason = declared.reason ?? "dropped"
    if kept.isEmpty {
      throw Rejection(.python, "\(reason): \(title) keeps none of \(counted(episode.frames.count, "row"))", episode: changed)
    }
    return changed.keeping(kept, dropping: reason)
  }

  /// The stream that a step makes, with one sample for each row. Where it replaces another one, its samples have the times and numbers of the
  /// samples that they were made of.
  private static func stream(_ name: StreamName, _ spec: StreamSpec, of pass: StepPass, in episode: Episode) -> SampleStream {
    let frames = episode.frames
    var (times, numbers) = (frames.timestamps, frames.sourceIndex)
    var rows = times.indices.map { Optional(Row($0)) }
    let replaced = episode.streams[name]
    if let replaced, let old = replaced.rows {
      for (row, sample) in old.enumerated() {
        guard let sample else {
          rows[row] = nil
          continue
        }
        times[row] = replaced.timestamps[sample.nearest]
        numbers[row] = replaced.sourceIndex[sample.nearest]
      }
      // Where there is none, any time in order does.
      for row in times.indices.dropFirst() where times[row] < times[row - 1] { times[row] = times[row - 1] }
    }
    var stream = SampleStream(spec: spec, source: StepOutput(pass, spec), timestamps: times, sourceIndex: numbers, rows: rows)
    stream.latency = replaced?.latency ?? 0
    stream.intrinsicsTrack = replaced?.intrinsicsTrack
    return stream
  }
}

/// What the file of a step declares.
package struct StepDeclaration: Sendable {
  package enum Kind: String, Sendable { case rows, keep, labels }

  package enum Output: Sendable {
    case vector(name: String, elements: [String], unit: String)
    case image(name: String, size: ImageSize?)
    case mask(name: String, size: ImageSize?)

    package var name: String {
      switch self {
      case .vector(let name, _, _), .image(let name, _), .mask(let name, _): name
      }
    }
  }

  package var kind: Kind
  package var reads: [String]
  package var writes: Output?
  package var reason: String?

  /// `nil` for anything else than a step's declaration.
  package init?(_ json: [String: JSONValue]) {
    guard let kind = json["kind"]?.string.flatMap({ Kind(rawValue: $0) }), let reads = json["reads"]?.array?.compactMap(\.string) else {
      return nil
    }
    (self.kind, self.reads, reason) = (kind, reads, json["reason"]?.string)
    if let writes = json["writes"] {
      guard let name = writes["name"]?.string else { return nil }
      let sides = writes["size"]?.array?.compactMap { $0.integer.flatMap { Int(exactly: $0) } }
      let size = sides.flatMap { $0.count == 2 ? ImageSize(width: $0[0], height: $0[1]) : nil }
      switch writes["kind"]?.string {
      case "vector":
        self.writes = .vector(
          name: name, elements: writes["elements"]?.array?.compactMap(\.string) ?? [], unit: writes["unit"]?.string ?? "1")
      case "image": self.writes = .image(name: name, size: size)
      case "mask": self.writes = .mask(name: name, size: size)
      default: return nil
      }
    }
    if (kind == .rows) != (writes != nil) { return nil }
  }

  /// The mistake in what is declared, as a sentence; `nil` without one.
  package var mistake: String? {
    if reads.isEmpty { return "it reads no stream; name at least one in reads" }
    if let bad = reads.first(where: { !StreamName.isName($0) || $0 == StreamName.imu.rawValue }) {
      return "it reads \"\(bad)\", which is no stream with a value for each row"
    }
    if Set(reads).count < reads.count { return "it reads a stream twice" }
    if let reason, reason.isEmpty || !reason.utf8.allSatisfy({ StreamName.isName("a\(UnicodeScalar($0))") || $0 == UInt8(ascii: "-") }) {
      return "its reason \"\(reason)\" is no word of lowercase letters, digits and hyphens"
    }
    guard let writes else { return nil }
    if !StreamName.isName(writes.name) || StreamName(writes.name).isReserved {
      return
        "it writes \"\(writes.name)\"; a stream's name has lowercase letters, digits and underscores, begins with a letter, and is not one that datasets use for something else"
    }
    switch writes {
    case .vector(_, let elements, _):
      if elements.isEmpty || elements.count > 4096 { return "its vector \(writes.name) has \(elements.count) elements; expected 1 to 4096" }
      if Set(elements).count < elements.count || elements.contains(where: { $0.isEmpty || $0.contains(where: \.isWhitespace) }) {
        return "the elements of \(writes.name) need names that differ and have no spaces"
      }
    case .image(_, let size), .mask(_, let size):
      if let size, !(1...8192).contains(size.width) || !(1...8192).contains(size.height) {
        return "\(writes.name) has the size \(size); each side can have 1 to 8192 pixels"
      }
    }
    return nil
  }
}

extension StepDeclaration.Output {
  /// The description of the stream. Throws `TakeFailure` where the take has no image whose size it could have, or another kind of stream of
  /// that name.
  fileprivate func spec(in episode: Episode, of member: String?, _ reads: [StepInput], for title: String) throws -> StreamSpec {
    let name = StreamName(name).of(member)
    let old = episode.streams[name]?.spec
    let clock = episode.frames.clock
    var made: StreamSpec
    switch self {
    case .vector(_, let elements, let unit):
      var spec = StreamSpec(kind: .vector, type: .float32, shape: [elements.count], unit: unit, clock: clock)
      spec.elements = elements
      made = spec
    case .image(_, let size), .mask(_, let size):
      let isImage = if case .image = self { true } else { false }
      let base = old?.kind == .image ? old : reads.lazy.compactMap { episode.streams[$0.stream]?.spec }.first { $0.kind == .image }
      guard let target = size ?? base?.gridSize else {
        throw TakeFailure(.streamMissing, "\(title) writes \(name) without a size and reads no image whose size it could have")
      }
      let (kind, channels) = (isImage ? StreamKind.image : .segmentation, isImage ? 3 : 1)
      var spec = StreamSpec(
        kind: kind, type: .uint8, shape: [target.height, target.width, channels], unit: isImage ? base?.unit ?? "level" : "label",
        clock: clock)
      spec.raster = base?.raster.map { $0.size == target ? $0 : $0.applying(.resize(target)) }
      spec.rotationApplied = base?.rotationApplied
      made = spec
    }
    made.member = member ?? old?.member
    if episode.derived[name] != nil || old.map({ $0.kind != made.kind }) == true {
      throw TakeFailure(.nameTaken, "\(title) writes \(name), and the take has another kind of stream of that name")
    }
    return made
  }
}
