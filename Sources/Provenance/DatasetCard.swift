import Datasets
import Evidence
import Foundation
import Model
import Steps

/// The dataset card: a README in Markdown with the front matter that the Hugging Face hub reads.
struct DatasetCard {
  private let description: DatasetDescription
  private let hasCrate: Bool

  init(_ description: DatasetDescription, hasCrate: Bool) { (self.description, self.hasCrate) = (description, hasCrate) }

  private var record: ManifestRecord { description.record }

  var text: String {
    [frontMatter, introduction, contents, splits, making, findings, use, license, files].joined(separator: "\n")
  }

  // MARK: Front matter

  private var frontMatter: String {
    var lines = ["---", "pretty_name: \(Self.quoted(description.name))"]
    switch description.options.license {
    case nil: lines.append("license: unknown # to be filled in")
    case let license? where license == description.licenseURL:
      lines += ["license: other", "license_link: \(Self.quoted(license))"]
    case let license?: lines.append("license: \(Self.quoted(license.lowercased()))")
    }
    lines += [
      "task_categories:", "- robotics", "tags:", "- takeset", "- hdf5", "size_categories:", "- \(Self.sizeCategory(description.rows))",
      "---", "",
    ]
    return lines.joined(separator: "\n")
  }

  /// The hub's name for a number of rows.
  static func sizeCategory(_ rows: Int) -> String {
    let bounds = [
      (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M"),
      (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"),
    ]
    return bounds.first { rows < $0.0 }?.1 ?? "n>1B"
  }

  // MARK: Sections

  private var introduction: String {
    let totals = record.totals
    func total(_ key: String) -> Int { Int(totals[key]?.integer ?? 0) }
    var lines = ["# \(Self.escaped(description.name))", "", description.sentence, "", "| | |", "|---|--:|"]
    lines += [
      "| takes read | \(total("takes")) |", "| episodes | \(description.dataset.written.count) |", "| rows | \(description.rows) |",
      "| takes rejected by a rule | \(total("rejected")) |", "| takes that failed | \(total("failed")) |",
      "| source frames dropped | \(total("frames_dropped")) |", "| bytes | \(description.bytes) |", "",
    ]
    return lines.joined(separator: "\n")
  }

  private var contents: String {
    var lines = [
      "## Contents", "",
      "A row is one time step. These arrays are in `/data/demo_N` of `dataset.h5`; the last column is how many episodes have them.", "",
    ]
    lines += ["| array | type | one row | unit | episodes |", "|---|---|---|---|--:|"]
    for key in description.keys where !key.name.hasSuffix("_valid") {
      // All are little-endian, and the bar of |u1 would end the cell.
      let types = Set(key.dtypes.map { $0.filter { $0.isLetter || $0.isNumber } })
      lines.append(
        "| `\(key.name)` | \(Self.list(types)) | \(Self.list(key.shapes)) | \(Self.list(key.units)) | \(key.episodes) |"
      )
    }
    lines += ["", "An array `<name>_valid` of the same length is 1 where a value is known. Where it is 0, the value means nothing.", ""]
    return lines.joined(separator: "\n")
  }

  private var splits: String {
    var lines = [
      "## Splits", "", "Rule: \(Self.escaped(record.splits["rule"]?.string ?? "none")).", "", "| part | episodes | rows |", "|---|--:|--:|",
    ]
    for part in SplitPart.allCases {
      let own = description.dataset.written.filter { description.parts[$0.id.text] == part.rawValue }
      lines.append("| \(part.rawValue) | \(own.count) | \(own.reduce(0) { $0 + $1.framesOut }) |")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private var making: String {
    let libraries = (record.tool["libraries"]?.object ?? [:]).sorted { $0.key < $1.key }.compactMap { name, version in
      version.string.map { "\(name) \($0)" }
    }
    let revision = record.tool["revision"]?.string ?? "unknown revision"
    var readers: [String: Int] = [:]
    for take in description.sources { readers[take.reader ?? "no known format", default: 0] += 1 }
    let words = readers.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
    return """
      ## How it was made

      Takeset \(description.version) (\(([revision] + libraries).joined(separator: ", "))) \
      read the takes (\(words.joined(separator: ", "))) \
      and applied this pipeline, with all its options:

      ```json
      \(record.pipeline.indentedText)```

      `manifest.json` has, for every take, the SHA-256 of its source files, the steps with what they dropped and why,
      and the digests of what was written.

      """
  }

  private var findings: String {
    var lines = ["## Findings", ""]
    let counts = description.findings
    if counts.isEmpty, record.findings.isEmpty { return (lines + ["None.", ""]).joined(separator: "\n") }
    if !counts.isEmpty {
      lines += ["| finding | severity | takes |", "|---|---|--:|"]
      lines += counts.map { "| `\($0.code.rawValue)` | \($0.severity.rawValue) | \($0.takes) |" }
      lines.append("")
    }
    if !record.findings.isEmpty {
      lines += record.findings.map { "* `\($0.code.rawValue)`: \(Self.escaped($0.message))" }
      lines.append("")
    }
    lines += ["`takeset explain CODE` says what each means.", ""]
    return lines.joined(separator: "\n")
  }

  private var use: String {
    """
    ## Use

    ```python
    import h5py

    with h5py.File("\(record.index.path)") as file:
        train = [name.decode() for name in file["mask/train"][:]]
        for name in train:
            episode = file["data"][name]
            print(episode.attrs["take_id"], {key: array.shape for key, array in episode["obs"].items()})
    ```

    `takeset verify .` compares every file with its digests.

    """
  }

  private var license: String {
    var lines = ["## License", ""]
    switch (description.options.license, description.licenseURL) {
    case (let license?, let url?): lines.append(license == url ? "<\(url)>" : "[\(license)](\(url))")
    default:
      lines.append(
        "To be filled in: without a license nobody may use the dataset. `takeset describe . --license CC-BY-4.0` writes it here.")
    }
    if !description.options.creators.isEmpty {
      lines += ["", "Made by \(description.options.creators.map { Self.escaped($0) }.joined(separator: ", "))."]
    }
    if let url = description.options.url { lines += ["", "<\(url)>"] }
    return lines.joined(separator: "\n") + "\n"
  }

  private var files: String {
    var lines = ["## Files", "", "| file | what |", "|---|---|"]
    lines += [
      "| `\(record.index.path)` | links to every episode, masks of the splits, statistics |",
      "| `episodes/` | one HDF5 file for each episode |",
      "| `manifest.json` | provenance and digests; `record_sha256` is `\(description.dataset.recordDigest)` |",
      "| `croissant.json` | [Croissant](http://mlcommons.org/croissant/) metadata |",
    ]
    if hasCrate { lines.append("| `ro-crate-metadata.json` | [RO-Crate](https://w3id.org/ro/crate) metadata |") }
    return lines.joined(separator: "\n") + "\n\n"
  }

  // MARK: Words

  private static func list(_ words: Set<String>) -> String { words.sorted().map { escaped($0) }.joined(separator: ", ") }

  /// Text in double quotes of YAML: JSON, with those characters escaped that only YAML reserves.
  private static func quoted(_ text: String) -> String {
    JSONValue.string(text).canonicalText.unicodeScalars.reduce(into: "") { result, scalar in
      switch scalar.value {
      case 0x7F...0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF: result += String(format: "\\u%04x", scalar.value)
      default: result.unicodeScalars.append(scalar)
      }
    }
  }

  /// Text as it is, in Markdown and in a cell of a table.
  static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      if "\\`*_{}[]<>|#&~".contains(character) { result.append("\\") }
      result.append(character.isNewline ? " " : character)
    }
    return result
  }
}
