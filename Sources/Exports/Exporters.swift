/// All formats, in alphabetical order.
package enum Exporters {
  /// The formats of `takeset export`.
  package static let all: [any Exporter.Type] = [
    ALOHAExporter.self,
    COLMAPExporter.self,
    KITTIExporter.self,
    MCAPExporter.self,
    NerfstudioExporter.self,
    PLYExporter.self,
    TUMExporter.self,
    WebDatasetExporter.self,
    ZarrExporter.self,
  ]

  /// The names that can be given as a format: these, and the one that the Python package writes.
  package static var names: [String] { (all.map { $0.name } + ["lerobot"]).sorted() }
}
