package import HTTPTypes
package import Hummingbird

/// All routes of the server. Each says to whom it is open: there is no other way to register one.
package struct Routes {
  /// The senders that get through to a route.
  package enum Access: Hashable, Sendable {
    /// Everybody, with or without a key.
    case everybody
    /// Whoever has a key that allows it; and whoever has none, where none is needed.
    case key(Permission)
    /// Devices, too, which sign what they send. A key that is sent must allow it.
    case device(Permission)
    /// Like `key`, but the key may stand in the address: slow-motion phones can send it nowhere else.
    case address(Permission)
    /// Like `address`, but the route itself looks at the key, because a refusal must not be answered.
    case unanswered(Permission)
  }

  /// A route that was registered, for tests of its access.
  package struct Entry: Hashable, Sendable {
    package var method: HTTPRequest.Method
    package var path: String
    package var access: Access
  }

  fileprivate final class Table {
    let router = CaptureRouter(context: CaptureContext.self)
    var entries: [Entry] = []
  }

  private let configuration: Configuration
  private let database: ServerDatabase
  private let table = Table()
  /// The middleware between the key and the routes that are registered here.
  private var middleware: [any MiddlewareProtocol<Request, Response, CaptureContext>] = []

  /// - Parameter outermost: The middleware of every request, also of one without a route.
  init(
    _ configuration: Configuration, _ database: ServerDatabase, outermost: [any MiddlewareProtocol<Request, Response, CaptureContext>]
  ) {
    (self.configuration, self.database) = (configuration, database)
    for one in outermost { table.router.add(middleware: one) }
  }

  /// All that were registered.
  package var entries: [Entry] { table.entries }

  /// Returns the responder for all routes registered so far.
  package func responder() -> RouterResponder<CaptureContext> { table.router.buildResponder() }

  /// The same routes, for registering some inside a middleware.
  func inside(_ one: some MiddlewareProtocol<Request, Response, CaptureContext>) -> Routes {
    var routes = self
    routes.middleware.append(one)
    return routes
  }

  /// Returns the group in which routes for some are registered.
  func open(to access: Access) -> Group {
    let routes = table.router.group()
    switch access {
    case .everybody, .unanswered: break
    case .key(let permission):
      routes.add(middleware: KeyMiddleware(configuration: configuration, database: database, permission: permission, isRequired: true))
    case .device(let permission):
      routes.add(middleware: KeyMiddleware(configuration: configuration, database: database, permission: permission, isRequired: false))
    case .address(let permission):
      routes.add(middleware: SlowMotionKeyMiddleware(configuration: configuration, database: database, permission: permission))
    }
    for one in middleware { routes.add(middleware: one) }
    return Group(access: access, table: table, routes: routes)
  }

  struct Group: RouterMethods {
    typealias Context = CaptureContext

    fileprivate let access: Access
    fileprivate let table: Table
    fileprivate let routes: RouterGroup<CaptureContext>

    func on<Responder: HTTPResponder>(
      _ path: RouterPath, method: HTTPRequest.Method, responder: Responder
    ) -> Group where Responder.Context == CaptureContext {
      table.entries.append(Entry(method: method, path: path.description, access: access))
      routes.on(path, method: method, responder: responder)
      return self
    }

    func add(middleware: any MiddlewareProtocol<Request, Response, CaptureContext>) -> Group {
      routes.add(middleware: middleware)
      return self
    }
  }
}
