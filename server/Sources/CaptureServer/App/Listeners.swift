import Connections
import Foundation
import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import Logging
import NIOCore
import NIOSSL
import ServiceLifecycle

/// The addresses that are listened on. All serve everything; a slow-motion phone expects its movies and its live view on different ports.
struct Listeners {
  let configuration: Configuration
  let relay: Relay
  let logger: Logger

  /// Seconds that requests under way get when the server ends.
  private static let patience = 30

  /// Serves until SIGTERM or SIGINT. Requests under way are then finished, for as long as that takes within reason. Throws `Mistake` where
  /// an address cannot be listened on.
  ///
  /// - Parameter ready: Told when the first address is listened on.
  func run(_ responder: RouterResponder<CaptureContext>, services: [any Service], ready: @escaping @Sendable () -> Void) async throws {
    Self.raiseFileLimit(for: configuration.connections)
    let server = try server()
    var applications: [Application<RouterResponder<CaptureContext>>] = []
    for (option, text) in [("listen", Optional(configuration.listen)), ("camera-listen", configuration.cameraListen)] {
      guard let text else { continue }
      let address = try ListenAddress(text, option: option)
      applications.append(
        Application(
          responder: responder, server: server,
          configuration: .init(address: .hostname(address.host, port: address.port), backlog: 1024),
          onServerRunning: { _ in if option == "listen" { ready() } }, logger: logger))
    }
    // Services end in the reverse order: nobody can connect any more when those that the routes use end.
    var group = ServiceGroupConfiguration(
      services: (services + applications).map { .init(service: $0) }, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
    group.maximumGracefulShutdownDuration = .seconds(Self.patience)
    do {
      try await ServiceGroup(configuration: group).run()
    } catch let error as IOError {
      let addresses = [configuration.listen, configuration.cameraListen].compactMap(\.self).joined(separator: " or ")
      throw Mistake("cannot listen on \(addresses): \(String(cString: strerror(error.errnoCode)))")
    } catch let error as SocketAddressError.UnknownHost {
      throw Mistake("cannot listen on \(error.host): there is no such host")
    }
  }

  private func server() throws -> HTTPServerBuilder {
    let limit = ConnectionLimit(
      configuration.connections, ofOneAddress: configuration.addressConnections, proxies: configuration.trustedProxies)
    let limits = ConnectionState.Limits(headSeconds: configuration.headSeconds, idleSeconds: configuration.idleSeconds)
    let isSecure = configuration.tlsCertificate != nil
    let plain = HTTPServerBuilder { [relay] responder in
      CaptureChannel(
        responder: responder, limit: limit, limits: limits, isSecure: isSecure, admits: relay.admits, serve: relay.serve)
    }
    guard let certificate = configuration.tlsCertificate, let key = configuration.tlsKey else { return plain }
    return try .tls(plain, tlsConfiguration: Self.tls(certificate, key))
  }

  /// Throws `Mistake` where a file cannot be used.
  static func tls(_ certificate: String, _ key: String) throws -> TLSConfiguration {
    let chain: [NIOSSLCertificate]
    do {
      chain = try NIOSSLCertificate.fromPEMFile(certificate)
    } catch {
      throw Mistake("--tls-cert \(certificate): expected a PEM file with a chain of certificates")
    }
    guard !chain.isEmpty else { throw Mistake("--tls-cert \(certificate): there is no certificate in it") }
    let secret: NIOSSLPrivateKey
    do {
      secret = try NIOSSLPrivateKey(file: key, format: .pem)
    } catch {
      throw Mistake("--tls-key \(key): expected a PEM file with a private key")
    }
    var tls = TLSConfiguration.makeServerConfiguration(certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(secret))
    tls.minimumTLSVersion = .tlsv12
    tls.applicationProtocols = ["http/1.1"]
    do {
      // A key of another certificate is found out here and not by the first client.
      _ = try NIOSSLContext(configuration: tls)
    } catch {
      throw Mistake("--tls-key \(key): it is not the key of the certificate in \(certificate)")
    }
    return tls
  }

  /// Many systems allow 1,024 open files by default, fewer than the connections that are allowed.
  private static func raiseFileLimit(for connections: Int) {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    let wanted = rlim_t(connections * 2 + 1024)
    guard limit.rlim_cur < wanted else { return }
    limit.rlim_cur = min(limit.rlim_max, wanted)
    _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

extension ListenAddress {
  /// Throws `Mistake`, which names the option.
  init(_ text: String, option: String) throws {
    guard let address = ListenAddress(text) else {
      throw Mistake("--\(option) \(text): expected an address and a port, such as 127.0.0.1:8080")
    }
    self = address
  }
}
