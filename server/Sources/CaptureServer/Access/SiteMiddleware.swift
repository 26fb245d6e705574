import Connections
import Foundation
import HTTPTypes
import Hummingbird

/// Keeps pages of other sites from using the browser of somebody who can reach this server.
struct SiteMiddleware: RouterMiddleware {
  let configuration: Configuration

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    guard let refusal = refusal(of: request) else { return try await next(request, context) }
    if request.method == .post, RequestRules.isMovieUpload(path: request.uri.path) { throw await context.drop(because: refusal) }
    throw refusal
  }

  private func refusal(of request: Request) -> Failure? {
    guard Origin.serves(request.head.authority, isForwarded: request.isForwarded, configuration) else {
      return Failure(.otherServer, "MISDIRECTED_REQUEST", "This server is not known by that name; see --base-url")
    }
    let isForeign = Origin.isForeign(
      request.headers[.origin], host: request.head.authority, isForwarded: request.isForwarded, configuration)
    return !request.isHarmless && isForeign ? Origin.refusal : nil
  }
}

/// Pages of other sites may not use a visitor's browser to watch or to start cameras, to send or to delete. Apps send no origin, or the
/// server's own.
enum Origin {
  static let refusal = Failure(.forbidden, "FORBIDDEN", "Pages of other sites may not do that")

  /// Whether a page is neither of `--base-url` nor of the name and port by which its request came. Another server on the same machine is
  /// another site. A proxy may have taken TLS off.
  static func isForeign(_ origin: String?, host: String?, isForwarded: Bool, _ configuration: Configuration) -> Bool {
    guard let origin else { return false }
    guard let site = Site(origin) else { return true }
    if site == configuration.baseURL.flatMap(Site.init) { return false }
    let scheme = isForwarded ? site.scheme : configuration.tlsCertificate == nil ? "http" : "https"
    return site != host.flatMap { Site("\(scheme)://\($0)") }
  }

  /// Scheme, host and port of an address (RFC 6454, section 4).
  private struct Site: Equatable {
    var scheme, host: String
    var port: Int

    init?(_ url: String) {
      guard let parts = URLComponents(string: url), let scheme = parts.scheme?.lowercased(), ["http", "https"].contains(scheme),
        let host = Origin.name(ofURL: url)
      else { return nil }
      (self.scheme, self.host, port) = (scheme, host, parts.port ?? (scheme == "https" ? 443 : 80))
    }
  }

  /// Whether a request may call the server by this name. Where everybody on this machine may do everything, its browsers must not lend
  /// that to a site that has pointed its own name here (DNS rebinding).
  static func serves(_ host: String?, isForwarded: Bool, _ configuration: Configuration) -> Bool {
    guard let host, configuration.isLoopback, !configuration.needsKey(isForwarded: isForwarded) else { return true }
    guard let name = name(ofURL: "//" + host) else { return false }
    return ListenAddress.isLoopback(name) || name == configuration.baseURL.flatMap(Self.name(ofURL:))
  }

  /// The host of an address in lower case, without the brackets of an IPv6 address.
  static func name(ofURL text: String) -> String? {
    URLComponents(string: text)?.host?.lowercased().trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
  }
}

extension Configuration {
  /// The root of links in the answer to a request: the public one, or the one by which the request has reached us.
  func root(for request: Request) -> String {
    if let baseURL { return baseURL }
    let scheme = tlsCertificate == nil ? "http" : "https"
    // Somebody may have reached us by an address that means "all", but nobody else would.
    if let host = request.head.authority, host.wholeMatch(of: /(?:[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/) != nil,
      Origin.name(ofURL: "//" + host).map({ !ListenAddress.wildcards.contains($0) }) ?? false
    {
      return "\(scheme)://\(host)"
    }
    return "\(scheme)://\(ListenAddress(listen)?.reachable ?? listen)"
  }

  /// The options of the commands that send something here, such as `takeset upload`, for whoever reads a page.
  func sendOptions(for request: Request) -> String {
    "--to \(root(for: request))\(needsKey(isForwarded: request.isForwarded) ? " --key KEY" : "")"
  }
}

extension HTTPResponse.Status {
  /// RFC 9110, section 15.5.20.
  static let otherServer = HTTPResponse.Status(code: 421, reasonPhrase: "Misdirected Request")
}
