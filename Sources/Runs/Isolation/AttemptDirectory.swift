import Datasets
import Foundation
import Model
import Steps

/// A directory inside a dataset's, in which one attempt at a take writes its shards under their final names. No other attempt has the same
/// one, in whatever process or on whatever machine it runs.
///
/// A killed attempt leaves it behind; the next run, or `publish`, removes it.
final class AttemptDirectory {
  /// Absolute if the dataset's directory is.
  let path: String
  private let dataset: String

  /// Throws `OutputFailure` when it cannot be made.
  init(in dataset: String) throws {
    self.dataset = dataset
    var host = utsname()
    uname(&host)
    let name = withUnsafeBytes(of: host.nodename) { String(decoding: $0.prefix { $0 != 0 && $0 != UInt8(ascii: "/") }, as: UTF8.self) }
    let random = String(UInt64.random(in: .min ... .max), radix: 36)
    path = SealedFile.temporaryPath(for: "\(dataset)/\(DatasetFiles.attemptPrefix)\(name.prefix(64))-\(getpid())-\(random)")
    do {
      try Directory.create(path + "/" + DatasetFiles.episodes)
    } catch {
      throw OutputFailure(error, writing: dataset)
    }
  }

  /// Puts the shards of these results in place, durably; together they replace what an earlier conversion has left there.
  func publish(_ results: [TakeResult]) throws {
    let paths = results.compactMap(\.record.output?.path)
    do {
      for shard in paths where rename(path + "/" + shard, dataset + "/" + shard) != 0 {
        throw FileError("rename to", dataset + "/" + shard)
      }
      if let first = paths.first { try SealedFile.syncDirectory(of: dataset + "/" + first) }
    } catch {
      throw OutputFailure(error, writing: dataset)
    }
  }

  func discard() { try? FileManager.default.removeItem(atPath: path) }
}
