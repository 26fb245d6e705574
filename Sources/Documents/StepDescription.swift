package import Evidence
package import Exports
import Foundation
import Model
import Runs
import Steps

/// A description of a step, as `takeset steps` prints it.
package struct StepDescription: Sendable {
  /// Kinds of steps, in the order of a pipeline.
  package enum Kind: String, Sendable {
    case reader, transform, writer, exporter

    /// Kinds that a pipeline file has.
    static let ofPipelines = [reader, transform, writer]
  }

  package var kind: Kind
  package var name: String
  package var summary: String
  let options: [Options.Declaration]

  /// All steps: readers, transforms, writers.
  package static let all: [StepDescription] =
    Registry.readers.map { StepDescription($0, .reader) } + Registry.transforms.map { StepDescription($0, .transform) }
    + Registry.writers.map { StepDescription($0, .writer) }

  init(_ type: any Step.Type, _ kind: Kind) {
    func declarations<S: Step>(_ type: S.Type) -> [Options.Declaration] { Options.declarations(of: S()) }
    self.kind = kind
    name = type.name
    summary = type.summary
    options = declarations(type)
  }

  /// A format of `takeset export`.
  package init(exporter type: any Exporter.Type) { self.init(type, .exporter) }

  /// Name, default and meaning of each option.
  package var signatures: [(name: String, value: JSONValue, meaning: String)] { options.map { ($0.name, $0.value, $0.meaning) } }

  package var text: String {
    let lines = options.map { option in
      let signature = "\(option.name): \(option.value.canonicalText)"
      let padded = signature.padding(toLength: max(28, signature.count + 1), withPad: " ", startingAt: 0)
      return "    \(padded) \(option.meaning) [\(option.expectation)]"
    }
    return (["\(name) (\(kind.rawValue))", "  \(summary)"] + lines).joined(separator: "\n")
  }

  package var json: JSONValue {
    [
      "kind": .string(kind.rawValue), "name": .string(name), "summary": .string(summary),
      "options": .array(
        options.map { ["name": .string($0.name), "default": $0.value, "help": .string($0.meaning), "schema": $0.schema] }),
    ]
  }

  /// The options as a Markdown table.
  package var table: String {
    guard !options.isEmpty else { return "No options." }
    let rows = options.map { option in
      "| `\(option.name)` | `\(option.value.canonicalText)` | \(option.expectation) | \(option.meaning.replacingOccurrences(of: "|", with: "\\|")) |"
    }
    return (["| option | default | values | meaning |", "|---|---|---|---|"] + rows).joined(separator: "\n")
  }
}
