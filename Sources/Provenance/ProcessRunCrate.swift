import Datasets
import Evidence
import Foundation
import Model
import Steps

/// RO-Crate metadata (version 1.1) of a dataset after the profile Process Run Crate 0.5: the files, the program that made them, from what.
struct ProcessRunCrate {
  private let description: DatasetDescription
  private var record: ManifestRecord { description.record }

  init(_ description: DatasetDescription) { self.description = description }

  private static let profile = "https://w3id.org/ro/wfrun/process/0.5"

  var json: JSONValue {
    [
      // The context of RO-Crate 1.1 does not have this term yet.
      "@context": ["https://w3id.org/ro/crate/1.1/context", ["sha256": "http://schema.org/sha256"]],
      "@graph": .array(
        [descriptor, root, profileEntity, tool, pipeline, action] + persons + license + files + (isListed ? takes + additions : [])),
    ]
  }

  private var isListed: Bool { description.isListed }

  private static func reference(_ id: String) -> JSONValue { ["@id": .string(id)] }

  /// A relative URI: RO-Crate wants paths percent-encoded.
  private static func identifier(_ path: String) -> String { path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? path }

  private var descriptor: JSONValue {
    [
      "@id": .string(DatasetFiles.crate), "@type": "CreativeWork", "about": Self.reference("./"),
      "conformsTo": Self.reference("https://w3id.org/ro/crate/1.1"),
    ]
  }

  private var root: JSONValue {
    var members: [String: JSONValue] = [
      "@id": "./", "@type": "Dataset", "name": .string(description.name), "description": .string(description.sentence),
      "conformsTo": Self.reference(Self.profile), "hasPart": .array(parts.map { Self.reference($0) }),
      "mentions": Self.reference("#conversion"),
      "license": description.licenseURL.map { Self.reference($0) } ?? "Not stated; ask whoever published the dataset.",
    ]
    members["datePublished"] = description.day.map { .string($0) }
    members["url"] = description.options.url.map { .string($0) }
    if !persons.isEmpty { members["author"] = agents }
    return .object(members)
  }

  private var profileEntity: JSONValue {
    ["@id": .string(Self.profile), "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"]
  }

  private var toolID: String { ProvenanceStatement.package(of: record) }

  private var tool: JSONValue {
    [
      "@id": .string(toolID), "@type": "SoftwareApplication", "name": "takeset", "softwareVersion": .string(description.version),
      "description": "Converts raw phone captures into HDF5 training data.", "identifier": JSONValue(record.tool["revision"]?.string),
    ]
  }

  private var pipeline: JSONValue {
    ["@id": "#pipeline", "@type": "PropertyValue", "name": "pipeline", "value": .string(record.pipeline.canonicalText)]
  }

  private var action: JSONValue {
    var members: [String: JSONValue] = [
      "@id": "#conversion", "@type": "CreateAction", "name": "Conversion of raw takes",
      "description": .string(
        "takeset read \(several(description.sourceCount, "take")) and wrote "
          + "\(several(description.dataset.written.count, "episode"))."
      ),
      "instrument": Self.reference(toolID),
      "object": .array(
        [Self.reference("#pipeline")] + (isListed ? (takes + additions).map { Self.reference($0["@id"]?.string ?? "") } : [])),
      "result": .array(parts.map { Self.reference($0) }), "actionStatus": "http://schema.org/CompletedActionStatus",
    ]
    members["startTime"] = description.started.map { Self.time($0) }
    members["endTime"] = description.finished.map { Self.time($0) }
    if !persons.isEmpty { members["agent"] = agents }
    return .object(members)
  }

  /// A time with the offset in digits, as the profile's validator wants it.
  private static func time(_ text: String) -> JSONValue { .string(text.hasSuffix("Z") ? text.dropLast() + "+00:00" : text) }

  // MARK: People and license

  /// References to the creators; a single one is no list.
  private var agents: JSONValue {
    let references = description.options.creators.indices.map { Self.reference("#creator-\($0 + 1)") }
    return references.count == 1 ? references[0] : .array(references)
  }

  private var persons: [JSONValue] {
    description.options.creators.enumerated().map { ["@id": .string("#creator-\($0 + 1)"), "@type": "Person", "name": .string($1)] }
  }

  private var license: [JSONValue] {
    guard let url = description.licenseURL, let name = description.options.license else { return [] }
    return [["@id": .string(url), "@type": "CreativeWork", "name": .string(name), "description": .string("The license \(name).")]]
  }

  // MARK: Files and takes

  private var parts: [String] { listedFiles.map { Self.identifier($0.path) } }

  /// The files to list; for many shards, the folder stands for all.
  private var listedFiles: [DatasetFile] {
    [description.manifestFile] + (isListed ? description.files : Array(description.files.prefix(1)))
  }

  private var files: [JSONValue] {
    listedFiles.map { file in
      [
        "@id": .string(Self.identifier(file.path)), "@type": "File", "name": .string(file.path), "contentSize": .string("\(file.bytes)"),
        "encodingFormat": file.path == DatasetFiles.manifest ? "application/json" : "application/x-hdf5",
        "sha256": .string(file.digest.description),
      ]
    }
  }

  /// The files of streams that were added.
  private var additions: [JSONValue] {
    description.additions.map { addition in
      [
        "@id": .string("#values/\(addition.stream)/\(addition.digest.description.prefix(16))"), "@type": "CreativeWork",
        "name": .string("values of \(addition.stream)"), "description": .string("The file \(addition.file), which takeset add has read."),
        "sha256": .string(addition.digest.description),
      ]
    }
  }

  private var takes: [JSONValue] {
    description.sources.map { take in
      var members: [String: JSONValue] = [
        "@id": .string("#take/" + Self.identifier(take.id.take)), "@type": "CreativeWork", "name": .string("take \(take.id.take)"),
        "description": .string("\(several(take.inputs.count, "file")) of \(take.reader ?? "no known format")."),
      ]
      members["sha256"] = take.inputDigest.map { .string($0.description) }
      return .object(members)
    }
  }
}
