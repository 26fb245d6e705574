import Connections
import Foundation

/// Everything an operator can set. Flags come before the environment, the environment before the file, the file before these defaults.
package struct Configuration: Codable, Equatable, Sendable {
  /// The folder of captures, uploads, the database and datasets.
  package var data: String
  /// Address and port to listen on.
  package var listen = "127.0.0.1:8080"
  /// Another address for the cameras and viewers of the slow-motion app, which expects port 8080.
  package var cameraListen: String?
  package var policy = Policy.compat
  /// The server's root, without a slash at its end; by default what a request calls it.
  package var baseURL: String?
  /// PEM file of the roots that App Attest chains may lead to. Without one, no attestation is verified.
  package var appAttestRoot: String?
  /// App ids that may attest and sign: team and bundle, such as `ABCDE12345.com.example.app`.
  package var appIDs: [String] = []
  /// Whether development builds may attest.
  package var allowsDevelopment = false
  /// Addresses of proxies that say in `X-Forwarded-For` who connected to them.
  package var trustedProxies: [String] = []
  /// Whether readers, scripts and tus need an API key; by default, if others than this machine can connect, by themselves or by a proxy.
  package var requireKey: Bool?
  package var tlsCertificate: String?
  package var tlsKey: String?
  /// Free bytes below which nothing is accepted.
  package var reserve: Int64 = 1 << 30
  /// The same for what strangers send, so that they leave room for others.
  package var strangerReserve: Int64 = 4 << 30
  /// The place of finished captures: a folder in `data`, or `s3://bucket/prefix?endpoint=…&region=…`.
  package var store: String?
  /// A folder or `s3://…` that gets a copy of each change of the database.
  package var standby: String?
  /// Most bytes kept per device and per project; 0 for no limit.
  package var deviceQuota: Int64 = 0
  package var projectQuota: Int64 = 0
  /// Seconds for which a request's timestamp is valid, and by which it may be ahead.
  package var timestampAge = 300
  package var timestampLead = 60
  /// Video captures accepted from a device in an hour.
  package var videosPerHour = 5
  /// Seconds for which an unfinished resumable upload is kept after its last byte.
  package var uploadExpiry = 7 * 86_400
  /// Days for which a capture is kept after it was converted; 0 for ever.
  package var retentionDays = 0
  /// Conversions at a time; 0 for none.
  package var conversions = 1
  /// Seconds and bytes that a conversion may take.
  package var conversionSeconds = 3600
  package var conversionMemory: Int64 = 4 << 30
  package var conversionAttempts = 3
  /// Seconds for which a worker on another machine may be silent.
  package var workerSilence = 60
  /// The command `takeset`; by default next to this one, then from PATH.
  package var takeset: String?
  /// Pipeline file for all conversions.
  package var pipeline: String?
  /// The interpreter that calls the pipeline's steps in Python; without one, none is called.
  package var python: String?
  /// Seconds for a complete request head, and seconds without a byte after which a connection is closed.
  package var headSeconds = 30
  package var idleSeconds = 60
  /// Connections at a time.
  package var connections = 2000
  /// Connections at a time of an address that is no trusted proxy's; for an IPv6 client, of its first 64 bits.
  package var addressConnections = 256
  package var logLevel = "info"

  /// The treatment of requests whose signature is not verified.
  package enum Policy: String, Codable, Sendable {
    /// Accepts only requests whose signature is verified, and no unknown parts.
    case strict
    /// Accepts the requests that the apps really send, as unverified.
    case compat
  }

  package init(data: String) { self.data = data }

  /// Whether only this machine can connect, to any of the addresses: all of them serve everything.
  package var isLoopback: Bool {
    [listen, cameraListen].compactMap(\.self).allSatisfy { ListenAddress($0)?.isLoopback ?? false }
  }
  /// Free bytes that are left.
  func reserve(isStranger: Bool) -> Int64 { isStranger ? max(reserve, strangerReserve) : reserve }

  /// Whether it has a public root on another machine's name: then others connect, whatever address is listened on.
  private var isPublic: Bool {
    guard let baseURL else { return false }
    return !(Origin.name(ofURL: baseURL).map(ListenAddress.isLoopback) ?? false)
  }

  /// Whether readers, scripts and tus need an API key for a request.
  ///
  /// - Parameter isForwarded: Whether a proxy has sent it for a client, which may be anywhere.
  func needsKey(isForwarded: Bool) -> Bool { requireKey ?? (!isLoopback || isPublic || isForwarded) }

  /// Returns a sentence for the log: who needs an API key, and why.
  var keyRule: String {
    switch requireKey {
    case .some(true): "API keys are needed: --require-key"
    case .some(false): "API keys are not needed by anybody: --require-key=false"
    case .none:
      if !isLoopback {
        "API keys are needed: others can connect"
      } else if isPublic {
        "API keys are needed: others can connect to --base-url"
      } else {
        "API keys are not needed on this machine, but for requests that a proxy forwards"
      }
    }
  }
}
