import Datasets
package import Evidence
import Model
package import Steps

/// Pipeline files in YAML or JSON, and the default pipeline.
///
///     try PipelineFile.parse("{version: 1, reader: auto, transforms: [align, {resample: {rate: 10}}], writer: hdf5}")
package enum PipelineFile {
  /// The default pipeline: streams aligned to frames, images within 320x240, depth in meters, ARKit's camera axes, actions, a split by day,
  /// and checked hash chains of bundles. Takes of all formats then batch together.
  package static func defaultPipeline() throws -> Pipeline {
    try pipeline(from: [
      "version": 1, "reader": "auto",
      "transforms": [
        ["align": [:]], ["resize-image": ["width": 320, "height": 240]], ["resample-depth": ["unit": "m"]],
        ["pose-frame": ["axes": "arkit"]], ["actions": ["kind": "relative-6d"]], ["split": [:]], ["verify-hash-chain": [:]],
      ],
      "writer": ["hdf5": [:]],
    ])
  }

  /// Parses and checks a pipeline file. Throws `PipelineFileError` with path, line and column of the first mistake.
  package static func parse(_ text: String) throws -> Pipeline {
    guard let document = try YAMLDocument(text) else {
      throw PipelineFileError("", "the file is empty; expected version, reader, transforms, writer")
    }
    do {
      var value = document.value
      // The order of an object's members is that of the file, which a JSON value does not keep.
      func place(_ name: String) -> (Int, Int) { document.place(of: "join.members.\(name)") ?? (0, 0) }
      if case .object(var join) = value["join"] ?? .null, join["reference"] == nil,
        let first = join["members"]?.object?.keys.min(by: { place($0) < place($1) }), case .object(var members) = value
      {
        join["reference"] = .string(first)
        members["join"] = .object(join)
        value = .object(members)
      }
      return try pipeline(from: value)
    } catch var error as PipelineFileError {
      (error.line, error.column) = document.place(of: error.path) ?? (error.line, error.column)
      throw error
    }
  }

  /// The pipeline of a document that was parsed already. Throws `PipelineFileError`.
  static func pipeline(from document: JSONValue) throws -> Pipeline {
    guard case .object(let members) = document else {
      throw PipelineFileError("", "expected an object with version, reader, join, transforms, writer, found \(document.kind)")
    }
    let keys = ["version", "reader", "join", "transforms", "writer"]
    for key in members.keys.sorted() where !keys.contains(key) {
      if let step = Registry.transform(key) {
        throw PipelineFileError(key, "\(step.name) is a step; write it below transforms: as \"- \(step.name): {...}\"")
      }
      throw PipelineFileError(key, "unknown key; a pipeline has \(quoted(keys))\(suggestion(key, keys))")
    }
    guard let version = members["version"] else { throw PipelineFileError("version", "the key is missing; expected 1") }
    guard version.integer == 1 else { throw PipelineFileError("version", "expected 1, found \(version.kind)") }

    var transforms: [any Transform] = []
    switch members["transforms"] ?? [] {
    case .array(let steps):
      for (index, step) in steps.enumerated() {
        let (name, options, path) = try single(step, at: "transforms[\(index)]", kinds: Registry.transforms)
        guard let type = Registry.transform(name) else {
          throw unknown("step", name, at: path, among: Registry.transforms)
        }
        if type.occursOnce, transforms.contains(where: { Swift.type(of: $0) == type }) {
          throw PipelineFileError(path, "a pipeline can have this step once, and an earlier one is \(name) already")
        }
        if type.aligns, let earlier = transforms.first(where: { Swift.type(of: $0).needsAligned }) {
          throw PipelineFileError(path, "\(Swift.type(of: earlier).name) needs streams that are aligned; put \(name) before it")
        }
        transforms.append(try type.decoded(over: options, at: path))
      }
    case .null: break
    case let other:
      throw PipelineFileError("transforms", "expected a list of steps, found \(other.kind); start each step with a dash: \"- align: {}\"")
    }
    let writer = try writer(members["writer"] ?? .null)
    do {
      try writer.check(transforms)
    } catch let error as OptionError {
      throw PipelineFileError("writer.\(type(of: writer).name).\(error.option)", error.message)
    }
    let join = try members["join"].flatMap { $0 == .null ? nil : try Join($0) }
    for (index, step) in transforms.enumerated() {
      if join != nil, let option = step.optionOfOnePhone {
        throw PipelineFileError(
          "transforms[\(index)].\(type(of: step).name).\(option)", "it is for takes of one phone, and the pipeline joins those of several")
      }
      guard let (option, names) = step.namedMembers else { continue }
      let path = "transforms[\(index)].\(type(of: step).name).\(option)"
      guard let join else {
        throw PipelineFileError(
          path, "it names phones whose takes are joined, and the pipeline has no join; takes of one phone have no members")
      }
      if let other = names.first(where: { join.members[$0] == nil }) { throw join.unknown(other, path) }
    }
    return Pipeline(readers: try readers(members["reader"] ?? "auto"), join: join, transforms: transforms, writer: writer)
  }

  /// A reader that a pipeline may name: that of joined takes is made by a search.
  private static func named(_ name: String, _ options: JSONValue) throws -> any Reader {
    if name == JoinedTake.name {
      throw PipelineFileError("reader", "join is no reader; takes of several phones are joined by the member join of the pipeline")
    }
    return try reader(name, options: options)
  }

  private static func readers(_ value: JSONValue) throws -> Pipeline.Readers {
    switch value {
    case .string("auto"), .null: return .auto
    case .string(let name): return .one(try named(name, [:]))
    case .object(var members):
      guard let name = members.removeValue(forKey: "name")?.string else {
        throw PipelineFileError("reader.name", "expected the name of a reader")
      }
      return .one(try named(name, .object(members)))
    default: throw PipelineFileError("reader", "expected auto or {name: …}, found \(value.kind)")
    }
  }

  /// Returns the reader with these options; those that are absent keep their defaults. Throws `PipelineFileError`.
  package static func reader(_ name: String, options: JSONValue) throws -> any Reader {
    if name == JoinedTake.name { return try JoinedTake.decoded(over: options, at: "reader") }
    guard let type = Registry.reader(name) else {
      throw unknown("reader", name, at: "reader", among: Registry.readers)
    }
    return try type.decoded(over: options, at: "reader")
  }

  private static func writer(_ value: JSONValue) throws -> any Writer {
    if value == .null { return Registry.defaultWriter.init() }
    let (name, options, path) = try single(value, at: "writer", kinds: Registry.writers)
    guard let type = Registry.writers.first(where: { $0.name == name }) else {
      throw unknown("writer", name, at: path, among: Registry.writers)
    }
    return try type.decoded(over: options, at: path)
  }

  /// The one step in a value, which is a name alone or an object with the name as its only key.
  private static func single(
    _ value: JSONValue, at path: String, kinds: [any Step.Type]
  ) throws -> (name: String, options: JSONValue?, path: String) {
    switch value {
    case .string(let name): return (name, nil, "\(path).\(name)")
    case .object(let members) where members.count == 1:
      let (name, options) = members[members.startIndex]
      return (name, options == .null ? nil : options, "\(path).\(name)")
    case .object(let members):
      // A common mistake: options below the step's name but not indented further.
      if let step = kinds.first(where: { members[$0.name] == .some(.null) }) {
        let strays = members.keys.filter { $0 != step.name }.sorted()
        throw PipelineFileError(
          path,
          "\(quoted(strays)) \(strays.count == 1 ? "is" : "are") next to \(step.name), not inside it; indent by two more spaces, or write \"\(step.name): {\(strays.map { "\($0): ..." }.joined(separator: ", "))}\""
        )
      }
      let names = members.keys.sorted()
      throw PipelineFileError(
        path,
        "expected one step by name, such as {\(kinds[0].name): {}}, found \(names.isEmpty ? "none" : quoted(names)); start each step with its own dash"
      )
    default: throw PipelineFileError(path, "expected one step by name, such as {\(kinds[0].name): {}}, found \(value.kind)")
    }
  }

  private static func unknown(
    _ what: String, _ name: String, at path: String, among known: [any Step.Type]
  ) -> PipelineFileError {
    let names = known.map { $0.name }
    return PipelineFileError(path, "unknown \(what) \"\(name)\"; expected one of \(quoted(names))\(suggestion(name, names))")
  }

  private static func quoted(_ names: [String]) -> String { names.map { "\"\($0)\"" }.joined(separator: ", ") }

  private static func suggestion(_ word: String, _ names: [String]) -> String {
    Spelling.hint(for: word, among: names, inQuotes: true)
  }
}

extension Step {
  fileprivate static func decoded(over options: JSONValue?, at path: String) throws -> Self {
    try Options.decode(Self.self, over: options, at: path)
  }
}
