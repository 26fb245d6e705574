import Datasets
import Evidence
import Foundation
import Model
import Steps

/// Croissant metadata (version 1.1) of a dataset, with its provenance in terms of PROV-O.
///
/// Croissant cannot address what is inside an HDF5 file, so no record set claims to hold rows: files have their SHA-256, and record sets
/// tell the splits, the takes (from the manifest), the episodes and the arrays.
struct Croissant {
  private let description: DatasetDescription
  private var record: ManifestRecord { description.record }
  private var isListed: Bool { description.isListed }

  init(_ description: DatasetDescription) { self.description = description }

  static let version = "http://mlcommons.org/croissant/1.1"

  /// The vocabulary's context (Croissant 1.1, appendix 1), and PROV-O.
  private static let context: JSONValue = {
    var context: [String: JSONValue] = [
      "@language": "en", "@vocab": "https://schema.org/", "cr": "http://mlcommons.org/croissant/",
      "rai": "http://mlcommons.org/croissant/RAI/", "dct": "http://purl.org/dc/terms/", "sc": "https://schema.org/",
      "prov": "http://www.w3.org/ns/prov#", "conformsTo": "dct:conformsTo",
      "dataType": ["@id": "cr:dataType", "@type": "@vocab"], "data": ["@id": "cr:data", "@type": "@json"],
      "examples": ["@id": "cr:examples", "@type": "@json"], "name": ["@container": "@language"], "description": ["@container": "@language"],
    ]
    let terms = [
      "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet",
      "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
      "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
    ]
    for term in terms { context[term] = .string("cr:" + term) }
    return .object(context)
  }()

  var json: JSONValue {
    var members: [String: JSONValue] = [
      "@context": Self.context, "@type": "sc:Dataset", "conformsTo": .string(Self.version), "name": .string(description.name),
      "description": .string(
        description.sentence
          + " Each file of episodes/ has one episode; dataset.h5 links them all."
          + " manifest.json records the source and the problems of every take."
      ),
      "keywords": ["robot learning", "HDF5", "Takeset"], "isLiveDataset": false,
      "distribution": .array(distribution), "recordSet": .array(recordSets), "prov:wasGeneratedBy": activity,
    ]
    members["license"] = description.licenseURL.map { .string($0) }
    members["url"] = description.options.url.map { .string($0) }
    members["datePublished"] = description.day.map { .string($0) }
    let creators = description.options.creators
    if !creators.isEmpty { members["creator"] = .array(creators.map { ["@type": "sc:Person", "name": .string($0)] }) }
    return .object(members)
  }

  // MARK: Files

  private var distribution: [JSONValue] {
    var takes: [String: String] = [:]
    for take in description.dataset.takes { if let path = take.output?.path { takes[path] = take.id.take } }
    let files = description.files.map { file in
      let isIndex = file.path == record.index.path
      return Self.object(
        file, format: "application/x-hdf5",
        isIndex ? "External links to every episode, masks of the splits, statistics." : "One episode.",
        from: isListed ? takes[file.path] : nil)
    }
    let manifest = Self.object(
      description.manifestFile, format: "application/json", "The record of every take, what was done to it, and the digests of every array."
    )
    // Of many files the index stands for all: a reader would need longer for the list than for the data.
    return [manifest] + (isListed ? files : Array(files.prefix(1)))
  }

  private static func object(_ file: DatasetFile, format: String, _ text: String, from take: String? = nil) -> JSONValue {
    var members: [String: JSONValue] = [
      "@type": "cr:FileObject", "@id": .string(identifier(file.path)), "name": .string(file.path), "description": .string(text),
      "contentUrl": .string(file.path), "contentSize": .string("\(file.bytes) B"), "encodingFormat": .string(format),
      "sha256": .string(file.digest.description),
    ]
    if let take { members["prov:wasDerivedFrom"] = ["@id": .string(identifier("#take/" + take))] }
    return .object(members)
  }

  /// A relative IRI: no white space, which readers refuse.
  private static func identifier(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .urlFragmentAllowed.union(["#"])) ?? text
  }

  // MARK: Records

  private var recordSets: [JSONValue] {
    let names: [String: String] = ["train": "cr:TrainingSplit", "valid": "cr:ValidationSplit", "test": "cr:TestSplit"]
    let splits = Self.inline(
      "splits", "The parts of the split, by the rule: \(record.splits["rule"]?.string ?? "none").", key: "name",
      fields: [("name", "sc:Text", "Name of the part."), ("url", "sc:URL", "Its meaning.")],
      data: SplitPart.allCases.map { ["name": .string($0.rawValue), "url": JSONValue(names[$0.rawValue])] }, type: "cr:Split")
    let arrays = Self.inline(
      "arrays", "The arrays of an episode, in /data/demo_0 of its file. Their first extent, the rows, is left out of the shape.",
      key: "name",
      fields: [
        ("name", "sc:Text", "Path below the episode's group."), ("dtype", "sc:Text", "NumPy's name of the element type."),
        ("shape", "sc:Text", "Extents of one row."), ("unit", "sc:Text", "Unit of the values."),
        ("episodes", "sc:Integer", "Number of episodes that have the array."),
      ],
      data: description.keys.map { key in
        [
          "name": .string(key.name), "dtype": Self.words(key.dtypes), "shape": Self.words(key.shapes), "unit": Self.words(key.units),
          "episodes": JSONValue(key.episodes),
        ]
      })
    return [splits, takes, arrays] + (isListed ? [episodes] : [])
  }

  private static func words(_ set: Set<String>) -> JSONValue { .string(set.sorted().joined(separator: ", ")) }

  private var episodes: JSONValue {
    var set = Self.inline(
      "episodes", "The episodes, in the order of dataset.h5.", key: "id",
      fields: [
        ("id", "sc:Text", "Id of the episode."), ("take", "sc:Text", "Id of the take it comes from."),
        ("split", "sc:Text", "Part of the split."), ("rows", "sc:Integer", "Number of rows."), ("file", "sc:Text", "Its file."),
        ("content_sha256", "sc:Text", "Digest of the content of all its arrays, whatever the file's layout."),
      ],
      data: description.records.filter { $0.output != nil }.map { take in
        [
          "id": .string(take.id.text), "take": .string(take.id.take), "split": JSONValue(description.parts[take.id.text] ?? ""),
          "rows": JSONValue(take.framesOut), "file": JSONValue(take.output?.path),
          "content_sha256": JSONValue(take.output?.contentDigest.description),
        ]
      })
    if case .object(var members) = set, case .array(var fields) = members["field"] {
      if case .object(var split) = fields[2] {
        split["references"] = ["field": ["@id": "splits/name"]]
        fields[2] = .object(split)
      }
      members["field"] = .array(fields)
      set = .object(members)
    }
    return set
  }

  /// The takes, read from the manifest by whoever loads the record set.
  private var takes: JSONValue {
    let fields: [(name: String, words: String)] = [
      ("id", "Id of the take, or of the episode, if the take was split."), ("outcome", "written, rejected or failed."),
      ("reason", "Why it has no episode."), ("reader", "The format it was read as."), ("variant", "The version of the format."),
      ("input_sha256", "Digest of the lines of digest and path of all its files."),
    ]
    return [
      "@type": "cr:RecordSet", "@id": "takes", "name": "takes", "description": "Every take that was read, whatever became of it.",
      "key": ["@id": "takes/id"],
      "field": .array(
        fields.map { field in
          [
            "@type": "cr:Field", "@id": .string("takes/\(field.name)"), "name": .string(field.name), "description": .string(field.words),
            "dataType": "sc:Text",
            "source": [
              "fileObject": ["@id": .string(DatasetFiles.manifest)], "extract": ["jsonPath": .string("$.record.takes[*].\(field.name)")],
            ],
          ]
        }),
    ]
  }

  /// A record set whose records are in the metadata.
  private static func inline(
    _ name: String, _ text: String, key: String, fields: [(name: String, type: String, text: String)], data: [[String: JSONValue]],
    type: String? = nil
  ) -> JSONValue {
    var members: [String: JSONValue] = [
      "@type": "cr:RecordSet", "@id": .string(name), "name": .string(name), "description": .string(text),
      "key": ["@id": .string("\(name)/\(key)")],
      "field": .array(
        fields.map {
          [
            "@type": "cr:Field", "@id": .string("\(name)/\($0.name)"), "name": .string($0.name), "description": .string($0.text),
            "dataType": .string($0.type),
          ]
        }),
      "data": .array(data.map { row in .object(Dictionary(uniqueKeysWithValues: row.map { ("\(name)/\($0.key)", $0.value) })) }),
    ]
    if let type { members["dataType"] = .string(type) }
    return .object(members)
  }

  // MARK: Provenance

  /// The conversion, the program, its pipeline and the takes.
  private var activity: JSONValue {
    let tool = "takeset \(description.version)"
    var members: [String: JSONValue] = [
      "@type": "prov:Activity", "@id": "#conversion", "prov:label": .string("Conversion of raw takes by \(tool)"),
      "prov:wasAssociatedWith": [
        "@type": "prov:SoftwareAgent", "@id": .string(ProvenanceStatement.package(of: record)), "prov:label": .string(tool),
      ],
      "prov:qualifiedAssociation": [
        "@type": "prov:Association", "@id": "#association", "prov:agent": ["@id": .string(ProvenanceStatement.package(of: record))],
        "prov:hadPlan": [
          "@type": "prov:Plan", "@id": "#pipeline", "prov:label": "The pipeline, as JSON",
          "prov:value": .string(record.pipeline.canonicalText),
          "sha256": .string(record.pipelineDigest),
        ],
      ],
      "prov:used": .array(used),
    ]
    members["prov:startedAtTime"] = description.started.map { .string($0) }
    members["prov:endedAtTime"] = description.finished.map { .string($0) }
    return .object(members)
  }

  private var used: [JSONValue] {
    guard isListed else {
      return [
        [
          "@type": "prov:Collection", "@id": "#takes",
          "prov:label": .string("\(description.sourceCount) takes; manifest.json lists them"),
        ]
      ]
    }
    return description.sources.map { take in
      let id = take.id.take
      var members: [String: JSONValue] = [
        "@type": "prov:Entity", "@id": .string(Self.identifier("#take/" + id)), "prov:label": .string("take \(id)"),
      ]
      members["sha256"] = take.inputDigest.map { .string($0.description) }
      return .object(members)
    }
  }
}
