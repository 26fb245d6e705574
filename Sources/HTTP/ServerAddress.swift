package import Foundation

/// The root of a server, from `--to`.
public struct ServerAddress: Sendable, Equatable {
  /// A text that is no address of a server, described as a sentence.
  public struct Invalid: Error, CustomStringConvertible {
    public let description: String
  }

  package let url: URL

  /// Throws `Invalid` unless the text is an http or https URL with a host.
  public init(_ text: String) throws {
    let trimmed = text.hasSuffix("/") ? String(text.dropLast(while: { $0 == "/" })) : text
    guard let parts = URLComponents(string: trimmed), let scheme = parts.scheme?.lowercased(), ["http", "https"].contains(scheme),
      parts.host?.isEmpty == false, parts.query == nil, parts.fragment == nil, parts.user == nil, let url = parts.url
    else { throw Invalid(description: "--to \(text): expected the server's address, such as https://captures.example.org") }
    self.url = url
  }

  public var text: String { url.absoluteString }

  /// Whether what is sent can be read on its way.
  package var isOpen: Bool {
    guard url.scheme?.lowercased() == "http", let host = url.host?.lowercased() else { return false }
    return !(host == "localhost" || host.hasPrefix("127.") || host == "::1" || host == "[::1]")
  }

  /// An address below the root. `path` begins with a slash and needs no encoding.
  package func at(_ path: String) -> URL { URL(string: text + path) ?? url }

  /// Returns the address of a `Location` header, always on this server: a key must not go elsewhere, and a server behind a proxy may not
  /// know its own name. `nil` for a header that is no address.
  package func resolve(_ location: String, from request: URL) -> URL? {
    guard let target = URL(string: location, relativeTo: request)?.absoluteURL,
      var parts = URLComponents(url: target, resolvingAgainstBaseURL: true)
    else { return nil }
    (parts.scheme, parts.host, parts.port) = (url.scheme, url.host, url.port)
    (parts.user, parts.password, parts.fragment) = (nil, nil, nil)
    return parts.url
  }
}

extension String {
  fileprivate func dropLast(while isDropped: (Character) -> Bool) -> Substring {
    var rest = self[...]
    while let last = rest.last, isDropped(last) { rest.removeLast() }
    return rest
  }
}
