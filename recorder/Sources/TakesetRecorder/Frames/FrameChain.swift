/// SHA-256, which the owner brings: CryptoKit on Apple's systems.
public protocol FrameHasher {
  mutating func update(_ bytes: UnsafeRawBufferPointer)
  /// The digest, 32 bytes.
  mutating func finish() -> [UInt8]
}

public typealias MakeHasher = @Sendable () -> any FrameHasher

/// The chain of hashes over the frames of a recording: H(n) is the SHA-256 of the frame's pixels, its depth map, its time and H(n-1).
struct FrameChain: Sendable {
  struct Checkpoint: Sendable, Equatable {
    /// Number of frames that it covers.
    var frames: Int
    /// Seconds since the recording began.
    var time: Double
    var hash: [UInt8]
  }

  private(set) var hashes: [[UInt8]] = []
  private(set) var checkpoints: [Checkpoint] = []
  private let rule: CheckpointRule
  private let makeHasher: MakeHasher

  init(rule: CheckpointRule = CheckpointRule(), _ makeHasher: @escaping MakeHasher) {
    (self.rule, self.makeHasher) = (rule, makeHasher)
  }

  /// Adds a frame.
  ///
  /// - Parameters:
  ///   - pixels: The camera's bytes, in parts.
  ///   - depth: 32-bit floats in meters, lowest byte first; `nil` without a map.
  ///   - time: Seconds since the recording began.
  /// - Returns: H(n), and the checkpoint that the frame completes.
  mutating func add(_ pixels: [UnsafeRawBufferPointer], depth: UnsafeRawBufferPointer?, time: Double) -> (
    hash: [UInt8], checkpoint: Checkpoint?
  ) {
    var hasher = makeHasher()
    for part in pixels { hasher.update(part) }
    if let depth { hasher.update(depth) }
    withUnsafeBytes(of: time.bitPattern.littleEndian) { hasher.update($0) }
    if let last = hashes.last { last.withUnsafeBytes { hasher.update($0) } }
    let hash = hasher.finish()
    hashes.append(hash)
    guard rule.isCheckpoint(hashes.count) else { return (hash, nil) }
    let checkpoint = Checkpoint(frames: hashes.count, time: time, hash: hash)
    checkpoints.append(checkpoint)
    return (hash, checkpoint)
  }
}
