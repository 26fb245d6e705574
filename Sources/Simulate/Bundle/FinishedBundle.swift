import Evidence
import Foundation
import Model

/// A bundle that was recorded, for other forms of it and for faults.
struct FinishedBundle {
  private let bundle: SimulatedBundle
  private let directory: String
  private var parts: [(name: String, bytes: [UInt8])] = []
  /// H(n) of each frame, as `hash_chain.json` lists them.
  private var hashes: [[UInt8]]
  private(set) var keyframes: Int

  private static let files = ["video": "video.mp4", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"]
  private struct Chain: Decodable {
    struct Checkpoint: Decodable { var hash: Data }
    var frame_hashes: [Data]
    var checkpoints: [Checkpoint]
  }

  var lastHash: [UInt8] { hashes.last ?? [] }

  init(_ bundle: SimulatedBundle, in directory: String) throws {
    (self.bundle, self.directory) = (bundle, directory)
    func read(_ name: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)")) }
    let document = try read("hash_chain.json")
    let chain = try JSONDecoder().decode(Chain.self, from: document)
    hashes = chain.frame_hashes.map(Array.init)
    var maps = Deflater.inflate(Array(try read("depth.gz")))
    keyframes = maps.count < 16 ? 0 : maps[8..<12].reversed().reduce(0) { $0 << 8 | Int($1) }
    var (json, metadata) = (String(decoding: document, as: UTF8.self), String(decoding: try read("metadata.json"), as: UTF8.self))
    if bundle.fault == .depthCount {
      metadata = metadata.replacing("\"depth_keyframe_count\":\(keyframes)", with: "\"depth_keyframe_count\":\(keyframes - 1)")
      maps = Self.without(lastOf: maps, keyframes)
      keyframes -= 1
    }
    if bundle.signature == .checkpoint, let point = chain.checkpoints.last { metadata = resigned(metadata, Array(point.hash)) }
    if bundle.isPartial, !metadata.contains("\"is_partial\"") {
      metadata = metadata.replacing(/"hash_chain_final":"[^"]*"/) { "\($0.0),\"is_partial\":true" }
    }
    damageChain(&json, &metadata, checkpoint: chain.checkpoints.first.map { Array($0.hash) })
    parts = [
      ("video", Array(try read("video.mp4"))), ("depth_data", depth(maps)), ("hash_chain", Array(json.utf8)),
      ("metadata", Array(metadata.utf8)),
    ]
    damage()
  }

  /// Writes the bundle in its layout in the place of the recorded one.
  func write() throws {
    func write(_ name: String, _ bytes: [UInt8]) throws {
      try Data(bytes).write(to: URL(fileURLWithPath: directory + "/" + name), options: .atomic)
    }
    var written: Set<String> = []
    func part(_ name: String, _ bytes: [UInt8]) throws {
      try write(name, bytes)
      written.insert(name)
    }
    switch bundle.layout {
    case .folder: for (name, bytes) in parts { try part(Self.files[name] ?? name, bytes) }
    case .storage:
      for (name, bytes) in parts where name != "metadata" {
        try part(name == "depth_data" ? "video_depth.gz" : Self.files[name] ?? name, bytes)
      }
    case .multipart: try part("upload.multipart", body)
    }
    for name in Self.files.values where !written.contains(name) { try FileManager.default.removeItem(atPath: directory + "/" + name) }
  }

  private var body: [UInt8] {
    let types = ["video": "video/mp4", "depth_data": "application/gzip"]
    let boundary = "--RialVideo-\(bundle.deviceID.uppercased())"
    var body: [UInt8] = []
    for (name, bytes) in parts {
      body += "\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"; filename=\"\(Self.files[name] ?? "")\"\r\n".utf8
      body += "Content-Type: \(types[name] ?? "application/json")\r\n\r\n".utf8
      body += bytes + Array("\r\n".utf8)
    }
    return body + Array("\(boundary)--\r\n".utf8)
  }

  // MARK: Depth

  private static func without(lastOf maps: [UInt8], _ count: Int) -> [UInt8] {
    guard count > 0 else { return maps }
    let start = 16 + 12 * count
    let length = (maps.count - start) / count
    var bytes = Array(maps[..<(start - 12)]) + maps[start..<(maps.count - length)]
    withUnsafeBytes(of: UInt32(count - 1).littleEndian) { bytes.replaceSubrange(8..<12, with: $0) }
    return bytes
  }

  /// The depth part of what the recorder has compressed: a header, times and maps.
  private func depth(_ maps: [UInt8]) -> [UInt8] {
    var maps = maps
    switch bundle.fault {
    case .depthBomb:
      // Inflates to a thousand times its size.
      let zeros = [UInt8](repeating: 0, count: 1 << 20)
      return Deflater.deflate((0..<300).lazy.map { _ in zeros }, windowBits: 31)
    case .depthDimensions: maps.replaceSubrange(12..<16, with: [255, 255, 255, 255])
    default: if bundle.depthLayout == .headerless { maps.removeFirst(16 + 12 * keyframes) }
    }
    return switch bundle.depthContainer {
    case .none: maps
    case .gzip: Deflater.deflate([maps], windowBits: 31)
    case .zlib: Deflater.deflate([maps], windowBits: 15)
    case .deflate: Deflater.deflate([maps], windowBits: -15)
    }
  }

  // MARK: Chain and metadata

  private func base64(_ hash: [UInt8]) -> String { Data(hash).base64EncodedString().replacing("/", with: "\\/") }

  private func resigned(_ metadata: String, _ hash: [UInt8]) -> String {
    let assertion = bundle.signer.assertion(over: hash).map(base64) ?? ""
    return metadata.replacing(/"assertion":"[^"]*"/, with: "\"assertion\":\"\(assertion)\"")
  }

  private mutating func damageChain(_ chain: inout String, _ metadata: inout String, checkpoint: [UInt8]?) {
    let other = base64(Digest.of("other").bytes)
    func final(_ hash: String) -> String { "\"final_hash\":\"\(hash)\"" }
    switch bundle.fault {
    case .chainLength:
      // The last frames are missing in the chain, and what was signed is its end.
      let (count, last) = (hashes.count, base64(lastHash))
      hashes.removeLast(min(6, count - 1))
      let list = hashes.map { "\"\(base64($0))\"" }.joined(separator: ",")
      chain.replace(/"frame_hashes":\[[^\]]*\]/, with: "\"frame_hashes\":[\(list)]")
      chain.replace("\"frame_count\":\(count)", with: "\"frame_count\":\(hashes.count)")
      chain.replace(final(last), with: final(base64(lastHash)))
      metadata.replace("\"hash_chain_final\":\"\(last)\"", with: "\"hash_chain_final\":\"\(base64(lastHash))\"")
      if [.final, .checkpoint].contains(bundle.signature), bundle.signature == .final || checkpoint == nil {
        metadata = resigned(metadata, lastHash)
      }
    case .chainOrder where hashes.count > 150:
      let pair = [148, 149].map { "\"\(base64(hashes[$0]))\"" }
      chain.replace(pair.joined(separator: ","), with: pair.reversed().joined(separator: ","))
      hashes.swapAt(148, 149)
    case .chainBase64: chain.replace(base64(hashes[0]), with: "not base64!")
    case .chainFinal: chain.replace(final(base64(lastHash)), with: final(base64(hashes[0])))
    case .chainCheckpoint: if let checkpoint { chain.replace("\"hash\":\"\(base64(checkpoint))\"", with: "\"hash\":\"\(other)\"") }
    case .chainMetadata: metadata.replace(/"hash_chain_final":"[^"]*"/, with: "\"hash_chain_final\":\"\(other)\"")
    case .invalidJSON: metadata.removeLast()
    default: break
    }
  }

  // MARK: Files

  private mutating func damage() {
    guard let fault = bundle.fault else { return }
    let names = ["video", "depth_data", "hash_chain", "metadata"]
    let missing: [SimulatedBundle.Fault] = [.missingVideo, .missingDepth, .missingChain, .missingMetadata]
    let empty: [SimulatedBundle.Fault] = [.emptyVideo, .emptyDepth, .emptyChain, .emptyMetadata]
    if let index = missing.firstIndex(of: fault) { parts.removeAll { $0.name == names[index] } }
    if let index = empty.firstIndex(of: fault), let part = parts.firstIndex(where: { $0.name == names[index] }) { parts[part].bytes = [] }
    switch fault {
    case .truncatedMovie: parts[0].bytes.removeLast(parts[0].bytes.count / 2)
    case .noMoov: parts[0].bytes = Self.withoutIndex(parts[0].bytes)
    case .textMovie: parts[0].bytes = Array("This is not a movie, although it is called one.\n".utf8)
    case .playlistMovie:
      parts[0].bytes = Array("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n".utf8)
    default: break
    }
  }

  private static func withoutIndex(_ movie: [UInt8]) -> [UInt8] {
    var offset = 0
    while offset + 8 <= movie.count {
      let length = movie[offset..<(offset + 4)].reduce(0) { $0 << 8 | Int($1) }
      guard length >= 8, offset + length <= movie.count else { break }
      if Array(movie[(offset + 4)..<(offset + 8)]) == Array("moov".utf8) { return Array(movie[..<offset] + movie[(offset + length)...]) }
      offset += length
    }
    return movie
  }
}
