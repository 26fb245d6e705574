import Connections
import HTTPTypes
import Hummingbird
import NIOCore

/// The effect of a request, as far as API keys are concerned. Each route names one.
package enum Permission: Sendable, CaseIterable {
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
}

extension Permission {
  /// Returns the permission that a request needs at a route of this one. A request that names another method in a header may not be what it
  /// seems; resumable uploads, which heed that header, need the same for each method.
  func needed(by request: Request) -> Permission {
    [.read, .ask].contains(self) && request.headers[.methodOverride] != nil ? .change : self
  }
}

extension APIKey.Power {
  /// Whether a key of this power may do that. `work` has keys of its own.
  package func allows(_ permission: Permission) -> Bool {
    switch self {
    case .all: permission != .work
    case .upload: permission == .upload || permission == .ask
    case .read: [.read, .ask, .watch].contains(permission)
    case .work: permission == .work
    case .monitor: permission == .watch
    }
  }
}

extension APIKey {
  /// Returns the sender of something, for the log: the key's id, and the address.
  static func sender(_ key: APIKey?, at address: SocketAddress?) -> String {
    "\(key.map { "key \($0.id)" } ?? "no key"), \(address?.ipAddress ?? "?")"
  }

  func allows(_ permission: Permission) -> Bool { power.allows(permission) }

  /// Throws `Failure` 403 unless the key allows it.
  func check(_ permission: Permission) throws {
    guard allows(permission) else { throw Failure(.forbidden, "FORBIDDEN", "The API key is for \(power.purpose) only") }
  }
}

extension CaptureContext {
  /// Notes in the log who has changed something, and who was refused, by the key's id, and from where.
  func note(_ request: Request, _ status: HTTPResponse.Status, _ configuration: Configuration) {
    let isRefused = [401, 403, 421].contains(status.code) || (!request.isHarmless && [404, 503].contains(status.code))
    guard isRefused || permission == .change || request.method == .delete || request.headers[.methodOverride] == "DELETE" else { return }
    let address = ClientAddress.of(request, self, trusting: configuration.trustedProxies)
    // The address of a slow-motion phone has its key in it.
    let path = request.uri.path.replacing(/^\/k\/[^\/]*/, with: "/k/KEY")
    logger.info("\(request.method) \(path): \(status.code), \(APIKey.sender(key, at: address))")
  }
}

extension SocketRequest.Role {
  var permission: Permission { self == .camera ? .upload : .read }
}

extension Request {
  /// Whether it changes nothing, whoever sends it.
  var isHarmless: Bool { [.get, .head, .options].contains(method) && headers[.methodOverride] == nil }

  /// Whether a proxy sends it for somebody else.
  var isForwarded: Bool { ClientAddress.proxyFields.contains { headers[$0] != nil } }
}
