import Foundation

/// The documents of a finished bundle, as the seeds' server reads them: `depth.gz`, `hash_chain.json` and `metadata.json`.
enum BundleDocuments {
  /// Returns the header before the depth maps (the layout RLDP): their number, size and times. They follow, one after the other.
  static func depthHeader(times: [Double], _ description: BundleDescription) -> [UInt8] {
    var bytes = Array("RLDP".utf8)
    func add(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }
    add(UInt32(1))
    add(UInt32(times.count))
    add(UInt16(description.depthWidth))
    add(UInt16(description.depthHeight))
    let length = description.depthWidth * description.depthHeight * 4
    for (index, time) in times.enumerated() {
      add(time.bitPattern)
      add(UInt32(index * length))
    }
    return bytes
  }

  /// The hash chain: keys in order, no spaces, slashes escaped, as the app's encoder writes it.
  static func chain(_ hashes: [[UInt8]], _ checkpoints: [FrameChain.Checkpoint]) -> [UInt8] {
    let points = checkpoints.enumerated().map { index, point in
      "{\"frame_number\":\(point.frames),\"hash\":\"\(base64(point.hash))\",\"index\":\(index),\"timestamp\":\(point.time)}"
    }
    return Array(
      ("{\"checkpoint_count\":\(checkpoints.count),\"checkpoints\":[\(points.joined(separator: ","))],"
        + "\"final_hash\":\"\(base64(hashes.last ?? []))\",\"frame_count\":\(hashes.count),"
        + "\"frame_hashes\":[\(hashes.map { "\"\(base64($0))\"" }.joined(separator: ","))]}").utf8)
  }

  struct Metadata {
    var description: BundleDescription
    var frames: Int
    var keyframes: Int
    /// Seconds from the start to the end.
    var seconds: Double
    var finalHash: [UInt8]
    var assertion: [UInt8]
    var isPartial: Bool

    var json: [UInt8] {
      let milliseconds = Int64((seconds * 1000).rounded())
      var members = [
        "started_at": BundleDocuments.text(BundleDocuments.time(description.startedAt)),
        "ended_at": BundleDocuments.text(BundleDocuments.time(description.startedAt + milliseconds)), "duration_ms": "\(milliseconds)",
        "frame_count": "\(frames)", "depth_keyframe_count": "\(keyframes)",
        "resolution": "{\"width\":\(description.width),\"height\":\(description.height)}", "codec": BundleDocuments.text(description.codec),
        "device_model": BundleDocuments.text(description.deviceModel),
        "attestation_level": BundleDocuments.text(description.attestationLevel),
        "hash_chain_final": "\"\(base64(finalHash))\"", "assertion": "\"\(base64(assertion))\"",
      ]
      if isPartial { members["is_partial"] = "true" }
      if let place = description.location {
        members["location"] = "{\"latitude\":\(place.latitude),\"longitude\":\(place.longitude)}"
      }
      return Array(("{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}").utf8)
    }
  }

  /// A string as JSON.
  static func text(_ string: String) -> String {
    (try? JSONEncoder().encode(string)).map { String(decoding: $0, as: UTF8.self) } ?? "\"\""
  }

  fileprivate static func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString().replacing("/", with: "\\/") }

  /// RFC 3339 with milliseconds, in UTC.
  static func time(_ milliseconds: Int64) -> String {
    let format = ISO8601DateFormatter()
    format.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
    return format.string(from: Date(timeIntervalSince1970: Double(milliseconds) / 1000))
  }
}

private func base64(_ bytes: [UInt8]) -> String { BundleDocuments.base64(bytes) }
