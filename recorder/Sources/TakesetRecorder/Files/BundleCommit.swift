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

  /// Writes the depth maps in a gzip member (RFC 1952) without a time. One map is in memory at a time.
  private static func writeDepth(of recording: IntactRecording, from source: String, to path: String, _ deflate: Deflate) throws {
    let raw = recording.maps.isEmpty ? nil : try RecordedFile(source)
    var maps = recording.maps.makeIterator()
    var header: [UInt8]? = BundleDocuments.depthHeader(times: recording.keyframeTimes, recording.description)
    var (crc, count) = (CRC32(), 0)
    func next() throws -> [UInt8]? {
      var piece = header
      header = nil
      if piece == nil, let raw, let map = maps.next() {
        var bytes: [UInt8] = []
        try raw.read(map) { bytes += $0 }
        piece = bytes
      }
      crc.update(piece ?? [])
      count += piece?.count ?? 0
      return piece
    }
    try Files.write(to: path) { file in
      try file.append([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])
      try deflate(next, { try file.append($0) })
      let end = [crc.value, UInt32(truncatingIfNeeded: count)].flatMap { number in withUnsafeBytes(of: number.littleEndian, Array.init) }
      try file.append(end)
    }
  }

  /// Puts a folder in place under a name that nothing has: the only step that makes a bundle of it.
  static func publish(_ folder: String, as output: String) throws {
    guard !Files.exists(output) else { throw RecordingError(path: output, reason: "there is something already") }
    guard rename(folder, output) == 0 else { throw RecordingError.system("cannot be renamed to \(output)", folder) }
    try Files.syncFolder(URL(fileURLWithPath: output).deletingLastPathComponent().path)
  }
}
