import Foundation

/// `s3://bucket/prefix?endpoint=https://host:port&region=name`; credentials come from the environment, as for AWS's own tools.
package struct S3Location: Sendable {
  /// Scheme, host and port, without a slash at the end.
  package let endpoint: String
  /// The value of the header `Host`: without the port that belongs to the scheme.
  package let host: String
  package let bucket: String
  /// The beginning of all keys, with a slash at its end, or empty.
  package let prefix: String
  package let region: String

  /// Whether a text for `--store` names a place on a server, not a folder.
  static func isAddress(_ text: String) -> Bool { text.contains("://") || text.hasPrefix("s3:") }

  /// Throws `Mistake`.
  package init(_ text: String) throws {
    let shown = text.prefix { $0 != "@" }
    guard let parts = URLComponents(string: text), parts.scheme == "s3", let bucket = parts.host, !bucket.isEmpty else {
      throw Mistake("expected s3://bucket/prefix?endpoint=URL&region=NAME, found \(shown)")
    }
    guard parts.user == nil, parts.password == nil, parts.port == nil else {
      throw Mistake("expected s3://bucket/prefix; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    }
    let options = (parts.queryItems ?? []).reduce(into: [:]) { $0[$1.name] = $1.value }
    if let unknown = options.keys.sorted().first(where: { !["endpoint", "region"].contains($0) }) {
      throw Mistake("\(unknown): unknown; an S3 store has endpoint and region")
    }
    region = options["region"] ?? "us-east-1"
    let address = options["endpoint"] ?? "https://s3.\(region).amazonaws.com"
    guard let place = URLComponents(string: address), let scheme = place.scheme, ["http", "https"].contains(scheme),
      let name = place.percentEncodedHost, !name.isEmpty, ["", "/"].contains(place.path), place.query == nil, place.user == nil
    else {
      throw Mistake("endpoint: expected an address without a path, such as https://s3.example.com, found \(address.prefix { $0 != "@" })")
    }
    let port = place.port.flatMap { $0 == (scheme == "https" ? 443 : 80) ? nil : ":\($0)" } ?? ""
    host = name + port
    endpoint = "\(scheme)://\(host)"
    self.bucket = bucket
    let folder = parts.path.trimmingCharacters(in: CharacterSet(charactersIn: "/"))
    // A client of HTTP resolves such parts, and the signature would not fit.
    guard folder.isEmpty || folder.split(separator: "/", omittingEmptySubsequences: false).allSatisfy({ !["", ".", ".."].contains($0) })
    else { throw Mistake("the prefix \(folder) has an empty part, \".\" or \"..\"") }
    prefix = folder.isEmpty ? "" : folder + "/"
  }
}
