import Datasets
import Evidence
import Foundation
import Model
import Steps

/// A file of a dataset, with the digest of all its bytes.
struct DatasetFile: Sendable, Equatable {
  /// Relative to the dataset's directory.
  var path: String
  var bytes: Int64
  var digest: Digest
}

extension Dataset {
  /// The index and, in the order of the index, the shards, read completely. Throws `FileError` or `TakeFailure` for the first that cannot
  /// be read, `UsageError` for a path that leads outside.
  func files(threads: Int) throws -> [DatasetFile] {
    let paths = [record.index.path] + takes.compactMap { $0.output?.path }
    if let outside = paths.first(where: { !DatasetFiles.isInside($0) }) {
      throw UsageError("\(directory)/\(DatasetFiles.manifest) names a file outside the dataset: \(outside)")
    }
    return try inParallel(paths.count, threads: threads) { [directory] index in
      Result {
        let (digest, bytes) = try SealedFile.digest(of: directory + "/" + paths[index])
        return DatasetFile(path: paths[index], bytes: bytes, digest: digest)
      }
    }.map { try $0.get() }
  }
}
