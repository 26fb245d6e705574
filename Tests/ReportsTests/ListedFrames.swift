import Foundation
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Steps

extension ListedFrames {
  /// Converts a take of these times below a directory, and returns the path of the dataset.
  static func convert(_ times: String, in directory: TemporaryDirectory) throws -> String {
    try directory.write("in/take.frames", Array(times.utf8))
    let pipeline = Pipeline(readers: .one(ListedFrames()), join: nil, transforms: [], writer: HDF5Writer())
    let output = directory.path + "/out"
    _ = try Run(
      inputs: [directory.path + "/in"], output: output, pipeline: pipeline, tool: ToolIdentity(version: "test", revision: "test")
    ).execute { _ in }
    return output
  }

  /// Gives the manifest of a dataset a time an hour ago, as if the journal had been written to since.
  static func ageManifest(of dataset: String) throws {
    try FileManager.default.setAttributes(
      [.modificationDate: Date(timeIntervalSinceNow: -3600)], ofItemAtPath: dataset + "/" + DatasetFiles.manifest)
  }
}
