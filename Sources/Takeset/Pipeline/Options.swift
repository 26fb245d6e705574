import Foundation
import Model

/// The options of steps: read over the defaults, and written out in full.
enum Options {
  struct Description: Equatable {
    var name: String
    var `default`: JSONValue
    var help: String
  }

  /// A step with `options` laid over its defaults. Unknown options and wrong types are refused by their path.
  static func decode<S: Step>(_ type: S.Type, over options: JSONValue?, at path: String) throws -> S {
    guard case .object(let given) = options ?? .object([:]) else {
      throw PipelineFileError(path, "expected the options of \(S.name), found \((options ?? .null).kind)")
    }
    let names = optionNames(S.self)
    var merged = try object(encoding: S())
    for (name, value) in given.sorted(by: { $0.key < $1.key }) {
      guard let property = names.first(where: { $0.option == name })?.property else {
        let known = names.map { "\"\($0.option)\"" }.sorted().joined(separator: ", ")
        throw PipelineFileError("\(path).\(name)", "unknown option; \(S.name) has \(known.isEmpty ? "none" : known)")
      }
      // Foundation's decoder would call this invalid JSON and not say where.
      if case .number = value, isWholeNumber(property, of: S.self) {
        throw PipelineFileError("\(path).\(name)", "expected a whole number, found \(value.kind)")
      }
      merged[property] = value
    }
    do {
      let step = try JSONDecoder().decode(S.self, from: Data(JSONValue.object(merged).canonicalBytes))
      try step.validate()
      return step
    } catch let error as OptionError {
      throw PipelineFileError("\(path).\(error.option)", error.message)
    } catch let error as DecodingError {
      let (keys, message) = explain(error)
      let option = keys.first.flatMap { key in names.first { $0.property == key }?.option }
      let found = option.flatMap { given[$0] }.map { ", found \($0.kind)" } ?? ""
      throw PipelineFileError([path, option].compactMap(\.self).joined(separator: "."), message + found)
    }
  }

  /// Every option with its value, as the manifest records it.
  static func values<S: Step>(of step: S) throws -> JSONValue {
    let encoded = try object(encoding: step)
    return .object(
      Dictionary(uniqueKeysWithValues: optionNames(S.self).map { ($0.option, encoded[$0.property] ?? .null) }))
  }

  static func describe<S: Step>(_ type: S.Type) throws -> [Description] {
    let defaults = try object(encoding: S())
    return optionNames(S.self).map {
      Description(name: $0.option, default: defaults[$0.property] ?? .null, help: S.help[$0.option] ?? "")
    }
  }

  private static func optionNames<S: Step>(_ type: S.Type) -> [(property: String, option: String)] {
    Mirror(reflecting: S()).children.compactMap(\.label).map { ($0, kebab($0)) }
  }

  private static func isWholeNumber<S: Step>(_ property: String, of _: S.Type) -> Bool {
    // By type: as values, an absent Double? and an absent Int? are the same.
    let value = Mirror(reflecting: S()).children.first { $0.label == property }?.value
    return value.map { type(of: $0) == Int.self || type(of: $0) == Int?.self } ?? false
  }

  /// `imageCompression` becomes `image-compression`.
  static func kebab(_ property: String) -> String {
    property.reduce(into: "") { name, letter in name += letter.isUppercase ? "-\(letter.lowercased())" : "\(letter)" }
  }

  private static func object<S: Step>(encoding step: S) throws -> [String: JSONValue] {
    try JSONReader(Array(JSONEncoder().encode(step))).value().object ?? [:]
  }

  private static func explain(_ error: DecodingError) -> (keys: [String], message: String) {
    switch error {
    case .typeMismatch(let type, let context): (context.codingPath.map(\.stringValue), "expected \(words(for: type))")
    case .valueNotFound(let type, let context): (context.codingPath.map(\.stringValue), "expected \(words(for: type))")
    case .keyNotFound(let key, _): ([key.stringValue], "a value is needed")
    case .dataCorrupted(let context): (context.codingPath.map(\.stringValue), context.debugDescription)
    @unknown default: ([], "\(error)")
    }
  }

  private static func words(for type: any Any.Type) -> String {
    switch type {
    case is Int.Type: "a whole number"
    case is Double.Type, is Float.Type: "a number"
    case is Bool.Type: "true or false"
    case is String.Type: "text"
    default: "\(type)"
    }
  }
}

/// A mistake in a pipeline file, by its path: `transforms[1].decimate.rte: unknown option; decimate has "every", "rate"`.
package struct PipelineFileError: Error, CustomStringConvertible, Equatable {
  package var path: String
  package var message: String
  package init(_ path: String, _ message: String) {
    self.path = path
    self.message = message
  }
  package var description: String { path.isEmpty ? message : "\(path): \(message)" }
}
