import Foundation

/// The messages of a slow-motion camera.
public enum LiveMessageWriter {
  /// Seconds from 1970 to 2001, from which the app's times count.
  private static let secondsTo2001 = 978_307_200.0

  /// - Parameter time: Unix time in seconds.
  public static func status(_ status: LiveCamera.Status, at time: Double) -> String {
    "{\"status\":\"\(status.rawValue)\",\"timestamp\":\(time),\"type\":\"status\"}"
  }

  /// A frame: the time in seconds since 2001 as 64-bit float, lowest byte first, and a JPEG. Servers relay only those above 1000 bytes.
  ///
  /// - Parameter time: Unix time in seconds.
  public static func frame(_ jpeg: [UInt8], at time: Double) -> [UInt8] {
    withUnsafeBytes(of: (time - secondsTo2001).bitPattern.littleEndian, Array.init) + jpeg
  }

  /// Returns the address for a movie, from that of the socket: http for ws, port 3000 for 8080, `/upload` for `/camera`; the rest of the
  /// path and the query stay, as they may hold a key.
  public static func uploadAddress(of socket: URL) -> URL? {
    guard var parts = URLComponents(url: socket, resolvingAgainstBaseURL: true) else { return nil }
    switch parts.scheme?.lowercased() {
    case "ws": parts.scheme = "http"
    case "wss": parts.scheme = "https"
    default: return nil
    }
    if parts.port == 8080 { parts.port = 3000 }
    let path = parts.path.hasSuffix("/camera") ? String(parts.path.dropLast("/camera".count)) : parts.path
    parts.path = (path.hasSuffix("/") ? String(path.dropLast()) : path) + "/upload"
    return parts.url
  }
}
