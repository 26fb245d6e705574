package import Evidence
import Runs
import Steps

/// The JSON Schema of pipeline files, generated from the options that steps declare.
package enum PipelineSchema {
  package static var json: JSONValue {
    [
      "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Takeset pipeline file",
      "type": "object", "required": ["version"], "additionalProperties": false,
      "properties": [
        "version": ["const": 1],
        "reader": [
          "default": "auto",
          "oneOf": .array([["const": "auto"], ["enum": names(.reader)]] + steps(.reader).map { reference(.reader, $0) }),
        ],
        "join": Join.schema,
        "transforms": [
          "default": [], "type": ["array", "null"], "items": ["oneOf": [["enum": names(.transform)], one(of: .transform)]],
        ],
        "writer": ["default": ["hdf5": [:]], "oneOf": [["type": "null"], ["enum": names(.writer)], one(of: .writer)]],
      ],
      "$defs": .object(
        Dictionary(
          uniqueKeysWithValues: [("options", .object(shared))]
            + StepDescription.Kind.ofPipelines.map { kind in
              (kind.rawValue + "s", .object(Dictionary(uniqueKeysWithValues: steps(kind).map { ($0.name, definition($0)) })))
            })),
    ]
  }

  /// Options of which several readers have the same, such as the limits of archives.
  private static let shared: [String: JSONValue] = {
    let all = Dictionary(grouping: steps(.reader).flatMap(\.options), by: \.name)
    return all.compactMapValues { options in
      options.count > 1 && options.allSatisfy { $0.schema == options[0].schema } ? options[0].schema : nil
    }
  }()

  private static func steps(_ kind: StepDescription.Kind) -> [StepDescription] { StepDescription.all.filter { $0.kind == kind } }

  private static func names(_ kind: StepDescription.Kind) -> JSONValue { .array(steps(kind).map { .string($0.name) }) }

  private static func reference(_ kind: StepDescription.Kind, _ step: StepDescription) -> JSONValue {
    ["$ref": .string("#/$defs/\(kind.rawValue)s/\(step.name)")]
  }

  /// An object with a step's name as its only key.
  private static func one(of kind: StepDescription.Kind) -> JSONValue {
    [
      "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
      "properties": .object(Dictionary(uniqueKeysWithValues: steps(kind).map { ($0.name, reference(kind, $0)) })),
    ]
  }

  private static func definition(_ step: StepDescription) -> JSONValue {
    var properties = Dictionary(
      uniqueKeysWithValues: step.options.map { option in
        (option.name, shared[option.name] == option.schema ? ["$ref": .string("#/$defs/options/\(option.name)")] : option.schema)
      })
    var schema: [String: JSONValue] = ["type": ["object", "null"], "additionalProperties": false, "description": .string(step.summary)]
    if step.kind == .reader {
      properties["name"] = ["const": .string(step.name)]
      (schema["type"], schema["required"]) = ("object", ["name"])
    }
    schema["properties"] = .object(properties)
    return .object(schema)
  }
}
