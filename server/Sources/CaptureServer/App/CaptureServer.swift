import Foundation
import GRDB
import Hummingbird
import Logging
import Metrics
import ServiceLifecycle

/// The server: routes by topic, and the services that run beside them.
package struct CaptureServer {
  package static let version = "0.3.0"
  private let services: Services
  private let relay: Relay
  private let metrics = PrometheusMetrics(help: MetricsRoutes.help)

  package init(_ services: Services) {
    self.services = services
    relay = Relay(
      configuration: services.configuration, data: services.data, database: services.database, intake: services.intake,
      logger: services.logger)
  }

  /// All routes, by topic.
  package func routes() throws -> Routes {
    let (configuration, data, database, intake) = (services.configuration, services.data, services.database, services.intake)
    let page = try Page(configuration, database)
    let routes = Routes(
      configuration, database,
      outermost: [
        MetricsMiddleware(), ContinueMiddleware(), PacingMiddleware(), RequestIDMiddleware(configuration: configuration),
        PageFailures(page: page, isForBrowsersOnly: true), SiteMiddleware(configuration: configuration),
      ])
    CapturesRoutes(configuration: configuration, database: database, intake: intake, conversions: services.conversions).add(to: routes)
    ConversionRoutes(configuration: configuration, database: database, intake: intake, conversions: services.conversions).add(to: routes)
    DeviceRoutes(configuration: configuration, database: database, intake: intake, attestation: services.attestation).add(to: routes)
    HealthRoutes(configuration: configuration, database: database, intake: intake).add(to: routes)
    MetricsRoutes(
      configuration: configuration, database: database, intake: intake, shipping: services.shipping, metrics: metrics
    ).add(to: routes)
    let pages = PageRoutes(
      configuration: configuration, data: data, database: database, store: services.store, intake: intake,
      conversions: services.conversions, logger: services.logger, page: page)
    pages.add(to: routes)
    ServerPage(configuration: configuration, database: database, intake: intake, shipping: services.shipping, page: page)
      .add(to: routes.inside(PageFailures(page: page)))
    pages.addIcon(to: routes)
    pages.addShared(to: routes)
    SessionRoutes(configuration: configuration, data: data, database: database, intake: intake).add(to: routes)
    SlowMotionRoutes(
      configuration: configuration, data: data, database: database, store: services.store, intake: intake, logger: services.logger,
      relay: relay, page: page
    ).add(to: routes)
    TusRoutes(configuration: configuration, data: data, database: database, intake: intake).add(to: routes)
    VideoRoutes(configuration: configuration, data: data, database: database, intake: intake).add(to: routes)
    WorkRoutes(data: data, database: database, store: services.store, intake: intake, conversions: services.conversions).add(to: routes)
    return routes
  }

  /// Serves until SIGTERM or SIGINT; requests under way are then finished.
  package func run() async throws {
    MetricsSystem.bootstrap(metrics)
    await StreamTake.recover(data: services.data, intake: services.intake, logger: services.logger)
    // The first one ends last.
    var beside: [any Service] = [
      services.conversions,
      UploadSweeper(
        configuration: services.configuration, data: services.data, database: services.database, intake: services.intake,
        logger: services.logger),
    ]
    if let shipping = services.shipping { beside.insert(shipping, at: 0) }
    try await Listeners(configuration: services.configuration, relay: relay, logger: services.logger)
      .run(try routes().responder(), services: beside) { [services] in
        services.logger.notice("\(services.configuration.keyRule)")
        if services.configuration.appIDs.isEmpty {
          services.logger.notice("No signature of a capture is checked: \(ConversionReport.noApps)")
        }
      }
  }
}

/// `/health`: the server is up. `/ready`: it takes captures.
struct HealthRoutes {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake

  func add(to routes: Routes) {
    let everybody = routes.open(to: .everybody)
    everybody.get("health") { _, _ in try JSONAnswer.response(["status": "ok"]) }
    everybody.get("ready") { _, _ in
      guard intake.freeBytes >= configuration.reserve else {
        throw Failure(.serviceUnavailable, "STORAGE_ERROR", "The server is short of disk space, and takes nothing")
      }
      _ = try await database.pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM apiKey") }
      return try JSONAnswer.response(["status": "ready"])
    }
  }
}
