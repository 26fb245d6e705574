import Foundation
package import HDF5
import Model
import Steps

/// A shard with the contents that the manifest records: as it was written, or with what another program has added or stored in another way.
///
/// The library opens it only after that is known, since it has been seen to crash on damaged files.
package struct RecordedShard: Sendable {
  let path: String
  /// The file's stamp when it was opened.
  let stamp: FileStamp
  /// The places of its chunks; `nil` where another program has written to it, so that only the library can find them.
  let map: FileMap?
  /// A sentence that names what another program has added; `nil` if none has written to it.
  package let note: String?

  /// Throws `FileError`, `TakeFailure` where it is not a regular file, or `FileMap.Damaged` where its contents are not those recorded.
  ///
  /// - Parameter checks: The check of its contents if another program has written to it; `none` refuses it then.
  package init(_ path: String, _ output: OutputRecord, _ checks: Verification.ExternalChecks) throws {
    self.path = path
    try WrittenShard.checkFolder(of: path)
    stamp = try InputFile(path).stamp
    if let shard = try Self.unchanged(path, output) {
      (map, note) = (shard.map, nil)
      return
    }
    let report = try checks.shard(path, output)
    if let first = report.differences.first {
      let place = first.path.split(separator: ":", maxSplits: 1).dropFirst().first ?? "it"
      throw FileMap.Damaged(description: "\(place) \(first.message); takeset verify says what else differs")
    }
    // Other bytes in a file of the same length are damage, unless something was added.
    guard stamp.bytes != output.bytes || !report.added.isEmpty else {
      throw FileMap.Damaged(description: "it was changed after it was written; takeset verify says what differs")
    }
    (map, note) = (nil, report.notes.first)
  }

  private static func unchanged(_ path: String, _ output: OutputRecord) throws -> WrittenShard? {
    do {
      let shard = try WrittenShard(path)
      return try shard.structureDigest() == output.structureDigest ? shard : nil
    } catch is FileMap.Damaged {
      return nil
    }
  }

  /// Opens it with the library. Throws `HDF5Error`, or `TakeFailure` where it is another file by now.
  package func open() throws -> File { try file.library() }

  var file: StoredFile { StoredFile(path: path, stamp: stamp) }
}
