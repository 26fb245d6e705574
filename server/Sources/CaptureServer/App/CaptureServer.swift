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

  package init(_ services: Services) {
    self.services = services
    relay = Relay(
      configuration: services.configuration, data: services.data, database: services.database, intake: services.intake,
      logger: services.logger)
  }

  private func router() throws -> CaptureRouter {
    let metrics = PrometheusMetrics(help: MetricsRoutes.help)
    MetricsSystem.bootstrap(metrics)
    let router = CaptureRouter(context: CaptureContext.self)
    let page = try Page(services.configuration, services.database)
    router.add(middleware: MetricsMiddleware())
    router.add(middleware: ContinueMiddleware())
    router.add(middleware: PacingMiddleware())
    router.add(middleware: RequestIDMiddleware(configuration: services.configuration))
    router.add(middleware: PageFailures(page: page, isForBrowsersOnly: true))
    router.add(middleware: SiteMiddleware(configuration: services.configuration))
    // What people and scripts read.
    let guarded = router.group().add(
      middleware: KeyMiddleware(configuration: services.configuration, database: services.database, isRequired: true))
    CapturesRoutes(
      configuration: services.configuration, database: services.database, intake: services.intake, conversions: services.conversions
    ).add(to: guarded)
    ConversionRoutes(
      configuration: services.configuration, database: services.database, intake: services.intake, conversions: services.conversions
    ).add(to: guarded)
    DeviceRoutes(
      configuration: services.configuration, database: services.database, intake: services.intake, attestation: services.attestation
    ).add(to: router)
    HealthRoutes(configuration: services.configuration, database: services.database, intake: services.intake).add(to: router)
    MetricsRoutes(
      configuration: services.configuration, database: services.database, intake: services.intake, shipping: services.shipping,
      metrics: metrics
    ).add(to: guarded)
    let pages = PageRoutes(
      configuration: services.configuration, data: services.data, database: services.database, store: services.store,
      intake: services.intake, conversions: services.conversions, logger: services.logger, page: page)
    pages.add(to: guarded)
    ServerPage(
      configuration: services.configuration, database: services.database, intake: services.intake, shipping: services.shipping, page: page
    ).add(to: guarded.group().add(middleware: PageFailures(page: page)))
    pages.addIcon(to: router)
    pages.addShared(to: router)
    SessionRoutes(configuration: services.configuration, data: services.data, database: services.database, intake: services.intake).add(
      to: guarded)
    SlowMotionRoutes(
      configuration: services.configuration, data: services.data, database: services.database, store: services.store,
      intake: services.intake, logger: services.logger, relay: relay, page: page
    ).add(to: router)
    TusRoutes(configuration: services.configuration, data: services.data, database: services.database, intake: services.intake).add(
      to: guarded)
    VideoRoutes(configuration: services.configuration, data: services.data, database: services.database, intake: services.intake).add(
      to: router)
    WorkRoutes(
      data: services.data, database: services.database, store: services.store, intake: services.intake, conversions: services.conversions
    ).add(to: guarded)
    return router
  }

  /// Serves until SIGTERM or SIGINT; requests under way are then finished.
  package func run() async throws {
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
      .run(try router(), services: beside) { [services] in
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

  func add(to router: CaptureRouter) {
    router.get("health") { _, _ in try JSONAnswer.response(["status": "ok"]) }
    router.get("ready") { _, _ in
      guard intake.freeBytes >= configuration.reserve else {
        throw Failure(.serviceUnavailable, "STORAGE_ERROR", "The server is short of disk space, and takes nothing")
      }
      _ = try await database.pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM apiKey") }
      return try JSONAnswer.response(["status": "ready"])
    }
  }
}
