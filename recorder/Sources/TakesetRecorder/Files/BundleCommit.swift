import Foundation

/// Makes the finished bundle of a recording, in one way for those that were stopped and those that are recovered.
enum BundleCommit {
  /// Writes `depth.gz`, `hash_chain.json` and `metadata.json` into a folder.
  ///
  /// - Parameter source: The folder that has `depth.raw`.
  static func writeDocuments(of recording: IntactRecording, from source: String, to folder: String, _ deflate: Deflate) throws {
    try writeDepth(of: recording, from: source + "/" + IntactRecording.depthName, to: folder + "/depth.gz", deflate)
    try Files.write(BundleDocuments.chain(recording.hashes, recording.checkpoints), to: folder + "/hash_chain.json")
    let metadata = BundleDocuments.Metadata(
      description: recording.description, frames: recording.frames, keyframes: recording.keyframeTimes.count, seconds: recording.seconds,
      finalHash: recording.hashes.last ?? [], assertion: recording.assertion?.bytes ?? [], isPartial: !recording.isComplete)
    try Files.write(metadata.json, to: folder + "/metadata.json")
    try Files.syncFolder(folder)
  }

  /// One map is in memory at a time.
  private static func writeDepth(of recording: IntactRecording, from source: String, to path: String, _ deflate: Deflate) throws {
    guard let raw = FileHandle(forReadingAtPath: source) else { throw RecordingError.system("cannot be read", source) }
    var pieces = recording.maps.makeIterator()
    var header: [UInt8]? = BundleDocuments.depthHeader(times: recording.keyframeTimes, recording.description)
    try Files.write(to: path) { file in
      try deflate(
        {
          if let first = header {
            header = nil
            return first
          }
          guard let map = pieces.next() else { return nil }
          try raw.seek(toOffset: map.lowerBound)
          guard let data = try raw.read(upToCount: map.count), data.count == map.count else {
            throw RecordingError(path: source, reason: "it became shorter while it was read")
          }
          return Array(data)
        }, { try file.append($0) })
    }
  }

  /// Puts a folder in place under a name that nothing has: the only step that makes a bundle of it.
  static func publish(_ folder: String, as output: String) throws {
    guard !Files.exists(output) else { throw RecordingError(path: output, reason: "there is something already") }
    guard rename(folder, output) == 0 else { throw RecordingError.system("cannot be renamed to \(output)", folder) }
    try Files.syncFolder(URL(fileURLWithPath: output).deletingLastPathComponent().path)
  }
}
