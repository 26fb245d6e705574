import Connections
import Foundation
import NIOCore
import NIOPosix
import NIOSSL

/// Whether a server with some settings would work, and what its operator should know. It changes nothing but that it listens for a moment.
package struct SetupCheck: Sendable {
  /// The result of examining one thing.
  package struct Finding: Codable, Sendable {
    /// The weight of a result.
    package enum State: String, Codable, Sendable {
      case ok, warning
      /// A server with these settings would not start, or would take nothing.
      case problem
    }
    /// The thing that was examined.
    package var name: String
    package var state: State
    package var message: String
    /// The remedy; `nil` where nothing has to be done.
    package var remedy: String?

    static func ok(_ name: String, _ message: String) -> Finding { Finding(name: name, state: .ok, message: message) }
    static func warning(_ name: String, _ message: String, _ remedy: String) -> Finding {
      Finding(name: name, state: .warning, message: message, remedy: remedy)
    }
    static func problem(_ name: String, _ message: String, _ remedy: String) -> Finding {
      Finding(name: name, state: .problem, message: message, remedy: remedy)
    }
  }

  private let configuration: Configuration
  /// Whether a server runs on the data folder.
  private let isRunning: Bool

  package init(_ configuration: Configuration) {
    self.configuration = configuration
    isRunning = DataFolder.isInUse(configuration.data)
  }

  /// Returns the findings in the order in which a server needs the things.
  package func findings() async -> [Finding] {
    var found = [Self.folder("data", configuration.data)]
    let database = Result { try ServerDatabase.glimpse(in: configuration.data) }
    found.append(self.database(database))
    found.append(room("room", configuration.data))
    found += await store()
    found.append(await standby((try? database.get())?.copies ?? .init()))
    found.append(await converter())
    if let path = configuration.pipeline {
      found.append(await pipeline(path))
    }
    found.append(certificate())
    for (option, address) in [("listen", Optional(configuration.listen)), ("camera-listen", configuration.cameraListen)] {
      if let address { found.append(await port(option, address)) }
    }
    found.append(apps())
    found.append(keys((try? database.get())?.keys ?? 0))
    return found
  }

  // MARK: Disk

  /// The path itself, or the nearest folder above it that is there.
  private static func existing(_ path: String) -> String {
    var url = URL(fileURLWithPath: path).standardizedFileURL
    while access(url.path, F_OK) != 0, url.path != "/" { url.deleteLastPathComponent() }
    return url.path
  }

  private static func folder(_ name: String, _ path: String) -> Finding {
    let remedy = "run the check as the user of the server, or give that user the folder"
    let there = existing(path)
    var isFolder: ObjCBool = false
    guard FileManager.default.fileExists(atPath: there, isDirectory: &isFolder), isFolder.boolValue else {
      return .problem(name, "\(there) is no folder", "name another one")
    }
    guard access(there, R_OK | W_OK | X_OK) == 0 else { return .problem(name, "\(there) cannot be written to by this user", remedy) }
    return .ok(name, access(path, F_OK) == 0 ? path : "\(path) is made at the start")
  }

  private func room(_ name: String, _ path: String) -> Finding {
    let free = DurableFile.freeBytes(Self.existing(path))
    let message = "\(Figure.size(free)) free for \(path)"
    if free < configuration.reserve {
      return .problem(
        name, "\(message), less than --reserve \(Figure.size(configuration.reserve)): nothing is accepted",
        "remove something, or lower --reserve")
    }
    let strangers = configuration.reserve(isStranger: true)
    return configuration.policy == .compat && free < strangers
      ? .warning(
        name, "\(message), less than --stranger-reserve \(Figure.size(strangers)): nothing is accepted that nobody vouches for",
        "remove something, or lower --stranger-reserve")
      : .ok(name, "\(message), and --reserve is \(Figure.size(configuration.reserve))")
  }

  private func database(_ found: Result<ServerDatabase.Glimpse?, any Error>) -> Finding {
    switch found {
    case .success(.none): .ok("database", "it is made at the start")
    case .success(.some(let database)) where database.isNewer:
      .problem("database", "a newer version of this program has changed it", "install that version, or restore the copy from before")
    case .success: .ok("database", isRunning ? "a server has it open" : "it can be read")
    case .failure(let error): .problem("database", "\(Mistake(error))", "restore a copy: see takeset-server restore")
    }
  }

  private func store() async -> [Finding] {
    guard let place = configuration.store else { return [] }
    guard S3Location.isAddress(place) else { return [Self.folder("store", place), room("store-room", place)] }
    do {
      let location = try S3Location(place)
      try await S3Client(location).check()
      return [.ok("store", "the bucket \(location.bucket) at \(location.endpoint) can be listed")]
    } catch {
      return [.problem("store", "\(Mistake(error))", "mend the address or the credentials of --store")]
    }
  }

  // MARK: Standby

  private func standby(_ database: DatabaseShipping.CopyNumbers) async -> Finding {
    guard let text = configuration.standby else { return .ok("standby", "there is none: --standby") }
    if !S3Location.isAddress(text) {
      guard access(text, F_OK) == 0 else {
        return .warning("standby", "\(text) is not there, and would be made", "make it, or see whether its disk is mounted")
      }
      let folder = Self.folder("standby", text)
      guard folder.state == .ok else { return folder }
    }
    do {
      let place = try await StandbyPlace(text)
      let names = try await place.names()
      guard let newest = Generation.complete(among: names).last, let last = names.last(where: { Generation(of: $0) == newest }) else {
        return .ok("standby", "it can be reached, and has no copy yet")
      }
      if let mistake = try await DatabaseShipping.mistake(newest, at: place, of: database) {
        return .problem("standby", "\(mistake)", "see takeset-server restore")
      }
      guard let copied = try await place.time(of: last), let changed = changed() else { return .ok("standby", "it can be reached") }
      let lag = max(0, changed.timeIntervalSince(copied))
      let message =
        "the copy is of \(copied.formatted(.iso8601)), "
        + (lag < 1 ? "and has every change" : "\(Figure.duration(lag)) before the database's last change")
      return lag <= DatabaseShipping.mostLag
        ? .ok("standby", message)
        : .warning("standby", message, isRunning ? "see the log of the server" : "start the server with --standby, which copies the rest")
    } catch {
      return .problem("standby", "\(Mistake(error))", "mend --standby: a server does not start without the place")
    }
  }

  /// Returns the time at which the database was last written to.
  private func changed() -> Date? {
    ["", "-wal"].compactMap { ending in
      try? FileManager.default.attributesOfItem(atPath: "\(configuration.data)/server.sqlite\(ending)")[.modificationDate] as? Date
    }.max()
  }

  // MARK: Converter

  private func converter() async -> Finding {
    let command = TakesetCommand(configuration)
    let end = try? await command(["--version"], in: NSTemporaryDirectory(), seconds: 60)
    let said = end?.output.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    let words = said.split(separator: " ")
    guard end?.code == 0, words.first == "takeset", let version = words.dropFirst().first else {
      let message = "the command \(command.path) cannot be run, or is another program"
      let remedy = "install takeset, or name the command by --takeset"
      return configuration.conversions == 0 ? .warning("converter", message, remedy) : .problem("converter", message, remedy)
    }
    guard version == CaptureServer.version else {
      return .warning(
        "converter", "\(command.path) is \(said), and the server \(CaptureServer.version)", "install both of the same version")
    }
    return .ok("converter", "\(command.path) is \(said)" + (configuration.conversions == 0 ? ", and --conversions 0 leaves it unused" : ""))
  }

  private func pipeline(_ path: String) async -> Finding {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
      return .problem("pipeline", "\(path) cannot be read", "name a file that this user may read")
    }
    do {
      let absolute = URL(fileURLWithPath: path).standardizedFileURL.path
      let files = try await PipelineSource(configuration).files(of: absolute, text).keys.sorted()
      return .ok("pipeline", files.isEmpty ? path : "\(path), with steps in Python: \(files.joined(separator: ", "))")
    } catch {
      let reason = (error as? Failure)?.reason ?? "\(error)"
      return .problem("pipeline", reason, "mend it; steps in Python need --python, the interpreter that may call them")
    }
  }

  // MARK: Network

  /// Days before a certificate's end.
  private static let shortDays = 14

  private func certificate() -> Finding {
    guard let path = configuration.tlsCertificate, let key = configuration.tlsKey else {
      return configuration.isLoopback
        ? .ok("certificate", "none is needed: only this machine can connect")
        : .warning(
          "certificate", "others can connect without TLS, so captures and keys can be read as they pass",
          "give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS")
    }
    do {
      _ = try Listeners.tls(path, key)
      let chain = try NIOSSLCertificate.fromPEMFile(path)
      func date(_ time: time_t) -> Date { Date(timeIntervalSince1970: Double(time)) }
      guard let end = chain.map({ date($0.notValidAfter) }).min(), let start = chain.map({ date($0.notValidBefore) }).max() else {
        return .problem("certificate", "--tls-cert \(path): there is no certificate in it", "name another file")
      }
      let (day, rest) = (end.formatted(.iso8601.year().month().day()), end.timeIntervalSinceNow / 86_400)
      if start > Date() {
        return .problem("certificate", "\(path) is valid from \(start.formatted(.iso8601)) on", "wait, or set the clock of this machine")
      }
      let remedy = "renew it, and restart the server, which reads it at its start"
      if rest < 0 { return .problem("certificate", "\(path) has ended: its last day was \(day)", remedy) }
      return rest < Double(Self.shortDays)
        ? .warning("certificate", "\(path) ends soon: its last day is \(day)", remedy)
        : .ok("certificate", "\(path): its last day is \(day)")
    } catch {
      return .problem("certificate", "\(Mistake(error))", "name the files of a certificate and its key that this user may read")
    }
  }

  private func port(_ option: String, _ text: String) async -> Finding {
    do {
      let address = try ListenAddress(text, option: option)
      let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1).bind(host: address.host, port: address.port).get()
      try await channel.close()
      return .ok(option, "\(text) is free")
    } catch let error as IOError where error.errnoCode == EADDRINUSE && isRunning {
      return .ok(option, "\(text) is in use, as is the data folder: the server runs")
    } catch let error as IOError {
      let reason = String(cString: strerror(error.errnoCode))
      return .problem(option, "cannot listen on \(text): \(reason)", "end what listens there, or choose another address or port")
    } catch let error as SocketAddressError.UnknownHost {
      return .problem(option, "cannot listen on \(error.host): there is no such host", "choose an address of this machine")
    } catch {
      return .problem(option, "\(Mistake(error))", "choose another address and port")
    }
  }

  // MARK: Who may do what

  private func apps() -> Finding {
    do {
      _ = try AttestationVerifier(configuration)
    } catch {
      return .problem("apps", "\(Mistake(error))", "mend --app-attest-root and --app-id")
    }
    guard !configuration.appIDs.isEmpty else {
      return .warning("apps", "no signature of a capture is checked: \(ConversionReport.noApps)", "name the apps by --app-id")
    }
    if let odd = configuration.appIDs.first(where: { $0.wholeMatch(of: /[A-Z0-9]{10}\.[A-Za-z0-9.\-]+/) == nil }) {
      return .warning("apps", "--app-id \(odd) is no id of a team and a bundle, so no app has it", "name it as ABCDE12345.com.example.app")
    }
    let names = configuration.appIDs.joined(separator: ", ")
    return .ok("apps", names + (configuration.appAttestRoot == nil ? "; no attestation is verified without --app-attest-root" : ""))
  }

  private func keys(_ count: Int) -> Finding {
    guard configuration.needsKey(isForwarded: false) else {
      return configuration.isLoopback
        ? .ok("keys", "none is needed on this machine")
        : .warning("keys", "everybody who can connect may read and delete everything: --require-key=false", "leave that out")
    }
    return count > 0
      ? .ok("keys", "\(count) in use")
      : .warning(
        "keys", "there are none, so nobody can read or send anything",
        "make one: takeset-server keys add --data \(configuration.data) --name NAME")
  }
}
