import Foundation
import Model

/// A step as `takeset steps` shows it.
package struct StepDescription: Sendable {
  package var kind: String
  package var name: String
  package var summary: String
  private var options: [Options.Description]

  /// Readers, transforms, writers.
  package static func all() throws -> [StepDescription] {
    try Registry.readers.map { try StepDescription($0, "reader") }
      + Registry.transforms.map { try StepDescription($0, "transform") }
      + Registry.writers.map { try StepDescription($0, "writer") }
  }

  private init(_ type: any Step.Type, _ kind: String) throws {
    self.kind = kind
    name = type.name
    summary = type.summary
    options = try Self.options(type)
  }

  private static func options<S: Step>(_ type: S.Type) throws -> [Options.Description] { try Options.describe(type) }

  package var text: String {
    let lines = options.map { option in
      let signature = "\(option.name): \(option.default.canonicalText)"
      return "    \(signature.padding(toLength: max(28, signature.count + 1), withPad: " ", startingAt: 0)) \(option.help)"
    }
    return (["\(name) (\(kind))", "  \(summary)"] + lines).joined(separator: "\n")
  }

  package var json: JSONValue {
    [
      "kind": .string(kind), "name": .string(name), "summary": .string(summary),
      "options": .array(
        options.map { ["name": .string($0.name), "default": $0.default, "help": .string($0.help)] }),
    ]
  }
}
