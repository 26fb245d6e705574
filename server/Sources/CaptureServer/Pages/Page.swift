import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import Mustache

/// Renders pages.
struct Page: Sendable {
  private let library: MustacheLibrary
  private let policy: String

  /// Throws if a template is malformed.
  init() throws {
    library = try PageTemplates.library()
    let style = Data(SHA256.hash(data: Data(PageStyle.text.utf8))).base64EncodedString()
    // Nothing but the page's own images and styles is ever loaded, whatever a name contains.
    policy = """
      default-src 'none'; img-src 'self'; style-src 'sha256-\(style)'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'
      """
  }

  struct Link {
    var name: String
    var href: String
    var isCurrent: Bool
  }

  private struct Frame {
    var title: String
    var refresh: String?
    var links: [Link]
    var style: String
    var body: String
  }

  /// - Parameters:
  ///   - place: Address of the page in the navigation that this one belongs to.
  ///   - refresh: Seconds after which the browser loads the page again.
  func response(
    _ title: String, template: String, _ contents: Any, place: String, refresh: Int? = nil, status: HTTPResponse.Status = .ok
  ) -> Response {
    let body = library.render(contents, withTemplate: template) ?? ""
    let links = [("Captures", "/"), ("Datasets", "/datasets"), ("Devices and keys", "/devices"), ("Live", "/live")].map {
      Link(name: $0.0, href: $0.1, isCurrent: $0.1 == place)
    }
    let frame = Frame(title: title, refresh: refresh.map { "\($0)" }, links: links, style: PageStyle.text, body: body)
    let text = library.render(frame, withTemplate: "page") ?? ""
    let headers: HTTPFields = [
      .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .contentSecurityPolicy: policy, .xContentTypeOptions: "nosniff",
    ]
    return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(string: text)))
  }

  private struct Message {
    var title: String
    var message: String
  }

  /// A page of one sentence.
  func message(_ title: String, _ message: String, place: String, refresh: Int? = nil, status: HTTPResponse.Status = .ok) -> Response {
    response(title, template: "message", Message(title: title, message: message), place: place, refresh: refresh, status: status)
  }
}

/// Answers with a page where the others answer with JSON.
struct PageFailures: RouterMiddleware {
  let page: Page

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch let failure as Failure {
      context.logger.info("\(failure.status.code) \(failure.code): \(failure.reason ?? failure.message)")
      var response = page.message(
        failure.status == .notFound ? "Not found" : "Not possible", failure.message, place: "", status: failure.status)
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

  /// Such as 2025-11-27 10:30:20 UTC.
  static func time(_ milliseconds: Int64) -> String { Time.text(milliseconds).prefix(19).replacing("T", with: " ") + " UTC" }

  /// A path below an address.
  static func address(_ path: String) -> String {
    path.split(separator: "/").map { $0.addingPercentEncoding(withAllowedCharacters: Self.unreserved) ?? "" }.joined(separator: "/")
  }

  /// RFC 3986, section 2.3.
  static let unreserved = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
}
