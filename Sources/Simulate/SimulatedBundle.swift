import Evidence
import Foundation
import Media
package import Model

/// A synthetic bundle like an upload of the RealityCam app, with exact ground truth in `truth.json`.
package struct SimulatedBundle: Sendable {
  package enum Layout: String, Sendable, CaseIterable { case folder, storage, multipart }
  package enum DepthContainer: String, Sendable, CaseIterable {
    case deflate, gzip, zlib, none
    fileprivate var windowBits: Int32 { self == .gzip ? 31 : self == .zlib ? 15 : -15 }
  }
  package enum DepthLayout: String, Sendable, CaseIterable { case headerless, rldp }
  package enum Signature: String, Sendable, CaseIterable { case final, checkpoint, mock, placeholder, absent, wrong }

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

  package static let appID = "TAKESET001.org.example.capture"

  package init() {}

  private var key: SigningKey { SigningKey(seed: movie.seed) }

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

  /// Writes the bundle into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    var chain = SimulatedChain()
    var maps: [[Float]] = []
    let room = Room(enclosing: [])
    // The app uploads its QuickTime file with the extension of an MP4 file.
    let video = directory + "/video.mp4"
    try movie.write(to: directory + "/video.mov") { frame in
      let depth = room.depth(from: Room.Camera(size: depthSize, matrix: frame.matrix))
      chain.add(pixels: frame.pixels, depth: depth, seconds: frame.seconds)
      if frame.number % 3 == 0, maps.count < 150 { maps.append(depth) }
    }
    try FileManager.default.moveItem(atPath: directory + "/video.mov", toPath: video)
    if fault == .depthCount { maps.removeLast() }

    var parts: [(name: String, bytes: [UInt8])] = [
      ("video", Array(try Data(contentsOf: URL(fileURLWithPath: video)))), ("depth_data", depthPart(maps)),
      ("hash_chain", chainPart(&chain)), ("metadata", metadataPart(chain, keyframes: maps.count)),
    ]
    try FileManager.default.removeItem(atPath: video)
    damage(&parts)
    try write(parts, to: directory)
    try Data(truth(chain, keyframes: maps.count).canonicalBytes + [10]).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }

  private func write(_ parts: [(name: String, bytes: [UInt8])], to directory: String) throws {
    func write(_ name: String, _ bytes: [UInt8]) throws {
      try Data(bytes).write(to: URL(fileURLWithPath: directory + "/" + name))
    }
    let names = ["video": "video.mp4", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"]
    switch layout {
    case .folder: for part in parts { try write(names[part.name] ?? part.name, part.bytes) }
    case .storage:
      for part in parts where part.name != "metadata" {
        try write(part.name == "depth_data" ? "video_depth.gz" : names[part.name] ?? part.name, part.bytes)
      }
    case .multipart:
      let types = ["video": "video/mp4", "depth_data": "application/gzip"]
      let boundary = "--RialVideo-\(deviceID.uppercased())"
      var body: [UInt8] = []
      for part in parts {
        body += "\(boundary)\r\nContent-Disposition: form-data; name=\"\(part.name)\"; filename=\"\(names[part.name] ?? "")\"\r\n".utf8
        body += "Content-Type: \(types[part.name] ?? "application/json")\r\n\r\n".utf8
        body += part.bytes + Array("\r\n".utf8)
      }
      try write("upload.multipart", body + Array("\(boundary)--\r\n".utf8))
    }
  }

  // MARK: Parts

  private func depthPart(_ maps: [[Float]]) -> [UInt8] {
    if fault == .depthBomb {
      // Inflates to a thousand times its size.
      let zeros = [UInt8](repeating: 0, count: 1 << 20)
      return Deflater.deflate((0..<300).lazy.map { _ in zeros }, windowBits: 31)
    }
    var raw: [UInt8] = []
    if depthLayout == .rldp || fault == .depthDimensions {
      let side = fault == .depthDimensions ? (UInt16.max, UInt16.max) : (UInt16(depthSize.width), UInt16(depthSize.height))
      raw += "RLDP".utf8
      func append(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.littleEndian) { raw += $0 } }
      append(UInt32(1))
      append(UInt32(maps.count))
      append(side.0)
      append(side.1)
      let ticks = movie.ticks
      for index in maps.indices {
        append((Double(ticks[min(3 * index, ticks.count - 1)]) / Double(movie.timescale)).bitPattern)
        append(UInt32(index * depthSize.width * depthSize.height * 4))
      }
    }
    for map in maps { map.withUnsafeBytes { raw += $0 } }
    return depthContainer == .none ? raw : Deflater.deflate([raw], windowBits: depthContainer.windowBits)
  }

  private func chainPart(_ chain: inout SimulatedChain) -> [UInt8] {
    switch fault {
    case .chainLength: chain.hashes.removeLast(min(6, chain.hashes.count - 1))
    case .chainOrder where chain.hashes.count > 150: chain.hashes.swapAt(149, 148)
    default: break
    }
    var json = chain.json
    switch fault {
    case .chainBase64: json = json.replacing(chain.base64(chain.hashes[0]), with: "not base64!")
    case .chainFinal:
      json = json.replacing(
        "\"final_hash\":\"\(chain.base64(chain.hashes[chain.hashes.count - 1]))\"",
        with: "\"final_hash\":\"\(chain.base64(chain.hashes[0]))\"")
    case .chainCheckpoint:
      if let point = chain.checkpoints.first {
        json = json.replacing("\"hash\":\"\(chain.base64(point.hash))\"", with: "\"hash\":\"\(chain.base64(Digest.of("other")))\"")
      }
    default: break
    }
    return Array(json.utf8)
  }

  private func metadataPart(_ chain: SimulatedChain, keyframes: Int) -> [UInt8] {
    let final = fault == .chainMetadata ? Digest.of("other") : chain.hashes[chain.hashes.count - 1]
    let start = Date(timeIntervalSince1970: 1_764_239_400.123 + Double(movie.seed % 1_000_000))
    let format = ISO8601DateFormatter()
    format.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
    var members: [String: String] = [
      "started_at": "\"\(format.string(from: start))\"",
      "ended_at": "\"\(format.string(from: start.addingTimeInterval(movie.seconds + 0.3)))\"",
      "duration_ms": "\(Int(movie.seconds * 1000) + 300)", "frame_count": "\(chain.recorded)",
      "depth_keyframe_count": "\(keyframes)", "resolution": "{\"width\":\(movie.size.width),\"height\":\(movie.size.height)}",
      "codec": "\"\(movie.codec)\"", "device_model": "\"iPhone\"", "attestation_level": "\"secure_enclave\"",
      "hash_chain_final": "\"\(chain.base64(final))\"", "assertion": "\"\(assertion(chain).replacing("/", with: "\\/"))\"",
    ]
    if isPartial { members["is_partial"] = "true" }
    if location { members["location"] = "{\"latitude\":48.137154,\"longitude\":11.576124}" }
    let text = "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
    return fault == .invalidJSON ? Array(text.utf8.dropLast()) : Array(text.utf8)
  }

  private func assertion(_ chain: SimulatedChain) -> String {
    let final = chain.hashes[chain.hashes.count - 1].bytes
    switch signature {
    case .absent: return ""
    case .mock: return Data("debug-mock-assertion".utf8).base64EncodedString()
    case .placeholder:
      return Data("POST\n/api/v1/captures/video\n1700000000000\n\(deviceID.uppercased())".utf8).base64EncodedString()
    case .final: return sign(final)
    case .checkpoint: return sign(chain.checkpoints.last?.hash.bytes ?? final)
    case .wrong: return sign(Digest.of("other").bytes)
    }
  }

  private func sign(_ hash: [UInt8]) -> String {
    Data(key.assertion(over: hash, appID: Self.appID, counter: 1 + UInt32(movie.seed % 1000))).base64EncodedString()
  }

  // MARK: Faults

  private func damage(_ parts: inout [(name: String, bytes: [UInt8])]) {
    guard let fault else { return }
    let names = ["video", "depth_data", "hash_chain", "metadata"]
    let missing: [Fault] = [.missingVideo, .missingDepth, .missingChain, .missingMetadata]
    let empty: [Fault] = [.emptyVideo, .emptyDepth, .emptyChain, .emptyMetadata]
    if let index = missing.firstIndex(of: fault) { parts.removeAll { $0.name == names[index] } }
    if let index = empty.firstIndex(of: fault), let part = parts.firstIndex(where: { $0.name == names[index] }) { parts[part].bytes = [] }
    switch fault {
    case .truncatedMovie: parts[0].bytes = Self.withIndexFirst(parts[0].bytes).dropLast(parts[0].bytes.count / 2)
    case .noMoov: parts[0].bytes.removeLast(parts[0].bytes.count / 4)
    case .textMovie: parts[0].bytes = Array("This is not a movie, although it is called one.\n".utf8)
    case .playlistMovie:
      parts[0].bytes = Array("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n".utf8)
    default: break
    }
  }

  /// The same video with its index at the front, so that cutting the end off leaves the index complete.
  static func withIndexFirst(_ bytes: [UInt8]) -> [UInt8] {
    func word(_ offset: Int) -> Int { bytes[offset..<(offset + 4)].reduce(0) { $0 << 8 | Int($1) } }
    var boxes: [(type: String, range: Range<Int>)] = []
    var offset = 0
    while offset + 8 <= bytes.count, word(offset) >= 8 {
      boxes.append((String(decoding: bytes[(offset + 4)..<(offset + 8)], as: UTF8.self), offset..<(offset + word(offset))))
      offset += word(offset)
    }
    guard let moov = boxes.first(where: { $0.type == "moov" }), let mdat = boxes.first(where: { $0.type == "mdat" }) else { return bytes }
    var index = Array(bytes[moov.range])
    // Chunk offsets shift by the index's length.
    let stco = Array("stco".utf8)
    for start in index.indices.dropLast(12) where Array(index[start..<(start + 4)]) == stco {
      let count = index[(start + 8)..<(start + 12)].reduce(0) { $0 << 8 | Int($1) }
      for entry in 0..<count {
        let place = start + 12 + 4 * entry
        let moved = index[place..<(place + 4)].reduce(0) { $0 << 8 | Int($1) } + moov.range.count
        for byte in 0..<4 { index[place + byte] = UInt8(moved >> (24 - 8 * byte) & 255) }
      }
    }
    return Array(bytes[..<mdat.range.lowerBound]) + index + bytes[mdat.range.lowerBound..<moov.range.lowerBound]
  }

  private func truth(_ chain: SimulatedChain, keyframes: Int) -> JSONValue {
    [
      "seed": .integer(Int64(bitPattern: movie.seed)), "pictures": JSONValue(chain.recorded), "keyframes": JSONValue(keyframes),
      "depth_sizes": [JSONValue(depthSize.width), JSONValue(depthSize.height)], "timescale": JSONValue(movie.timescale),
      "ticks": .array(movie.ticks.map { .integer($0) }), "device": .string(deviceID),
      "last_hash": .string(chain.hashes[chain.hashes.count - 1].description),
    ]
  }
}

/// The hash chain that the phone computes while it records, over the camera's bytes, the depth, the time and the previous hash.
struct SimulatedChain {
  struct Checkpoint {
    var index: Int
    var frame: Int
    var hash: Digest
    var seconds: Double
  }

  var hashes: [Digest] = []
  private(set) var checkpoints: [Checkpoint] = []
  private(set) var recorded = 0

  mutating func add(pixels: [UInt8], depth: [Float]?, seconds: Double) {
    let hasher = SHA256()
    hasher.update(pixels)
    if let depth { depth.withUnsafeBytes { hasher.update($0) } }
    withUnsafeBytes(of: seconds.bitPattern.littleEndian) { hasher.update($0) }
    if let last = hashes.last { hasher.update(last.bytes) }
    hashes.append(hasher.finish())
    recorded += 1
    if recorded % 150 == 0, checkpoints.count < 3 {
      checkpoints.append(Checkpoint(index: recorded / 150 - 1, frame: recorded, hash: hashes[recorded - 1], seconds: seconds))
    }
  }

  /// The digest in base64 with escaped slashes, as Foundation writes it.
  func base64(_ digest: Digest) -> String { Data(digest.bytes).base64EncodedString().replacing("/", with: "\\/") }

  /// The chain as the app's encoder writes it: sorted keys, no spaces.
  var json: String {
    let points = checkpoints.map {
      "{\"frame_number\":\($0.frame),\"hash\":\"\(base64($0.hash))\",\"index\":\($0.index),\"timestamp\":\($0.seconds)}"
    }
    return "{\"checkpoint_count\":\(checkpoints.count),\"checkpoints\":[\(points.joined(separator: ","))],"
      + "\"final_hash\":\"\(base64(hashes[hashes.count - 1]))\",\"frame_count\":\(hashes.count),"
      + "\"frame_hashes\":[\(hashes.map { "\"\(base64($0))\"" }.joined(separator: ","))]}"
  }
}
