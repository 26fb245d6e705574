import Evidence
import Foundation
import Hosts
import Model
import Steps

/// Loads the steps in Python that a pipeline names, so that it is known what they read and make before any take is opened.
///
///     let pipeline = try ProgramLoader(folder: "/home/ann/pipelines", limits: limits).load(pipeline)
package struct ProgramLoader {
  /// The folder of the pipeline file, from which paths are.
  let folder: String
  /// The interpreter, if one is named.
  let interpreter: String?
  let limits: IsolationLimits

  package init(folder: String, interpreter: String? = nil, limits: IsolationLimits = IsolationLimits()) {
    (self.folder, self.interpreter, self.limits) = (Directory.absolute(folder), interpreter, limits)
  }

  /// Returns the pipeline with the description that its reader names, with what its steps declare, and the processes that call them; any other pipeline
  /// unchanged.
  ///
  /// - Throws: `PipelineFileError` for a description with a mistake, for a step that is not there or not as it was recorded, `StepMistake` for one that
  ///   cannot be loaded.
  package func load(_ pipeline: Pipeline) throws -> Pipeline {
    var pipeline = pipeline
    if case .one(let reader as any DescribedReader) = pipeline.readers { pipeline.readers = .one(try described(reader)) }
    let steps = pipeline.transforms.enumerated().compactMap { index, transform in
      (transform as? any ProgrammedTransform).map { (index, $0) }
    }
    if steps.isEmpty { return pipeline }
    // What was recorded is not run where it is another one now.
    for (index, step) in steps { try checkUnchanged(step, "transforms[\(index)].\(Self.name(of: step))") }
    let programs = try steps.map { index, step in
      StepHosts.Program(
        key: step.key, file: try file(step.file, "transforms[\(index)].\(Self.name(of: step)).file"), function: step.function,
        options: .object(step.options), files: try step.files.map { try file($0, "transforms[\(index)].\(Self.name(of: step)).files") })
    }
    // Before the steps may read them.
    var inputs: [String: Pipeline.StepInputFile] = [:]
    for ((index, step), program) in zip(steps, programs) {
      for file in program.files.map(Self.resolved) where inputs[file] == nil {
        guard let stamp = try? FileStamp.of(file), let digest = try? SealedFile.digest(of: file).digest else {
          throw PipelineFileError("transforms[\(index)].\(Self.name(of: step)).files", "\(file) cannot be read")
        }
        inputs[file] = Pipeline.StepInputFile(stamp: stamp, digest: digest)
      }
    }
    let hosts = StepHosts(try Interpreter(interpreter), programs, memory: limits.memory, seconds: limits.seconds)
    let declared = try hosts.describe()
    var transforms = pipeline.transforms
    for ((index, step), (program, json)) in zip(steps, zip(programs, declared)) {
      transforms[index] = try recording(step, program, inputs, json, "transforms[\(index)].\(Self.name(of: step))")
    }
    var loaded = Pipeline(readers: pipeline.readers, join: pipeline.join, transforms: transforms, writer: pipeline.writer)
    (loaded.hosts, loaded.folder) = (hosts, folder)
    loaded.stepInputs = inputs
    do {
      try loaded.writer.check(transforms)
    } catch let error as OptionError {
      throw PipelineFileError("writer.\(type(of: loaded.writer).name).\(error.option)", error.message)
    }
    return loaded
  }

  private func described(_ reader: any DescribedReader) throws -> any DescribedReader {
    guard let name = reader.descriptionFile else { return reader }
    let path = "reader.description"
    let file = try name.hasPrefix("/") ? name : self.file(name, path)
    guard let text = FileManager.default.contents(atPath: file) else { throw PipelineFileError(path, "\(file) cannot be read") }
    var reader = reader
    do {
      try reader.describe(String(decoding: text, as: UTF8.self))
    } catch let error as PipelineFileError {
      throw PipelineFileError(path, "\(file): \(error)")
    }
    return reader
  }

  private static func name(of step: any ProgrammedTransform) -> String { type(of: step).name }

  private func place(of name: String) -> String { URL(fileURLWithPath: folder + "/" + name).standardizedFileURL.path }

  private func file(_ name: String, _ path: String) throws -> String {
    let file = place(of: name)
    guard (try? Directory.kind(at: file, followingLinks: true)) == .file else { throw PipelineFileError(path, "there is no file \(file)") }
    return file
  }

  /// The file behind links.
  static func resolved(_ path: String) -> String { URL(fileURLWithPath: path).resolvingSymlinksInPath().path }

  /// Throws `PipelineFileError` where a file differs from what was recorded of it.
  private func checkUnchanged(_ step: any ProgrammedTransform, _ path: String) throws {
    guard let recorded = step.recorded?["digests"]?.object else { return }
    if let other = ([step.file] + step.files).first(where: { recorded[RelativePath.plain($0)] == nil }) {
      throw PipelineFileError("\(path).recorded", "the digest of \(other) is missing")
    }
    let changed = recorded.keys.sorted().filter { name in
      (try? SealedFile.digest(of: Self.resolved(place(of: name))).digest.description) != recorded[name]?.string
    }
    if let first = changed.first, (try? Directory.kind(at: place(of: first), followingLinks: true)) != .file {
      throw PipelineFileError("\(path).recorded", "the step cannot be called as it was recorded: there is no file \(place(of: first))")
    }
    if !changed.isEmpty { throw Self.isAnother(changed, path) }
  }

  private static func isAnother(_ changed: [String], _ path: String) -> PipelineFileError {
    PipelineFileError(
      "\(path).recorded",
      "the step is not the recorded one\(changed.isEmpty ? "" : ": \(changed.joined(separator: ", ")) changed")"
    )
  }

  /// Returns the step with what its file declares, and the digests of all that was loaded, by paths from the pipeline's folder.
  private func recording<Programmed: ProgrammedTransform>(
    _ step: Programmed, _ program: StepHosts.Program, _ inputs: [String: Pipeline.StepInputFile], _ json: JSONValue, _ path: String
  ) throws -> Programmed {
    var found = json.object ?? [:]
    if let mistake = Programmed.mistake(in: found) { throw PipelineFileError(path, "\(step.file): \(mistake)") }
    let beside = step.file.split(separator: "/").dropLast().joined(separator: "/")
    var digests: [String: JSONValue] = [:]
    for (name, digest) in found["digests"]?.object ?? [:] { digests[RelativePath.plain("\(beside)/\(name)")] = digest }
    for (name, file) in zip(step.files, program.files) {
      digests[RelativePath.plain(name)] = inputs[Self.resolved(file)].map { .string($0.digest.description) }
    }
    found["digests"] = .object(digests)
    if let recorded = step.recorded, recorded != found {
      let before = recorded["digests"]?.object ?? [:]
      throw Self.isAnother(Set(before.keys).union(digests.keys).filter { before[$0] != digests[$0] }.sorted(), path)
    }
    var step = step
    step.recorded = found
    return step
  }
}

/// Paths from the folder of a pipeline file.
package enum RelativePath {
  /// The path without empty and superfluous parts: `../` stays at its beginning alone.
  package static func plain(_ path: String) -> String {
    var parts: [Substring] = []
    for part in path.split(separator: "/") where part != "." {
      if part == "..", let last = parts.last, last != ".." { parts.removeLast() } else { parts.append(part) }
    }
    return parts.joined(separator: "/")
  }

  /// How many folders above its own a path reaches.
  static func height(_ path: String) -> Int { plain(path).split(separator: "/").prefix { $0 == ".." }.count }
}
