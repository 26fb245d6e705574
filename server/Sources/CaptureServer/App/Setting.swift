import Foundation
import NIOCore
import Yams

/// A setting of the server: declared once, given by a flag, the environment or the configuration file.
package struct Setting: Sendable {
  /// The flag without its hyphens, such as `base-url`.
  package let name: String
  package let meaning: String
  /// Whether the flag needs no value.
  package let isSwitch: Bool
  /// Whether the flag may be repeated; its values are then those of all.
  let isList: Bool
  /// Sets it from text. Throws `Mistake`.
  package let set: @Sendable (inout Configuration, String) throws -> Void
  /// The setting's text in the configuration file; `nil` where nothing is set.
  package let text: @Sendable (Configuration) -> String?

  /// Name in the environment, such as `TAKESET_SERVER_BASE_URL`.
  package var variable: String { "TAKESET_SERVER_" + name.uppercased().replacingOccurrences(of: "-", with: "_") }

  private init<Value: Sendable>(
    _ name: String, _ meaning: String, _ path: WritableKeyPath<Configuration, Value> & Sendable, isSwitch: Bool = false,
    isList: Bool = false, parse: @escaping @Sendable (String) throws -> Value, show: @escaping @Sendable (Value) -> String?
  ) {
    self.name = name
    self.meaning = meaning
    self.isSwitch = isSwitch
    self.isList = isList
    set = { configuration, text in
      do {
        configuration[keyPath: path] = try parse(text)
      } catch let mistake as Mistake {
        throw Mistake("\(name): \(mistake)")
      }
    }
    self.text = { show($0[keyPath: path]) }
  }

  private static func text(_ name: String, _ meaning: String, _ path: WritableKeyPath<Configuration, String?> & Sendable) -> Setting {
    Setting(name, meaning, path, parse: { $0 }, show: { $0 })
  }

  /// A folder or an S3 bucket.
  private static func place(_ name: String, _ meaning: String, _ path: WritableKeyPath<Configuration, String?> & Sendable) -> Setting {
    Setting(
      name, meaning + ": a folder, or s3://bucket/prefix?endpoint=URL&region=NAME", path,
      parse: { text in
        if S3Location.isAddress(text) { _ = try S3Location(text) }
        return text
      }, show: { $0 })
  }

  private static func list(
    _ name: String, _ meaning: String, _ path: WritableKeyPath<Configuration, [String]> & Sendable,
    parse: @escaping @Sendable (String) throws -> String = { $0 }
  ) -> Setting {
    Setting(
      name, meaning + "; several with commas", path, isList: true,
      parse: { try $0.split(separator: ",").map { try parse($0.trimmingCharacters(in: .whitespaces)) } },
      show: { $0.isEmpty ? nil : $0.joined(separator: ",") })
  }

  private static func number<Value: FixedWidthInteger & Sendable>(
    _ name: String, _ meaning: String, _ path: WritableKeyPath<Configuration, Value> & Sendable, _ range: ClosedRange<Value>
  ) -> Setting {
    Setting(
      name, meaning, path,
      parse: { text in
        guard let value = Value(text), range.contains(value) else {
          throw Mistake("expected a whole number from \(range.lowerBound) to \(range.upperBound), found \"\(text)\"")
        }
        return value
      }, show: { "\($0)" })
  }

  private static func truth(_ text: String) throws -> Bool {
    switch text.lowercased() {
    case "true", "yes", "1": return true
    case "false", "no", "0": return false
    default: throw Mistake("expected true or false, found \"\(text)\"")
    }
  }

  package static let all: [Setting] = [
    Setting("data", "folder of captures, uploads, database and datasets", \.data, parse: { $0 }, show: { $0.isEmpty ? nil : $0 }),
    Setting("listen", "address and port to listen on", \.listen, parse: { $0 }, show: { $0 }),
    text("camera-listen", "another address for cameras and viewers of the slow-motion app, which expects port 8080", \.cameraListen),
    Setting(
      "policy", "strict: only verified requests; compat: also what the apps really send, as unverified", \.policy,
      parse: { text in
        guard let policy = Configuration.Policy(rawValue: text) else { throw Mistake("expected strict or compat, found \"\(text)\"") }
        return policy
      }, show: { $0.rawValue }),
    Setting(
      "base-url", "the server's public root, for links in answers", \.baseURL,
      parse: { text in
        guard let url = URLComponents(string: text), ["http", "https"].contains(url.scheme), url.host?.isEmpty == false,
          url.query == nil, url.fragment == nil
        else { throw Mistake("expected an address such as https://captures.example.org, found \"\(text)\"") }
        return String(text.reversed().drop { $0 == "/" }.reversed())
      }, show: { $0 }),
    text("app-attest-root", "PEM file of the roots of App Attest chains", \.appAttestRoot),
    list("app-id", "app that may attest and sign, such as ABCDE12345.com.example.app", \.appIDs),
    Setting(
      "allow-development", "accept development builds of the app", \.allowsDevelopment, isSwitch: true, parse: truth, show: { "\($0)" }),
    Setting(
      "require-key", "ask readers, scripts and resumable uploads for an API key; without it, unless only this machine can connect",
      \.requireKey, isSwitch: true, parse: truth, show: { $0.map { "\($0)" } }),
    list(
      "trusted-proxy", "address of a proxy whose X-Forwarded-For counts", \.trustedProxies,
      parse: { text in
        guard let address = try? SocketAddress(ipAddress: text, port: 0) else {
          throw Mistake("expected addresses such as 127.0.0.1, found \"\(text)\"")
        }
        return address.ipAddress ?? text
      }),
    text("tls-cert", "PEM file of the certificate chain", \.tlsCertificate),
    text("tls-key", "PEM file of the private key", \.tlsKey),
    number("reserve", "free bytes below which nothing is accepted", \.reserve, 0...(1 << 60)),
    number("stranger-reserve", "free bytes below which nothing is accepted of strangers", \.strangerReserve, 0...(1 << 60)),
    place("store", "where finished captures are kept", \.store),
    place("standby", "where each change of the database is copied, for a machine that takes this one's place", \.standby),
    number("device-quota", "most bytes kept of a device; 0 for no limit", \.deviceQuota, 0...(1 << 60)),
    number("project-quota", "most bytes kept of a project, unfinished uploads included; 0 for no limit", \.projectQuota, 0...(1 << 60)),
    number("timestamp-age", "seconds for which a request's timestamp is valid", \.timestampAge, 1...2_592_000),
    number("timestamp-lead", "seconds that a request's timestamp may be ahead", \.timestampLead, 0...86_400),
    number("videos-per-hour", "video captures accepted of a device in an hour", \.videosPerHour, 1...100_000),
    number("upload-expiry", "seconds for which an unfinished upload is kept after its last byte", \.uploadExpiry, 60...31_536_000),
    number("retention-days", "days for which a converted capture is kept; 0 for ever", \.retentionDays, 0...36_500),
    number("conversions", "conversions at a time; 0 for none", \.conversions, 0...64),
    number("conversion-seconds", "seconds that a conversion may take", \.conversionSeconds, 1...604_800),
    number("conversion-memory", "bytes of memory that a conversion may take", \.conversionMemory, (256 << 20)...(1 << 50)),
    number("conversion-attempts", "how often a conversion is tried", \.conversionAttempts, 1...100),
    number("worker-silence", "seconds after which a worker that is not heard of loses its capture", \.workerSilence, 4...86_400),
    text("takeset", "the command takeset, if it is neither next to this one nor on PATH", \.takeset),
    text("pipeline", "pipeline file of all conversions", \.pipeline),
    text("python", "interpreter of the pipeline's steps in Python; without it, a pipeline that has some converts nothing", \.python),
    number("head-seconds", "seconds for a complete request head", \.headSeconds, 1...3600),
    number("idle-seconds", "seconds without a byte after which a connection is closed", \.idleSeconds, 1...86_400),
    number("connections", "connections at a time", \.connections, 1...100_000),
    number(
      "address-connections", "connections at a time of one address that is no trusted proxy's", \.addressConnections, 1...100_000),
    Setting("log-level", "trace, debug, info, notice, warning, error or critical", \.logLevel, parse: { $0 }, show: { $0 }),
  ]

  /// The configuration from flags, environment and file, in this order of precedence. Throws `Mistake`.
  ///
  /// - Parameter needsData: Whether the data folder must be named.
  package static func configuration(
    arguments: [String], environment: [String: String], file: String?, needsData: Bool
  ) throws -> Configuration {
    var configuration = Configuration(data: "")
    if let file {
      guard let text = try? String(contentsOfFile: file, encoding: .utf8) else { throw Mistake("\(file): cannot be read") }
      let entries: [String: String]
      do {
        entries = try YAMLDecoder().decode([String: Scalar].self, from: text).compactMapValues(\.text)
      } catch {
        throw Mistake("\(file): expected lines such as \"policy: strict\"")
      }
      for (name, value) in entries.sorted(by: { $0.key < $1.key }) {
        try setting(named: name, in: file).set(&configuration, value)
      }
    }
    for setting in all {
      if let value = environment[setting.variable] { try setting.set(&configuration, value) }
    }
    var rest = arguments[...]
    var given: [String: String] = [:]
    while let flag = rest.popFirst() {
      guard flag.hasPrefix("--") else { throw Mistake("unexpected argument \(flag)") }
      let halves = flag.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let setting = try setting(named: halves[0], in: nil)
      guard let value = halves.count == 2 ? halves[1] : setting.isSwitch ? "true" : rest.popFirst() else {
        throw Mistake("\(flag): a value is missing")
      }
      given[setting.name] = setting.isList ? [given[setting.name], value].compactMap(\.self).joined(separator: ",") : value
    }
    for setting in all {
      if let value = given[setting.name] { try setting.set(&configuration, value) }
    }
    guard !needsData || !configuration.data.isEmpty else { throw Mistake("--data is missing: the folder where everything is kept") }
    guard (configuration.tlsCertificate == nil) == (configuration.tlsKey == nil) else {
      throw Mistake("--tls-cert and --tls-key belong together")
    }
    return configuration
  }

  private static func setting(named name: String, in file: String?) throws -> Setting {
    if let setting = all.first(where: { $0.name == name }) { return setting }
    throw Mistake((file.map { "\($0): unknown setting " } ?? "unknown option --") + name)
  }

  /// A scalar of YAML as the text that stands there.
  private struct Scalar: Decodable {
    var text: String?
    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        text = nil
      } else if let value = try? container.decode(Bool.self) {
        text = "\(value)"
      } else if let value = try? container.decode(Int64.self) {
        text = "\(value)"
      } else {
        text = try container.decode(String.self)
      }
    }
  }
}
