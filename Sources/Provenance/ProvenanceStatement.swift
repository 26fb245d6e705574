import Datasets
import Evidence
import Foundation
import Model

/// The statement that a signature covers: an in-toto statement (version 1) with SLSA provenance (version 1).
///
/// It depends only on the record and on the bytes of the index and the shards, so the same dataset gives the same statement on any machine.
struct ProvenanceStatement {
  static let type = "https://in-toto.io/Statement/v1"
  static let predicateType = "https://slsa.dev/provenance/v1"
  /// Names the rules by which the record was made; a package URL, because they are those of the program.
  static let buildType = "pkg:generic/takeset#docs/provenance.md"
  /// The subject whose digest is `record_sha256`: the canonical bytes of the manifest's member `record`, as a JSON pointer.
  static let recordSubject = DatasetFiles.manifest + "#/record"

  /// A source that was read: a take, or a dataset that episodes were taken from.
  struct Dependency {
    var name: String
    var digest: String
    /// Number and size of a take's files, and its reader.
    var files: (count: Int, bytes: Int64, reader: String?)?
  }

  let record: ManifestRecord
  let recordDigest: String
  let files: [DatasetFile]
  /// The takes, each once, whatever became of it, the files of streams that were added, and the datasets that episodes were taken from.
  let dependencies: [Dependency]

  /// Throws `UsageError` where a take's record cannot be read.
  init(_ dataset: Dataset, files: [DatasetFile]) throws {
    (record, recordDigest, self.files) = (dataset.record, dataset.recordDigest, files)
    var known: Set<String> = []
    var dependencies: [Dependency] = []
    var added: [String: Dependency] = [:]
    for entry in dataset.takes {
      let take = try dataset.record(of: entry)
      for addition in take.additions {
        added["\(addition.stream) \(addition.digest)"] = Dependency(name: "values of \(addition.stream)", digest: "\(addition.digest)")
      }
      guard known.insert(entry.id.take).inserted else { continue }
      guard let digest = take.inputDigest else {
        // Another episode of the take may have it.
        known.remove(entry.id.take)
        continue
      }
      let bytes = take.inputs.reduce(0) { $0 &+ $1.bytes }
      dependencies.append(Dependency(name: entry.id.take, digest: digest.description, files: (take.inputs.count, bytes, take.reader)))
    }
    dependencies += added.sorted { $0.key < $1.key }.map(\.value)
    for source in record.sources?.array ?? [] {
      if let digest = source["record_sha256"]?.string { dependencies.append(Dependency(name: "dataset", digest: digest)) }
    }
    self.dependencies = dependencies
  }

  /// The statement in canonical form. Subjects and dependencies, of which there are as many as takes, are written one by one.
  var canonicalBytes: [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(4096 + files.count * 160 + dependencies.count * 240)
    JSONValue.appendObject(["_type", "subject", "predicateType", "predicate"], to: &output) { key, output in
      switch key {
      case "_type": JSONValue.string(Self.type).appendCanonical(to: &output)
      case "predicateType": JSONValue.string(Self.predicateType).appendCanonical(to: &output)
      case "subject": Self.append(subjects.map { Dependency(name: $0.name, digest: $0.digest) }, to: &output)
      default:
        JSONValue.appendObject(["buildDefinition", "runDetails"], to: &output) { key, output in
          if key == "runDetails" { return JSONValue.object(["builder": builder]).appendCanonical(to: &output) }
          JSONValue.appendObject(buildDefinition.keys + ["resolvedDependencies"], to: &output) { key, output in
            if let member = buildDefinition[key] { return member.appendCanonical(to: &output) }
            Self.append(dependencies, to: &output)
          }
        }
      }
    }
    return output
  }

  /// The signed files, in order: the record, then every file.
  private var subjects: [(name: String, digest: String)] {
    [(Self.recordSubject, recordDigest)] + files.map { ($0.path, $0.digest.description) }
  }

  private static func append(_ resources: [Dependency], to output: inout [UInt8]) {
    output.append(UInt8(ascii: "["))
    for (index, resource) in resources.enumerated() {
      if index > 0 { output.append(UInt8(ascii: ",")) }
      var members: [String: JSONValue] = ["name": .string(resource.name), "digest": ["sha256": .string(resource.digest)]]
      if let files = resource.files {
        members["annotations"] = ["files": JSONValue(files.count), "bytes": .integer(files.bytes), "reader": JSONValue(files.reader)]
      }
      JSONValue.object(members).appendCanonical(to: &output)
    }
    output.append(UInt8(ascii: "]"))
  }

  private var buildDefinition: [String: JSONValue] {
    [
      "buildType": .string(Self.buildType),
      "externalParameters": ["pipeline": record.pipeline, "pipeline_sha256": .string(record.pipelineDigest)],
      "internalParameters": ["splits": .object(record.splits.filter { ["rule", "seed", "file_sha256"].contains($0.key) })],
    ]
  }

  private var builder: JSONValue {
    var versions: [String: JSONValue] = [:]
    for (name, version) in record.tool["libraries"]?.object ?? [:] where version.string != nil { versions[name] = version }
    versions["takeset"] = record.tool["version"]
    versions["revision"] = record.tool["revision"]
    return ["id": .string(Self.package(of: record)), "version": .object(versions)]
  }

  /// The package URL of the program that made a dataset.
  static func package(of record: ManifestRecord) -> String { "pkg:generic/takeset@\(record.tool["version"]?.string ?? "0")" }
}
