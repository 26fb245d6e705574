import Evidence
import Model
import Simulate
import TestSupport

@testable import Datasets
@testable import Merging
@testable import Runs
@testable import Steps
@testable import Transforms

/// Datasets of one small session each, in a directory of their own.
struct SmallDatasets {
  static let tool = ToolIdentity(version: "test", revision: "test")
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  func path(_ name: String) -> String { directory.path + "/" + name }

  /// The session `session_<name>` as the dataset `name`.
  func convert(_ name: String, _ transforms: [any Transform] = [Align()]) throws -> Dataset {
    var session = SimulatedSession()
    (session.variant, session.seconds) = (.v3SLAM, 0.5)
    (session.size, session.depthSize) = (ImageSize(width: 32, height: 24), ImageSize(width: 8, height: 6))
    try session.write(to: path("in_\(name)/session_\(name)"))
    let pipeline = Pipeline(readers: .auto, join: nil, transforms: transforms, writer: HDF5Writer())
    _ = try Run(inputs: [path("in_\(name)")], output: path(name), pipeline: pipeline, tool: Self.tool).execute { _ in }
    return try Dataset(directory: path(name))
  }

  func merge(_ sources: [Dataset], selecting selected: [String] = [], to name: String) throws -> Dataset {
    var merge = DatasetMerge(sources, tool: Self.tool)
    merge.selected = selected
    _ = try merge.write(to: path(name), replacing: false)
    return try Dataset(directory: path(name))
  }

  /// Replaces the line that a dataset's journal has of an episode.
  func edit(_ id: String, of dataset: Dataset, _ change: (inout Journal.Entry) -> Void) throws {
    let journal = try Journal(path: dataset.directory + "/" + DatasetFiles.journal)
    guard var entry = journal.entries[id] else { throw ExportRefusal("there is no \(id)") }
    let record = try journal.record(of: id)
    change(&entry)
    try journal.append(entry, record: record)
  }
}
