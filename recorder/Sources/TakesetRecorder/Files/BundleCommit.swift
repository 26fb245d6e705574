import Foundation

/// Makes the finished bundle of a recording, in one way for those that were stopped and those that are recovered.
enum BundleCommit {
  /// Raw deflate, which the owner brings.
  typealias Deflate = @Sendable ([UInt8]) -> [UInt8]

  /// Writes `depth.gz`, `hash_chain.json` and `metadata.json` into a folder.
  ///
  /// - Parameter source: The folder that has `depth.raw`.
  static func writeDocuments(of recording: IntactRecording, from source: String, to folder: String, _ deflate: Deflate) throws {
    let raw = try Files.read(source + "/" + IntactRecording.depthName)
    let maps = recording.maps.flatMap { raw[Int($0.lowerBound)..<Int($0.upperBound)] }
    let depth = BundleDocuments.depth(maps, times: recording.keyframeTimes, recording.description)
    try Files.write(deflate(depth), to: folder + "/depth.gz")
    try Files.write(BundleDocuments.chain(recording.hashes, recording.checkpoints), to: folder + "/hash_chain.json")
    let metadata = BundleDocuments.Metadata(
      description: recording.description, frames: recording.frames, keyframes: recording.keyframeTimes.count, seconds: recording.seconds,
      finalHash: recording.hashes.last ?? [], assertion: recording.assertion?.bytes ?? [], isPartial: !recording.isComplete)
    try Files.write(metadata.json, to: folder + "/metadata.json")
    try Files.syncFolder(folder)
  }

  /// Puts a folder in place under a name that nothing has: the only step that makes a bundle of it.
  static func publish(_ folder: String, as output: String) throws {
    guard !Files.exists(output) else { throw RecordingError(path: output, reason: "there is something already") }
    guard rename(folder, output) == 0 else { throw RecordingError.system("cannot be renamed to \(output)", folder) }
    try Files.syncFolder(URL(fileURLWithPath: output).deletingLastPathComponent().path)
  }
}
