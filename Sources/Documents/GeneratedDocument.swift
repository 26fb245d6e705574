import Evidence
import Foundation
import Loaders
import Model
import Runs

/// A document of the repository that is generated from declarations in code: the schema of pipeline files, or sections of a page.
/// A section is the text between `<!-- generated: NAME -->` and `<!-- end -->`.
package struct GeneratedDocument {
  /// Path relative to the repository.
  package var path: String
  /// The complete text. Throws `GeneratedDocument.Missing` for a section that code does not have, and for one that the page does not have.
  private let render: (_ old: String) throws -> String

  /// A section that either the page or the code does not have.
  package struct Missing: Error, CustomStringConvertible {
    package var description: String
  }

  package static var all: [GeneratedDocument] {
    [
      GeneratedDocument(path: "schemas/pipeline.schema.json") { _ in try pretty(PipelineSchema.json) },
      GeneratedDocument(path: "docs/pipeline.md") { try fill($0, with: optionTables) },
      GeneratedDocument(path: "docs/doctor.md") { try fill($0, with: Loader.tables) },
      GeneratedDocument(path: "docs/formats/folder.md") { try fill($0, with: memberTables) },
    ]
  }

  /// Writes the document below a directory; returns false if it was already up to date.
  package func write(below root: String) throws -> Bool {
    let url = URL(fileURLWithPath: root).appendingPathComponent(path)
    let old = (try? String(contentsOf: url, encoding: .utf8)) ?? ""
    let new = try render(old)
    if new != old { try Data(new.utf8).write(to: url) }
    return new != old
  }

  /// The options of all readers together, and those of each other step.
  private static var optionTables: [String: String] {
    let steps = StepDescription.all.filter { $0.kind != .reader }
    return Dictionary(
      uniqueKeysWithValues: steps.map { ("options of \($0.name)", $0.table) } + [("options of readers", StepDescription.readerTable)])
  }

  /// The members of each part of a folder's description.
  private static var memberTables: [String: String] {
    let parts = Registry.descriptionParts.map { StepDescription($0, .reader) }
    return Dictionary(uniqueKeysWithValues: parts.map { ("members of \($0.name)", $0.table) })
  }

  private static func fill(_ page: String, with sections: [String: String]) throws -> String {
    var output: [Substring] = []
    var isInside = false
    var missing = Set(sections.keys)
    for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
      if line == "<!-- end -->" { isInside = false }
      if !isInside { output.append(line) }
      guard line.hasPrefix("<!-- generated: "), line.hasSuffix(" -->") else { continue }
      let name = String(line.dropFirst("<!-- generated: ".count).dropLast(" -->".count))
      guard let section = sections[name] else { throw Missing(description: "there is no generated section named \(name)") }
      output += section.split(separator: "\n", omittingEmptySubsequences: false)
      isInside = true
      missing.remove(name)
    }
    if let name = missing.min() {
      throw Missing(description: "the page has no place for \(name): add the lines <!-- generated: \(name) --> and <!-- end -->")
    }
    return output.joined(separator: "\n")
  }

  private static func pretty(_ json: JSONValue) throws -> String {
    let object = try JSONSerialization.jsonObject(with: Data(json.canonicalBytes))
    let data = try JSONSerialization.data(withJSONObject: object, options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes])
    return String(decoding: data, as: UTF8.self) + "\n"
  }
}
