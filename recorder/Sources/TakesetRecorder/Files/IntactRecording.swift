import Foundation

/// The part of a bundle's recording that is certain: the whole beginning of its journal, and the bytes of the other files that the journal
/// and its digests confirm.
struct IntactRecording {
  static let videoName = "video.mp4", depthName = "depth.raw", journalName = "journal"

  let description: BundleDescription
  /// Entries of the journal that are whole.
  private(set) var entries = 0
  /// H(n) and the time of each frame that is in the movie.
  private(set) var hashes: [[UInt8]] = []
  private(set) var times: [Double] = []
  /// Bytes of the movie up to the end of its last whole segment.
  private(set) var videoEnd: UInt64 = 0
  /// Times of the depth maps that are whole, and where they are in `depth.raw`.
  private(set) var keyframeTimes: [Double] = []
  private(set) var maps: [Range<UInt64>] = []
  private(set) var checkpoints: [FrameChain.Checkpoint] = []
  /// The newest signature over frames that are in the movie.
  private(set) var assertion: (frames: Int, bytes: [UInt8])?
  /// Seconds to the end.
  private(set) var seconds = 0.0
  /// Whether it was stopped, and nothing is missing.
  private(set) var isComplete = false

  var frames: Int { hashes.count }
  var verifiedFrames: Int { assertion?.frames ?? 0 }
  var verifiedSeconds: Double {
    guard let assertion else { return 0 }
    return assertion.frames == frames && isComplete ? seconds : times[assertion.frames - 1]
  }

  /// Bytes of a journal. A day of 60 frames a second has 275 MB.
  private static let longestJournal = 300_000_000

  /// Reads a folder `ID.recording/`; `nil` where its recorder was killed before it wrote anything of a recording.
  ///
  /// - Throws: `RecordingError` where its description or its journal cannot be read, or a file that the journal speaks of. Only bytes that can be read
  ///   and have another digest end what is certain.
  init?(_ folder: String, _ makeHasher: @escaping MakeHasher) throws {
    if try Self.isUnbegun(folder) { return nil }
    let path = folder + "/" + BundleDescription.name
    description = try BundleDescription(json: RecordedFile.all(of: path, limit: 1 << 20), path: path)
    let (found, _) = JournalEntry.read(try RecordedFile.all(of: folder + "/" + Self.journalName, limit: Self.longestJournal))
    entries = found.count
    var all: [(time: Double, hash: [UInt8])] = []
    var segments: [(end: UInt64, frames: Int, digest: [UInt8])] = []
    var noted: [(frame: Int, end: UInt64, digest: [UInt8])] = []
    var assertions: [(frames: Int, bytes: [UInt8])] = []
    var stopped: (time: Double, frames: Int)?
    var isInterrupted = false
    for entry in found {
      switch entry {
      case .frame(let number, let time, let hash):
        if Int(number) == all.count, (0...86_400).contains(time) { all.append((time, hash)) }
      case .keyframe(let frame, let end, let digest): noted.append((Int(frame), end, digest))
      case .segment(let end, let frames, let digest): segments.append((end, Int(frames), digest))
      case .checkpoint(let frames, let time, let hash): checkpoints.append(.init(frames: Int(frames), time: time, hash: hash))
      case .assertion(let frames, let bytes): assertions.append((Int(frames), bytes))
      case .interrupted: isInterrupted = true
      case .stopped(let time, let frames): stopped = (time, Int(frames))
      case .drop: break
      }
    }
    var frames = 0
    var movie = Pieces(folder + "/" + Self.videoName, makeHasher)
    for segment in segments {
      guard segment.frames >= frames, segment.frames <= all.count, try movie.confirms(segment.digest, upTo: segment.end) else { break }
      (videoEnd, frames) = (segment.end, segment.frames)
    }
    hashes = all.prefix(frames).map(\.hash)
    times = all.prefix(frames).map(\.time)
    var depth = Pieces(folder + "/" + Self.depthName, makeHasher)
    let length = UInt64(description.depthWidth * description.depthHeight * 4)
    var depthEnd: UInt64 = 0
    for map in noted where map.frame < frames {
      guard map.end == depthEnd + length else { break }
      // A map that is damaged costs no other.
      if try depth.confirms(map.digest, upTo: map.end) {
        maps.append(depthEnd..<map.end)
        keyframeTimes.append(times[map.frame])
      }
      depthEnd = map.end
    }
    checkpoints = checkpoints.filter { (1...max(frames, 1)).contains($0.frames) && $0.frames <= frames && $0.hash == hashes[$0.frames - 1] }
    assertion = assertions.filter { $0.frames > 0 && $0.frames <= frames }.max { $0.frames < $1.frames }
    if let stopped, !isInterrupted, stopped.frames == frames, frames > 0, (0...86_400).contains(stopped.time) { isComplete = true }
    seconds = isComplete ? stopped?.time ?? 0 : times.last ?? 0
  }

  /// Whether a folder has the files of a recording's first moment only, all of them empty but its description.
  private static func isUnbegun(_ folder: String) throws -> Bool {
    guard let names = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
      throw RecordingError(path: folder, reason: "it cannot be listed", isDamage: true)
    }
    let about = [BundleDescription.name, Files.temporary(BundleDescription.name)]
    return try names.allSatisfy { name in
      if about.contains(name) { return true }
      return try [videoName, depthName, journalName].contains(name) && RecordedFile(folder + "/" + name).count == 0
    }
  }

  /// The pieces of a file, each confirmed by its digest before the next is looked at.
  private struct Pieces {
    private let path: String
    private let makeHasher: MakeHasher
    private var file: RecordedFile?
    private var position: UInt64 = 0

    init(_ path: String, _ makeHasher: @escaping MakeHasher) { (self.path, self.makeHasher) = (path, makeHasher) }

    mutating func confirms(_ digest: [UInt8], upTo end: UInt64) throws -> Bool {
      let file = try self.file ?? RecordedFile(path)
      self.file = file
      guard position <= end, end <= file.count else { return false }
      var hasher = makeHasher()
      try file.read(position..<end) { $0.withUnsafeBytes { hasher.update($0) } }
      position = end
      return hasher.finish() == digest
    }
  }
}
