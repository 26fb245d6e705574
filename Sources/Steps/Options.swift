package import Evidence
import Foundation
import Model

/// Decoding, recording and description of the options of a step.
package enum Options {
  /// One option as it is declared.
  package struct Declaration: Sendable {
    package var name: String
    /// The property, preceded by that of its group if it has one.
    var path: [String]
    package var meaning: String
    package var value: JSONValue
    var range: OptionRange?
    fileprivate var type: any OptionValue.Type

    /// The JSON Schema of the option's values.
    package var schema: JSONValue {
      var schema = type.schema
      schema.merge(range?.schema ?? [:]) { _, limit in limit }
      schema["default"] = value
      schema["description"] = .string(meaning)
      return .object(schema)
    }

    /// `a whole number from 1 to 4096`.
    package var expectation: String { [type.words, range?.words].compactMap(\.self).joined(separator: " ") }

    /// The problem with a value; `nil` when the value is allowed.
    func mistake(in given: JSONValue) -> String? {
      if type.init(json: given) != nil, given.double.map({ range?.contains($0) ?? true }) ?? true { return nil }
      let meant = given.string.map { Spelling.hint(for: $0, among: type.choices) } ?? ""
      return "expected \(expectation), found \(given.kind)\(meant)"
    }
  }

  /// The options of a step with their current values, in the order of declaration.
  package static func declarations<S: Step>(of step: S) -> [Declaration] { declarations(in: step, [], []) }

  private static func declarations(in value: Any, _ path: [String], _ found: [Declaration]) -> [Declaration] {
    Mirror(reflecting: value).children.reduce(into: found) { found, child in
      guard let label = child.label else { return }
      if let group = child.value as? any StepOptionGroup {
        found = declarations(in: group, path + [label], found)
      } else if let option = child.value as? any DeclaredOption {
        // The storage of a wrapped property has an underscore before its name.
        let property = String(label.dropFirst())
        found.append(
          Declaration(
            name: kebab(property), path: path + [property], meaning: option.meaning, value: option.json, range: option.range,
            type: option.type))
      } else {
        preconditionFailure("\(type(of: value)).\(label) is stored in a step and is not an @StepOption")
      }
    }
  }

  /// A step with `options` over its defaults. Throws `PipelineFileError` with the path of an unknown option or an invalid value.
  package static func decode<S: Step>(_ type: S.Type, over options: JSONValue?, at path: String) throws -> S {
    guard case .object(let given) = options ?? .object([:]) else {
      throw PipelineFileError(path, "expected the options of \(S.name), found \((options ?? .null).kind)")
    }
    let declared = declarations(of: S())
    for (name, value) in given.sorted(by: { $0.key < $1.key }) {
      guard let option = declared.first(where: { $0.name == name }) else {
        throw PipelineFileError("\(path).\(name)", unknown("option", name, S.name, declared.map(\.name)))
      }
      if let mistake = option.mistake(in: value) { throw PipelineFileError("\(path).\(name)", mistake) }
    }
    var merged: [String: JSONValue] = [:]
    for option in declared {
      let value = given[option.name] ?? option.value
      if option.path.count == 2 {
        var group = merged[option.path[0]]?.object ?? [:]
        group[option.path[1]] = value
        merged[option.path[0]] = .object(group)
      } else {
        merged[option.path[0]] = value
      }
    }
    let step = try JSONDecoder().decode(S.self, from: Data(JSONValue.object(merged).canonicalBytes))
    do {
      try step.validate()
    } catch let error as OptionError {
      throw PipelineFileError("\(path).\(error.option)", error.message)
    }
    return step
  }

  private static func unknown(_ what: String, _ name: String, _ owner: String, _ known: [String]) -> String {
    let meant = Spelling.hint(for: name, among: known, inQuotes: true)
    return "unknown \(what); \(owner) has \(known.isEmpty ? "none" : known.sorted().map { "\"\($0)\"" }.joined(separator: ", "))\(meant)"
  }

  /// Every option with its value, as the manifest records it.
  package static func values<S: Step>(of step: S) -> JSONValue {
    .object(Dictionary(uniqueKeysWithValues: declarations(of: step).map { ($0.name, $0.value) }))
  }

  /// The option name of a property: `image-compression` for `imageCompression`.
  static func kebab(_ property: String) -> String {
    property.reduce(into: "") { name, letter in name += letter.isUppercase ? "-\(letter.lowercased())" : "\(letter)" }
  }
}

/// A `StepOption` of any value type.
private protocol DeclaredOption {
  var meaning: String { get }
  var range: OptionRange? { get }
  var json: JSONValue { get }
  var type: any OptionValue.Type { get }
}

extension StepOption: DeclaredOption {
  var json: JSONValue { wrappedValue.json }
  var type: any OptionValue.Type { Value.self }
}

/// A mistake in a pipeline file, with its path: `transforms[1].decimate.rte: unknown option; did you mean "rate"?`.
package struct PipelineFileError: Error, CustomStringConvertible, Equatable {
  package var path: String
  package var message: String
  /// Line and column in the file, counted from 1; set only for a file that was parsed from text.
  package var line: Int?
  package var column: Int?
  package init(_ path: String, _ message: String) {
    self.path = path
    self.message = message
  }
  package var description: String {
    let place = line.map { " (line \($0), column \(column ?? 1))" } ?? ""
    return [path.isEmpty ? nil : path, message].compactMap(\.self).joined(separator: ": ") + place
  }
}
