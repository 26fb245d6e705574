import Foundation

/// The files of a bundle while it is recorded, in a folder `ID.recording/`. One thread at a time uses it.
///
/// Everything is written before the journal says so, and nothing stays in memory alone but the hashes, which the journal has too. A recording that is
/// killed is finished by `Recovery`.
final class BundleRecording {
  let folder: String
  /// Path of the finished bundle.
  let output: String
  let description: BundleDescription
  private(set) var frames = 0

  private let video, depth, journal: AppendedFile
  private let lock: FolderLock?
  private var chain: FrameChain
  private let makeHasher: MakeHasher
  private var lastTime = 0.0
  /// The reason why a segment could not be written. Belongs to the encoder's thread.
  private var segmentFailure: (any Error)?

  /// Makes the folder. Throws `RecordingError` where something has the name of the recording or of its bundle, or the description is of none.
  init(
    in parent: String, id: String, _ description: BundleDescription, checkpoints: CheckpointRule = CheckpointRule(),
    _ makeHasher: @escaping MakeHasher
  ) throws {
    (output, folder) = ("\(parent)/\(id)", "\(parent)/\(id)\(Recovery.suffix)")
    (self.description, self.makeHasher) = (description, makeHasher)
    if let problem = description.problem { throw RecordingError(path: folder, reason: problem) }
    guard !Files.exists(output) else { throw RecordingError(path: output, reason: "there is something already") }
    guard mkdir(folder, 0o755) == 0 else { throw RecordingError.system("cannot be made", folder) }
    lock = FolderLock(folder)
    chain = FrameChain(rule: checkpoints, makeHasher)
    do {
      try Files.write(description.json, to: folder + "/" + BundleDescription.name)
      video = try AppendedFile(creating: folder + "/" + IntactRecording.videoName)
      depth = try AppendedFile(creating: folder + "/" + IntactRecording.depthName)
      journal = try AppendedFile(creating: folder + "/" + IntactRecording.journalName)
      try Files.syncFolder(folder)
      try Files.syncFolder(parent)
    } catch {
      // Nothing is recorded in it, and its name is free again.
      try? FileManager.default.removeItem(atPath: folder)
      throw error
    }
  }

  /// Adds a frame.
  ///
  /// - Parameters:
  ///   - pixels: The camera's bytes, in parts.
  ///   - depth: The frame's depth map, 32-bit floats in meters, of the size that the description says.
  ///   - time: Seconds since the first frame, ascending.
  /// - Returns: The checkpoint that the frame completes, to be signed at once.
  func add(_ pixels: [UnsafeRawBufferPointer], depth map: UnsafeRawBufferPointer?, time: Double) throws -> FrameChain.Checkpoint? {
    if let map, map.count != description.depthWidth * description.depthHeight * 4 {
      throw RecordingError(
        path: folder, reason: "a depth map has \(map.count) bytes; expected \(description.depthWidth)x\(description.depthHeight) floats")
    }
    let number = frames
    let (hash, checkpoint) = chain.add(pixels, depth: map, time: time)
    try note(.frame(number: UInt32(number), time: time, hash: hash))
    if let map, KeyframeRule.isKeyframe(number) {
      try depth.append(map)
      var hasher = makeHasher()
      hasher.update(map)
      try note(.keyframe(frame: UInt32(number), end: depth.count, digest: hasher.finish()))
    }
    if let checkpoint { try note(.checkpoint(frames: UInt32(checkpoint.frames), time: checkpoint.time, hash: checkpoint.hash)) }
    (frames, lastTime) = (number + 1, time)
    return checkpoint
  }

  /// Adds a segment of the movie, which begins with a key frame; before the first, the initialization belongs to it.
  ///
  /// - Parameters:
  ///   - frames: Frames in the movie up to its end.
  ///   - locked: Runs what another thread must not disturb. Waiting for the disk is not part of it, so that frames can be added meanwhile.
  func addSegment(_ bytes: [UInt8], frames: Int, locked: (() throws -> Void) throws -> Void = { try $0() }) throws {
    // Without it, the frames of all that follow would be taken for others.
    guard segmentFailure == nil else { throw RecordingError(path: video.path, reason: "a segment before this one is missing") }
    var hasher = makeHasher()
    bytes.withUnsafeBytes { hasher.update($0) }
    let digest = hasher.finish()
    do {
      try video.append(bytes)
      // The journal last: it must not speak of what is not on the disk.
      try video.sync()
      try depth.sync()
      try locked { try note(.segment(end: video.count, frames: UInt32(frames), digest: digest)) }
    } catch {
      segmentFailure = error
      throw error
    }
    try journal.sync()
  }

  /// Adds the signature over the hash after so many frames.
  func addAssertion(_ bytes: [UInt8], frames: Int) throws { try note(.assertion(frames: UInt32(frames), bytes: bytes)) }

  func drop(_ count: Int, reason: String) throws { try note(.drop(count: UInt32(clamping: count), reason: reason)) }

  func interrupt(reason: String) throws { try note(.interrupted(time: lastTime, reason: reason)) }

  /// The hash of the last frame, for the signature of a whole recording.
  var finalHash: [UInt8]? { chain.hashes.last }

  /// Says that the recording is over as it should be.
  ///
  /// - Parameter time: Seconds from the first frame to the end.
  func stop(time: Double) throws {
    try note(.stopped(time: time, frames: UInt32(frames)))
    try journal.sync()
  }

  /// Removes a recording that has no frame.
  func discard() { try? FileManager.default.removeItem(atPath: folder) }

  /// Makes the bundle, after the last segment. Returns `nil` where there is no frame: the folder is then gone. Throws what kept the first segment
  /// from the disk, if there are frames and no movie.
  func commit(deflate: @escaping Deflate) throws -> Recovery.Recovered? {
    let recording = try IntactRecording(folder, makeHasher)
    guard let recording, let recovered = Recovery.Recovered(recording, id: URL(fileURLWithPath: output).lastPathComponent, output: output)
    else {
      guard frames == 0 else { throw segmentFailure ?? RecordingError(path: folder, reason: "its movie is empty; what there is stays") }
      try FileManager.default.removeItem(atPath: folder)
      return nil
    }
    let movie = folder + "/" + IntactRecording.videoName
    guard truncate(movie, off_t(recording.videoEnd)) == 0 else { throw RecordingError.system("cannot be cut", movie) }
    try BundleCommit.writeDocuments(of: recording, from: folder, to: folder, deflate)
    try BundleCommit.publish(folder, as: output)
    // What it was made from is in the bundle now.
    for name in [IntactRecording.depthName, IntactRecording.journalName, BundleDescription.name] { unlink(output + "/" + name) }
    return recovered
  }

  private func note(_ entry: JournalEntry) throws { try journal.append(entry.bytes) }
}
