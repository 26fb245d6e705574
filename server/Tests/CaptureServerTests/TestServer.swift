import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOEmbedded

import CaptureServer

/// A server in a folder of its own, whose routes are called without a socket.
final class TestServer {
  let folder = FileManager.default.temporaryDirectory.appendingPathComponent("takeset-\(UUID().uuidString)")
  let routes: Routes
  private let responder: RouterResponder<CaptureContext>
  private let logger: Logger

  init(_ settings: String...) async throws {
    let configuration = try Setting.configuration(
      arguments: ["--data", folder.path] + settings, environment: [:], file: nil, needsData: true)
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    self.logger = logger
    routes = try CaptureServer(try await Services(configuration, logger: logger)).routes()
    responder = routes.responder()
  }

  deinit { try? FileManager.default.removeItem(at: folder) }

  func key(_ power: APIKey.Power) async throws -> String {
    try await APIKeys(ServerDatabase(data: folder.path)).add(name: "key", project: "default", power: power).key
  }

  /// - Parameter key: As in `Authorization: Bearer KEY`.
  func response(_ method: HTTPRequest.Method, _ path: String, key: String? = nil, headers: HTTPFields = [:]) async -> Response {
    var headers = headers
    headers[.authorization] = key.map { "Bearer \($0)" }
    let request = Request(
      head: HTTPRequest(
        method: method, scheme: "http", authority: "localhost", path: path,
        headerFields: headers), body: RequestBody(buffer: ByteBuffer()))
    let context = CaptureContext(source: ApplicationRequestContextSource(channel: NIOAsyncTestingChannel(), logger: logger))
    do {
      return try await responder.respond(to: request, context: context)
    } catch {
      return Response(status: .internalServerError)
    }
  }

  /// What a route answers; the key stands in its address, too, if it has a place there, and its other parameters are `x`.
  func response(to route: Routes.Entry, key: String? = nil) async -> Response {
    let path = route.path.replacing("/k/{key}", with: key.map { "/k/\($0)" } ?? "").replacing(/\{\w+\}|\*\*/, with: "x")
    return await response(route.method, path, key: key)
  }
}

extension Response {
  /// Whether it is the refusal of a request without a key, or with a wrong one.
  var asksForKey: Bool { status == .unauthorized && headers[.wwwAuthenticate] != nil }
}

extension Routes.Entry {
  /// Such as `GET /api/v1/captures read`.
  var line: String { "\(method) \(path) \(access.name)" }
}

extension Routes.Access {
  /// How a key is sent, and what it must allow.
  var name: String {
    switch self {
    case .everybody: "everybody"
    case .key(let permission): "\(permission)"
    case .device(let permission): "\(permission), or a device"
    case .address(let permission): "\(permission), also by address"
    case .unanswered(let permission): "\(permission), or no answer"
    }
  }

  var permission: Permission? {
    switch self {
    case .everybody: nil
    case .key(let permission), .device(let permission), .address(let permission), .unanswered(let permission): permission
    }
  }
}
