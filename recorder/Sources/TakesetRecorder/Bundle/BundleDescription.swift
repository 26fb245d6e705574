import Foundation

/// The facts of a bundle that are known before its first frame: `recording.json`.
public struct BundleDescription: Codable, Sendable, Equatable {
  /// Version of the files in the recording's folder.
  public var version = 1
  /// `hevc` or `h264`.
  public var codec: String
  /// Size of the video's images in pixels.
  public var width: Int
  public var height: Int
  /// Size of the depth maps.
  public var depthWidth: Int
  public var depthHeight: Int
  public var deviceModel: String
  /// `secure_enclave` or `unverified`.
  public var attestationLevel: String
  /// Time at which it began, in milliseconds of Unix time.
  public var startedAt: Int64
  /// The same moment on the clock of the frames, in seconds.
  public var clockStart: Double
  /// The place of the recording, if it is to be known.
  public var location: Location?

  /// A place on the Earth.
  public struct Location: Codable, Sendable, Equatable {
    /// Degrees, WGS 84.
    public var latitude: Double
    public var longitude: Double

    public init(latitude: Double, longitude: Double) { (self.latitude, self.longitude) = (latitude, longitude) }
  }

  public init(
    codec: String, width: Int, height: Int, depthWidth: Int, depthHeight: Int, deviceModel: String, attestationLevel: String,
    startedAt: Int64, clockStart: Double
  ) {
    (self.codec, self.width, self.height, self.depthWidth, self.depthHeight) = (codec, width, height, depthWidth, depthHeight)
    (self.deviceModel, self.attestationLevel, self.startedAt, self.clockStart) = (deviceModel, attestationLevel, startedAt, clockStart)
  }

  static let name = "recording.json"

  init(json: [UInt8], path: String) throws {
    do {
      self = try JSONDecoder().decode(Self.self, from: Data(json))
    } catch {
      throw RecordingError(path: path, reason: "it is not the description of a recording", isDamage: true)
    }
    guard version == 1 else { throw RecordingError(path: path, reason: "its version is \(version); this program knows 1", isDamage: true) }
    if let problem { throw RecordingError(path: path, reason: problem, isDamage: true) }
  }

  /// The value that no recording can have, as a sentence; `nil` where all are possible.
  var problem: String? {
    for (name, width, height) in [("an image", width, height), ("a depth map", depthWidth, depthHeight)] {
      guard (1...16_384).contains(width), (1...16_384).contains(height) else {
        return "\(name) of \(width)x\(height); expected sides of 1 to 16384"
      }
    }
    if depthWidth * depthHeight > 1 << 22 { return "a depth map of \(depthWidth)x\(depthHeight); expected \(1 << 22) pixels or less" }
    if !clockStart.isFinite || !(0...4_102_444_800_000).contains(startedAt) {
      return "it began at \(startedAt) ms of Unix time and at \(clockStart) s of the frames' clock; expected a time before 2100"
    }
    guard let location else { return nil }
    return abs(location.latitude) <= 90 && abs(location.longitude) <= 180
      ? nil : "it was recorded at \(location.latitude), \(location.longitude); expected degrees of latitude and longitude"
  }

  var json: [UInt8] {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys]
      return Array(try encoder.encode(self)) + [10]
    }
  }
}
