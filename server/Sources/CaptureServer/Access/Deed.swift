import HTTPTypes
import Hummingbird
import NIOCore

/// What a request does, as far as API keys are concerned.
enum Deed: Sendable {
  /// Looks at captures, datasets, devices or the live view.
  case read
  /// Delivers captures, or asks how much of them has come.
  case upload
  /// Removes captures, converts them again, commands cameras, vouches for a device's key.
  case change
  /// Asks whether a capture is there, and nothing else of it.
  case ask
  /// Converts captures of all projects on another machine.
  case work
  /// Reads figures of the server, or of the key's project.
  case watch

  init(_ request: Request) {
    let parts = request.uri.path.split(separator: "/").map(String.init)
    switch (parts.first, parts.count) {
    case ("files", _), ("camera", 1): self = .upload
    case ("metrics", 1), ("server", 1): self = .watch
    case ("k", 3) where parts[2] == "camera": self = .upload
    case ("api", 3...) where parts[2] == "work": self = .work
    case ("api", 4...) where ["sessions", "devices"].contains(parts[2]): self = .upload
    case ("api", 4) where parts[2] == "captures" && parts[3] == "video": self = .upload
    case ("api", 4) where parts[2] == "captures" && request.method == .head && request.isHarmless: self = .ask
    default: self = request.isHarmless ? .read : request.method == .post && parts.last == "upload" ? .upload : .change
    }
  }
}

extension CaptureContext {
  /// Notes in the log who has changed something, and who was refused, by the key's id, and from where.
  func note(_ request: Request, _ status: HTTPResponse.Status, _ configuration: Configuration) {
    let isRefused = [401, 403, 421].contains(status.code) || (!request.isHarmless && [404, 503].contains(status.code))
    guard isRefused || Deed(request) == .change || request.method == .delete else { return }
    let address = ClientAddress.of(request, self, trusting: configuration.trustedProxies)
    // The address of a slow-motion phone has its key in it.
    let path = request.uri.path.replacing(/^\/k\/[^\/]*/, with: "/k/KEY")
    logger.info("\(request.method) \(path): \(status.code), \(APIKey.sender(key, at: address))")
  }
}

extension APIKey {
  /// Who has sent something, for the log: the key's id, and from where.
  static func sender(_ key: APIKey?, at address: SocketAddress?) -> String {
    "\(key.map { "key \($0.id)" } ?? "no key"), \(address?.ipAddress ?? "?")"
  }

  func allows(_ deed: Deed) -> Bool {
    switch power {
    case .all: deed != .work
    case .upload: deed == .upload || deed == .ask
    case .read: [.read, .ask, .watch].contains(deed)
    case .work: deed == .work
    case .monitor: deed == .watch
    }
  }

  /// Throws `Failure` 403 unless the key allows it.
  func check(_ deed: Deed) throws {
    guard allows(deed) else { throw Failure(.forbidden, "FORBIDDEN", "The API key is for \(power.purpose) only") }
  }
}

extension Request {
  /// Whether it changes nothing, whoever sends it.
  var isHarmless: Bool { [.get, .head, .options].contains(method) && headers[.methodOverride] == nil }

  /// Whether a proxy sends it for somebody else.
  var isForwarded: Bool { ClientAddress.proxyFields.contains { headers[$0] != nil } }
}
