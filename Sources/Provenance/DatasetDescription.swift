package import Datasets
import Evidence
import Foundation
import HDF5
import Model
import Steps

/// The facts of a dataset that others need to know, gathered from its manifest and shards, and the files that state them.
package struct DatasetDescription {
  /// The facts that the manifest does not know.
  package struct Options {
    package var name: String?
    /// An SPDX identifier or a URL.
    package var license: String?
    package var creators: [String] = []
    package var url: String?
    /// A day, as 2026-01-31.
    package var date: String?
    package var hasCrate = false
    package var replaces = false

    package init() {}
  }

  /// The files that were written, relative to the directory.
  package struct Summary {
    package var directory: String
    package var files: [String]
    /// The options that were not given and that readers of the files want.
    package var missing: [String]
  }

  /// The arrays of one name in all episodes.
  struct Key: Equatable {
    /// Below the episode's group: `obs/pose`.
    var name: String
    var dtypes: Set<String> = []
    /// Extents without the rows, as `48x64x3`.
    var shapes: Set<String> = []
    var units: Set<String> = []
    var episodes = 0
  }

  /// Takes with a finding of one code.
  struct FindingCount: Equatable {
    var code: FindingCode
    var severity: Finding.Severity
    var takes = 0
  }

  /// Path of the group with the arrays of a shard's only episode.
  private static let group = ShardNames.dataPath
  /// Most episodes, takes or files that are listed one by one; the manifest lists more than that.
  static let listed = 1000

  let dataset: Dataset
  let options: Options
  let name: String
  /// Start and end of the last run, in RFC 3339.
  let started: String?
  let finished: String?
  let files: [DatasetFile]
  let manifestFile: DatasetFile
  let keys: [Key]
  let findings: [FindingCount]
  /// Number of takes that were read.
  let sourceCount: Int
  /// The records of all takes, in the order of the manifest; none if there are more than are listed.
  let records: [TakeRecord]
  /// The part of the split of each episode, by its id.
  let parts: [String: String]

  /// Reads the manifest and every shard. Throws `UsageError` for a bad option or a directory that is no dataset, `ExportRefusal` for a
  /// shard that cannot be read.
  ///
  /// - Parameter checks: The check of a shard that another program has written to, before it is opened.
  package init(_ directory: String, options: Options, threads: Int, checks: Verification.ExternalChecks = .none) throws {
    try Self.check(options)
    let (dataset, run) = try Dataset.opened(directory, checks: checks)
    (self.dataset, self.options) = (dataset, options)
    name = options.name ?? URL(fileURLWithPath: Directory.absolute(directory)).lastPathComponent
    (started, finished) = (run["started"]?.string, run["finished"]?.string)
    do {
      files = try dataset.files(threads: threads)
      let (digest, bytes) = try SealedFile.digest(of: directory + "/" + DatasetFiles.manifest)
      manifestFile = DatasetFile(path: DatasetFiles.manifest, bytes: bytes, digest: digest)
      let contents = try Contents(dataset)
      (keys, findings, records) = (contents.sortedKeys, contents.sortedFindings, contents.records)
    } catch let error where !(error is UsageError) {
      throw ExportRefusal("\(directory) cannot be described: \(error); takeset verify says what is damaged")
    }
    sourceCount = Set(dataset.takes.map(\.id.take)).count
    parts = dataset.parts.mapValues(\.rawValue)
  }

  private static func check(_ options: Options) throws {
    if let license = options.license, !isWebAddress(license) {
      let isIdentifier = license.utf8.allSatisfy {
        ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x7A) || ($0 >= 0x30 && $0 <= 0x39) || $0 == 0x2D || $0 == 0x2E || $0 == 0x2B
      }
      guard isIdentifier, !license.isEmpty else {
        throw UsageError("--license: expected an SPDX identifier, such as CC-BY-4.0, or a URL, found \(license)")
      }
    }
    if let url = options.url, !isWebAddress(url) { throw UsageError("--url: expected http:// or https://, found \(url)") }
    if let date = options.date {
      let fields = date.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
      let numbers = fields.compactMap { $0.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? Int($0) : nil }
      guard fields.map(\.count) == [4, 2, 2], numbers.count == 3, (1...12).contains(numbers[1]), (1...31).contains(numbers[2]) else {
        throw UsageError("--date: expected a day such as 2026-01-31, found \(date)")
      }
    }
    for text in [options.name].compactMap(\.self) + options.creators where text.isEmpty || text.contains(where: \.isNewline) {
      throw UsageError("--name and --creator: expected one line of text")
    }
  }

  private static func isWebAddress(_ text: String) -> Bool {
    (text.hasPrefix("https://") || text.hasPrefix("http://")) && URL(string: text)?.host != nil
      && !text.contains { $0.isWhitespace || "\"<>\\^`{|}".contains($0) }
  }

  /// The facts from the records and shards of all takes, read one after the other.
  private struct Contents {
    private var keys: [String: Key] = [:]
    private var findings: [String: FindingCount] = [:]
    var records: [TakeRecord] = []

    init(_ dataset: Dataset) throws {
      for take in dataset.takes {
        let record = try dataset.record(of: take)
        if dataset.takes.count <= DatasetDescription.listed { records.append(record) }
        count(record.findings)
        if let output = record.output { try add(output, dataset.shard(output).open()) }
      }
    }

    private mutating func count(_ all: [Finding]) {
      var own: Set<String> = []
      for finding in all where own.insert("\(finding.severity) \(finding.code)").inserted {
        findings["\(finding.severity) \(finding.code)", default: FindingCount(code: finding.code, severity: finding.severity)].takes += 1
      }
    }

    /// The arrays by name; their units are attributes in the shards.
    private mutating func add(_ output: OutputRecord, _ file: File) throws {
      defer { try? file.close() }
      for array in output.arrays where array.path.hasPrefix(DatasetDescription.group) {
        let name = String(array.path.dropFirst(DatasetDescription.group.count))
        var key = keys[name] ?? Key(name: name)
        key.dtypes.insert(array.dtype)
        key.shapes.insert(array.shape.count > 1 ? array.shape.dropFirst().map(String.init).joined(separator: "x") : "scalar")
        if let unit = try file.root.dataset(String(array.path.dropFirst())).textAttribute("unit") { key.units.insert(unit) }
        key.episodes += 1
        keys[name] = key
      }
    }

    var sortedKeys: [Key] { keys.values.sorted { $0.name < $1.name } }

    var sortedFindings: [FindingCount] {
      let order: [Finding.Severity] = [.error, .warning, .info]
      return findings.values.sorted {
        let (a, b) = (order.firstIndex(of: $0.severity) ?? 0, order.firstIndex(of: $1.severity) ?? 0)
        return a == b ? $0.code.rawValue < $1.code.rawValue : a < b
      }
    }
  }

  // MARK: Numbers

  var record: ManifestRecord { dataset.record }
  var rows: Int { dataset.written.reduce(0) { $0 + $1.framesOut } }
  var bytes: Int64 { files.reduce(manifestFile.bytes) { $0 + $1.bytes } }
  /// The day to give as that of publication.
  var day: String? { options.date ?? finished.map { String($0.prefix(10)) } }
  var version: String { record.tool["version"]?.string ?? "" }

  /// The license as a URL.
  var licenseURL: String? {
    options.license.map { Self.isWebAddress($0) ? $0 : "https://spdx.org/licenses/\($0).html" }
  }

  /// Whether episodes, takes and files are listed one by one.
  var isListed: Bool { dataset.takes.count <= Self.listed }

  /// The takes that were read, each once, in the order of the manifest, where they are listed.
  var sources: [TakeRecord] {
    var known: Set<String> = []
    return records.filter { known.insert($0.id.take).inserted }
  }

  /// The files of values that streams were added from, each once, where takes are listed.
  var additions: [TakeRecord.Addition] {
    var known: Set<String> = []
    return records.flatMap(\.additions).filter { known.insert("\($0.stream) \($0.digest)").inserted }
  }

  /// A sentence that describes the dataset.
  var sentence: String {
    let readers = Set(dataset.written.compactMap(\.reader)).sorted().joined(separator: ", ")
    let written = dataset.written.count
    let content = "\(several(written, "episode")) with \(several(rows, "row")) in HDF5"
    return "\(content), made from raw phone captures\(readers.isEmpty ? "" : " (\(readers))") by Takeset \(version)."
  }

  // MARK: Files

  /// Writes the files. Throws `OutputExists` if one of them is somebody else's, `OutputFailure`.
  package func write(to given: String) throws -> Summary {
    let directory = Directory.absolute(given)
    do { try Directory.create(directory) } catch { throw OutputFailure("cannot write \(given): \(error)") }
    let previous = WrittenFiles(of: directory)
    let hasCrate = try options.hasCrate || previous.names(DatasetFiles.crate)
    var contents: [(name: String, bytes: [UInt8])] = [(DatasetFiles.croissant, Array(Croissant(self).json.indentedText.utf8))]
    if hasCrate { contents.append((DatasetFiles.crate, Array(ProcessRunCrate(self).json.indentedText.utf8))) }
    // The card is written last: it records what the others are.
    let card = DatasetCard(self, hasCrate: hasCrate).text
    contents.append((DatasetFiles.card, WrittenFiles.stamped(card, with: contents)))
    if !options.replaces {
      for (name, bytes) in contents where try !previous.mayReplace(name, by: bytes) {
        throw OutputExists(
          "\(given)/\(name)", remedy: "somebody else wrote or edited it; give --replace to replace it, or --output to write elsewhere")
      }
    }
    do {
      for (name, bytes) in contents {
        try SealedFile.write(directory + "/" + name) { write in try bytes.withUnsafeBytes(write) }
      }
    } catch {
      throw OutputFailure("cannot write \(given): \(error)")
    }
    var missing: [String] = []
    if options.license == nil { missing.append("--license") }
    if options.creators.isEmpty { missing.append("--creator") }
    if options.url == nil { missing.append("--url") }
    return Summary(directory: given, files: contents.map(\.name), missing: missing)
  }
}
