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
  package var table: String { options.isEmpty ? "No options." : (Self.head + rows).joined(separator: "\n") }

  /// The options of all readers as one Markdown table, with the readers that have each of them; those of most readers come first.
  static var readerTable: String {
    let readers = all.filter { $0.kind == .reader }
    let owners: [String: [String]] = readers.reduce(into: [:]) { owners, reader in
      for row in reader.rows { owners[row, default: []].append(reader.name) }
    }
    let sorted = owners.sorted { ($0.value.count, $1.value.joined(), $1.key) > ($1.value.count, $0.value.joined(), $0.key) }
    let lines = sorted.enumerated().map { index, option in
      let others = readers.map(\.name).filter { !option.value.contains($0) }
      let names = others.count == 1 ? "all but \(others[0])" : option.value.joined(separator: ", ")
      let isRepeated = option.value.count > 1 && index > 0 && sorted[index - 1].value == option.value
      return "\(option.key) \(isRepeated ? "as above" : names) |"
    }
    return (["\(head[0]) readers |", "\(head[1])---|"] + lines).joined(separator: "\n")
  }

  private static let head = ["| option | default | values | meaning |", "|---|---|---|---|"]

  private var rows: [String] {
    options.map { option in
      "| `\(option.name)` | `\(option.value.canonicalText)` | \(option.expectation) | \(option.meaning.replacingOccurrences(of: "|", with: "\\|")) |"
    }
  }
}
