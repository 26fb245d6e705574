import Foundation

/// The facts of a session: `metadata.json`, which is written before the first frame, and again with the counts at the end.
public struct SessionDescription: Sendable, Equatable {
  /// Such as `iPhone16,1`.
  public var deviceModel: String
  /// Such as `17.2`.
  public var systemVersion: String
  /// Size of the images in pixels.
  public var width: Int
  public var height: Int
  /// Size of the depth maps; `nil` for a session without.
  public var depthWidth: Int?
  public var depthHeight: Int?
  /// Start on both clocks.
  public var start: ClockPair
  /// `iphone_ultrawide` for a camera without ARKit, whose poses are computed later; `nil` with ARKit.
  public var source: String?
  /// Whether there is a video, and a glove connected; `nil` for an app without.
  public var hasVideo: Bool?
  public var isConnected: Bool?

  public init(deviceModel: String, systemVersion: String, width: Int, height: Int, start: ClockPair) {
    (self.deviceModel, self.systemVersion, self.width, self.height, self.start) = (deviceModel, systemVersion, width, height, start)
  }

  /// The counts that grow while it is recorded.
  struct Counts: Equatable {
    var frames = 0, poses = 0, depthMaps = 0, encoders = 0
    var first: Int64?, last: Int64?
    var dropped: [String: Int] = [:]
  }

  /// - Parameters:
  ///   - counts: `nil` before the end.
  ///   - end: Nanoseconds of the frames' clock.
  func json(_ counts: Counts?, end: Int64?) -> [UInt8] {
    func text(_ string: String) -> String { BundleDocuments.text(string) }
    func date(_ time: Int64) -> String {
      let format = ISO8601DateFormatter()
      return "\"\(format.string(from: Date(timeIntervalSince1970: (Double(start.unix(of: time)) / 1e9).rounded(.down))))\""
    }
    var members = [
      "deviceModel": text(deviceModel), "iosVersion": text(systemVersion), "startTime": date(start.uptime),
      "rgbResolution": "[ \(width), \(height) ]",
    ]
    if let depthWidth, let depthHeight { members["depthResolution"] = "[ \(depthWidth), \(depthHeight) ]" }
    if let source {
      members["captureSource"] = text(source)
      members["slamProcessed"] = "false"
    }
    if let hasVideo { members["hasVideo"] = "\(hasVideo)" }
    if let isConnected { members["bleConnected"] = "\(isConnected)" }
    if let counts, let end {
      members["endTime"] = date(end)
      members["rgbFrameCount"] = "\(counts.frames)"
      members["poseCount"] = "\(counts.poses)"
      if depthWidth != nil { members["depthFrameCount"] = "\(counts.depthMaps)" }
      if isConnected != nil { members["encoderCount"] = "\(counts.encoders)" }
      if counts.poses > 0, let first = counts.first, let last = counts.last { members["durationSeconds"] = "\(Double(last - first) / 1e9)" }
      for (reason, count) in counts.dropped { members["dropped_\(reason)"] = "\(count)" }
    }
    return Array(("{\n" + members.sorted { $0.key < $1.key }.map { "  \"\($0)\" : \($1)" }.joined(separator: ",\n") + "\n}\n").utf8)
  }
}
