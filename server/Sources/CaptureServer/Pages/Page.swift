import Crypto
import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import Mustache
import NIOPosix

/// Renders pages.
struct Page: Sendable {
  private let library: MustacheLibrary
  private let configuration: Configuration
  private let database: ServerDatabase
  /// A page of a thousand rows takes half a second, in which others are served. Not the threads that wait for disks: uploads need those.
  private static let renderers: NIOThreadPool = {
    let pool = NIOThreadPool(numberOfThreads: 2)
    pool.start()
    return pool
  }()

  /// Throws if a template is malformed.
  init(_ configuration: Configuration, _ database: ServerDatabase) throws {
    (self.configuration, self.database) = (configuration, database)
    library = try PageFiles.templates()
  }

  /// Nothing but the page's own style, images and script is ever loaded, whatever a name contains. A script may talk to this server, play
  /// its movies and show images that it has made.
  private static func policy(_ script: String?) -> String {
    let allowed = script.map { " blob:; script-src '\(digest($0))'; connect-src 'self'; media-src 'self'" } ?? ""
    return """
      default-src 'none'; style-src '\(digest(PageFiles.style))'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
      img-src 'self'\(allowed)
      """
  }

  private static func digest(_ text: String) -> String {
    "sha256-" + Data(SHA256.hash(data: Data(text.utf8))).base64EncodedString()
  }

  struct Link {
    var name: String
    var href: String
    var isCurrent: Bool
    /// The mark for something that has to be looked at there.
    var mark: String?
  }

  /// The name of the server, and the pages that the reader may see there.
  private struct Reader {
    var server: String
    var project: String
    var key: String?
    var purpose: String
  }

  private struct Frame {
    var title: String
    var links: [Link]
    var hasLinks: Bool
    var reader: Reader?
    var style: String
    var body: String
    var script: String?
  }

  /// - Parameters:
  ///   - place: Address of the page in the navigation that this one belongs to; `nil` for pages without navigation.
  ///   - context: Of the request: the reader is named above the page.
  ///   - script: JavaScript of the page.
  func response(
    _ title: String, template: String, _ contents: some Sendable, place: String?, for context: CaptureContext, script: String? = nil,
    status: HTTPResponse.Status = .ok
  ) async throws -> Response {
    let reader = context.isAdmitted && place != nil ? self.reader(context.key) : nil
    let failures = try await reader == nil ? 0 : self.failures(of: context.key?.scope)
    let links = place.map { place in
      Self.places.map { name, href in
        Link(name: name, href: href, isCurrent: href == place, mark: href == "/jobs" && failures > 0 ? Self.count(failures) : nil)
      }
    }
    let text = try await Self.renderers.runIfActive { [library] in
      let body = library.render(contents, withTemplate: template) ?? ""
      let frame = Frame(
        title: title, links: links ?? [], hasLinks: links != nil, reader: reader, style: PageFiles.style, body: body, script: script)
      return library.render(frame, withTemplate: "page") ?? ""
    }
    var headers: HTTPFields = [
      .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .contentSecurityPolicy: Self.policy(script),
      .xContentTypeOptions: "nosniff",
    ]
    if place == nil {
      // The address is a secret, which other sites and search engines need not know.
      headers[.referrerPolicy] = "no-referrer"
      headers[.robots] = "noindex"
    }
    return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(string: text)))
  }

  private static let places = [
    ("Captures", "/"), ("Jobs", "/jobs"), ("Datasets", "/datasets"), ("Devices and keys", "/devices"), ("Live", "/live"),
    ("Server", "/server"),
  ]

  private static let machine = ProcessInfo.processInfo.hostName

  private func reader(_ key: APIKey?) -> Reader {
    Reader(
      server: configuration.baseURL.flatMap(Origin.name(ofURL:)) ?? Self.machine,
      project: key?.scope.map { "project \(Figure.short($0, 100))" } ?? "all projects",
      key: key.map { Figure.short($0.name, 100) }, purpose: key?.power.purpose ?? "")
  }

  private static let mostFailures = 100

  private static func count(_ failures: Int) -> String { "\(failures < mostFailures ? "\(failures)" : "\(mostFailures) or more") failed" }

  /// Conversions that failed, up to a number.
  ///
  /// - Parameter project: The only one; `nil` for all.
  private func failures(of project: String?) async throws -> Int {
    try await database.pool.read { database in
      try Int.fetchOne(
        database,
        sql: """
          SELECT COUNT(*) FROM (SELECT 1 FROM capture WHERE status = 'failed' \(project == nil ? "" : "AND +project = ?") LIMIT \(Self.mostFailures))
          """, arguments: project.map { [$0] } ?? []) ?? 0
    }
  }

  private struct Message {
    var title: String
    var message: String
    var canRepeat: Bool
  }

  /// A page of one sentence, with a link to itself where it will soon say something else.
  func message(
    _ title: String, _ message: String, canRepeat: Bool = false, place: String?, for context: CaptureContext, status: HTTPResponse.Status
  ) async throws -> Response {
    try await response(
      title, template: "message", Message(title: title, message: message, canRepeat: canRepeat), place: place, for: context, status: status)
  }
}

/// Answers with a page where the others answer with JSON.
struct PageFailures: RouterMiddleware {
  let page: Page
  /// Whether only those get a page that ask for one, as browsers do for what a person opens.
  var isForBrowsersOnly = false
  /// Whether the pages are for everybody: then they lead nowhere.
  var isForGuests = false

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    guard !isForBrowsersOnly || request.headers[.accept]?.contains("text/html") == true else { return try await next(request, context) }
    do {
      return try await next(request, context)
    } catch let error as any HTTPResponseError where !(error is Failure) {
      let isMissing = error.status == .notFound
      return try await page.message(
        isMissing ? "Not found" : "Not possible", isMissing ? "There is nothing at this address." : "That cannot be done at this address.",
        place: isForGuests ? nil : "", for: context, status: error.status)
    } catch let failure as Failure {
      context.logger.info("\(failure.status.code) \(failure.code): \(failure.reason ?? failure.message)")
      let advice =
        failure.code == KeyMiddleware.keyRequired ? ". Load the page again, and give the key as the password; any user name will do." : ""
      var response = try await page.message(
        failure.status == .notFound ? "Not found" : "Not possible", failure.message + advice, place: isForGuests ? nil : "",
        for: context, status: failure.status)
      for field in failure.headers { response.headers[field.name] = field.value }
      return response
    }
  }
}

/// Figures as people read them.
enum Figure {
  /// Such as 12.3 MB.
  static func size(_ bytes: Int64) -> String {
    var value = Double(bytes)
    for unit in ["bytes", "kB", "MB", "GB"] {
      if value < 1000 { return unit == "bytes" ? "\(bytes) bytes" : "\(tenths(value)) \(unit)" }
      value /= 1000
    }
    return "\(tenths(value)) TB"
  }

  private static func tenths(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

  /// The start of a text, as a client's may have any length.
  static func short(_ text: String, _ length: Int = 1000) -> String {
    text.utf8.count <= length ? text : text.prefix(length) + "\u{2026}"
  }

  /// Such as 2025-11-27 10:30:20 UTC.
  static func time(_ milliseconds: Int64) -> String { Time.text(milliseconds).prefix(19).replacing("T", with: " ") + " UTC" }

  /// Such as 27 Nov 18:20, by UTC; with the year where that is not this one.
  static func moment(_ milliseconds: Int64, now: Int64 = Time.now()) -> String {
    let (text, today) = (Time.text(milliseconds), Time.text(now))
    let parts = text.split { "-T:".contains($0) }.map(String.init)
    guard parts.count > 4, let month = Int(parts[1]), months.indices.contains(month - 1), let day = Int(parts[2]) else { return text }
    let year = text.prefix(4) == today.prefix(4) ? "" : " \(parts[0])"
    return "\(day) \(months[month - 1])\(year) \(parts[3]):\(parts[4])"
  }

  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  /// A path below an address.
  static func address(_ path: String) -> String {
    path.split(separator: "/").map(escaped).joined(separator: "/")
  }

  /// A value of a query, or a part of a path.
  static func escaped(_ text: some StringProtocol) -> String { text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? "" }

  /// Such as 12.3 s, or 4 min 5 s.
  static func duration(_ seconds: Double) -> String {
    guard seconds.isFinite, seconds >= 0 else { return "" }
    if seconds < 100 { return "\(tenths(seconds)) s" }
    let whole = Int64(min(seconds, 1e12).rounded())
    return whole < 6000 ? "\(whole / 60) min \(whole % 60) s" : "\(whole / 3600) h \(whole % 3600 / 60) min"
  }

  /// RFC 3986, section 2.3.
  static let unreserved = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
}
