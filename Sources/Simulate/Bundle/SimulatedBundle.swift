import Evidence
import Foundation
package import Model
import Steps
import TakesetRecorder

/// A synthetic bundle like an upload of the RealityCam app, with exact ground truth in `truth.json`. A simulated phone makes it with the recorder; other
/// forms and faults are put into the finished files.
package struct SimulatedBundle: Sendable {
  /// The form of the bundle on disk: a folder of parts, the server's storage, or the body of an upload.
  package enum Layout: String, Sendable, CaseIterable { case folder, storage, multipart }
  /// The compression of the file of depth maps.
  package enum DepthContainer: String, Sendable, CaseIterable {
    case deflate, gzip, zlib, none
  }
  /// The layout of the depth maps: bare values, or after a header with number, size and times.
  package enum DepthLayout: String, Sendable, CaseIterable { case headerless, rldp }
  /// The signature in the metadata. `mock` and `placeholder` are those of debug builds, `wrong` does not verify.
  package enum Signature: String, Sendable, CaseIterable { case final, checkpoint, mock, placeholder, absent, wrong }

  /// A fault of a finished bundle, one at a time.
  package enum Fault: String, Sendable, CaseIterable {
    case missingVideo = "missing-video"
    case missingDepth = "missing-depth"
    case missingChain = "missing-chain"
    case missingMetadata = "missing-metadata"
    case emptyVideo = "empty-video"
    case emptyDepth = "empty-depth"
    case emptyChain = "empty-chain"
    case emptyMetadata = "empty-metadata"
    case truncatedMovie = "truncated-movie"
    case noMoov = "no-moov"
    case textMovie = "text-movie"
    case playlistMovie = "playlist-movie"
    case depthDimensions = "depth-dimensions"
    case depthBomb = "depth-bomb"
    case depthCount = "depth-count"
    case invalidJSON = "invalid-json"
    case chainBase64 = "chain-base64"
    case chainFinal = "chain-final"
    case chainCheckpoint = "chain-checkpoint"
    case chainMetadata = "chain-metadata"
    case chainLength = "chain-length"
    case chainOrder = "chain-order"
  }

  /// `fast`: in virtual time; `realtime`: each frame at its time. The bytes are the same.
  package enum Pace: String, Sendable, CaseIterable { case fast, realtime }

  package var movie = SimulatedMovie()
  package var layout = Layout.folder
  package var depthContainer = DepthContainer.deflate
  package var depthLayout = DepthLayout.headerless
  package var depthSize = ImageSize(width: 256, height: 192)
  package var signature = Signature.final
  /// Whether the metadata say that the recording was cut short.
  package var isPartial = false
  package var location = false
  package var fault: Fault?
  package var pace = Pace.fast
  /// Seconds after which a call interrupts the recording.
  package var interruption: Double?
  /// File for what is hashed of each recorded frame: 32-bit length, RGB, depth map, time.
  package var hashed: String?
  /// Called when the recorder has taken a frame, with its number and its seconds.
  package var onFrame: @Sendable (Int, Double) -> Void = { _, _ in }

  package static let appID = "TAKESET001.org.example.capture"

  package init() {}

  var key: SigningKey { SigningKey(seed: movie.seed) }
  var signer: SimulatedSigner { SimulatedSigner(key, signature, deviceID: deviceID, counter: UInt32(movie.seed % 1000)) }

  /// The device's id, made from the seed.
  package var deviceID: String {
    let hex = String(Digest.of("takeset simulate device \(movie.seed)").description.prefix(32))
    let parts = [8, 4, 4, 4, 12].reduce(into: (hex[...], [Substring]())) { state, count in
      state.1.append(state.0.prefix(count))
      state.0 = state.0.dropFirst(count)
    }.1
    return parts.joined(separator: "-")
  }

  /// The file for `takeset run --keys` with which this bundle's signature verifies.
  package var keysFile: [UInt8] {
    let keys: JSONValue = [
      "app_ids": [.string(Self.appID)],
      "devices": .object([deviceID: .string(Data(key.publicPoint).base64EncodedString())]),
    ]
    return keys.canonicalBytes + [10]
  }

  /// Records the bundle in a directory that does not exist yet or is empty. Until it is complete, the recording is `directory.recording/`.
  ///
  /// - Throws: `UsageError` for any other directory, `OutputFailure` where the files cannot be written; the recording then stays.
  package func write(to directory: String) throws {
    let ticks = movie.ticks
    guard zip(ticks, ticks.dropFirst()).allSatisfy({ $0 < $1 }) else {
      throw UsageError("--timescale: \(movie.timescale) ticks a second give two of the frames the same time")
    }
    let place = URL(fileURLWithPath: directory).standardizedFileURL
    try makeRoom(for: place)
    let recorded: Recovery.Recovered?
    do {
      recorded = try record(as: place)
    } catch let error as RecordingError {
      throw OutputFailure("\(error)")
    }
    guard let recorded else { throw UsageError("--interrupt-at: nothing was recorded before \(interruption ?? 0) s") }
    let finished = try FinishedBundle(self, in: place.path)
    try finished.write()
    try Data(truth(finished, recorded).canonicalBytes + [10]).write(to: place.appendingPathComponent("truth.json"))
  }

  private func makeRoom(for place: URL) throws {
    let recording = place.path + Recovery.suffix
    guard !FileManager.default.fileExists(atPath: recording) else {
      throw UsageError("\(recording) exists; takeset recover makes a bundle of it")
    }
    try SimulatedSession.makeEmptyDirectory(place.path)
    // The recorder makes it when it is done.
    guard rmdir(place.path) == 0 else { throw OutputFailure("cannot replace the empty directory \(place.path)") }
  }

  private func record(as place: URL) throws -> Recovery.Recovered? {
    var options = BundleRecorder.Options()
    options.rate = nil
    // A slow camera, or one that drops frames, is not one that has fallen silent.
    options.limits.silence += Double(movie.dropped + 2) / movie.rate
    let recorder = BundleRecorder(
      in: place.deletingLastPathComponent().path, id: place.lastPathComponent, description, options: options,
      signer: signature == .absent ? nil : signer, { ChainHasher() }, deflate: Deflater.raw
    ) { [movie] receive in
      try SegmentEncoder(movie.encoderOptions(), receive, coded: movie.coded)
    }
    let hashed = try hashed.map { path in
      guard FileManager.default.createFile(atPath: path, contents: nil), let file = FileHandle(forWritingAtPath: path) else {
        throw OutputFailure("cannot write \(path)")
      }
      return file
    }
    let room = Room(enclosing: [])
    let began = ProcessInfo.processInfo.systemUptime
    var end = movie.seconds + Self.reaction
    try recorder.start(.init(freeSpace: .max, tracksNormally: true, sessionRuns: true), at: 0)
    try movie.render { frame in
      if let interruption, frame.seconds >= interruption {
        recorder.interrupt(.phoneCall, at: interruption)
        end = interruption
        return false
      }
      if pace == .realtime {
        let wait = began + frame.seconds - ProcessInfo.processInfo.systemUptime
        if wait > 0 { Thread.sleep(forTimeInterval: wait) }
      }
      recorder.tick(at: frame.seconds)
      let depth = room.depth(from: Room.Camera(size: depthSize, matrix: frame.matrix))
      let count = recorder.frames
      frame.pixels.withUnsafeBytes { pixels in
        depth.withUnsafeBytes { recorder.record(CameraFrame(time: frame.seconds, pixels: [pixels], depth: $0)) }
      }
      if let failure = recorder.failure { throw failure }
      guard recorder.frames > count else { return false }
      try hashed?.write(contentsOf: Self.hashed(frame.pixels, depth, frame.seconds))
      onFrame(count, frame.seconds)
      return true
    }
    let done = DispatchSemaphore(value: 0)
    nonisolated(unsafe) var result: Result<Recovery.Recovered?, any Error>?
    recorder.stop(at: end) {
      result = $0
      done.signal()
    }
    done.wait()
    if let failure = recorder.failure { throw failure }
    return try result?.get()
  }

  /// Seconds that a person takes to release the button.
  private static let reaction = 0.3

  private static func hashed(_ pixels: [UInt8], _ depth: [Float], _ seconds: Double) -> Data {
    var bytes = Data()
    withUnsafeBytes(of: UInt32(pixels.count + depth.count * 4 + 8).littleEndian) { bytes.append(contentsOf: $0) }
    bytes.append(contentsOf: pixels)
    depth.withUnsafeBytes { bytes.append(contentsOf: $0) }
    withUnsafeBytes(of: seconds.bitPattern.littleEndian) { bytes.append(contentsOf: $0) }
    return bytes
  }

  private var description: BundleDescription {
    var description = BundleDescription(
      codec: movie.codec, width: movie.size.width, height: movie.size.height, depthWidth: depthSize.width, depthHeight: depthSize.height,
      deviceModel: "iPhone", attestationLevel: "secure_enclave", startedAt: 1_764_239_400_123 + Int64(movie.seed % 1_000_000) * 1000,
      clockStart: 0)
    if location { description.location = .init(latitude: 48.137154, longitude: 11.576124) }
    return description
  }

  private func truth(_ finished: FinishedBundle, _ recorded: Recovery.Recovered) -> JSONValue {
    [
      "seed": .integer(Int64(bitPattern: movie.seed)), "pictures": JSONValue(recorded.frames), "keyframes": JSONValue(finished.keyframes),
      "depth_sizes": [JSONValue(depthSize.width), JSONValue(depthSize.height)], "timescale": JSONValue(movie.timescale),
      "ticks": .array(movie.ticks.prefix(recorded.frames).map { .integer($0) }), "device": .string(deviceID),
      "last_hash": .string(finished.lastHash.map { String(format: "%02x", $0) }.joined()),
    ]
  }
}
