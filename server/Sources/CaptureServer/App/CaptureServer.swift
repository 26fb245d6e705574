import Foundation
import Hummingbird
import Logging
import Metrics

/// The server: routes by topic, and the services that run beside them.
package struct CaptureServer {
  package static let version = "0.3.0"
  private let services: Services
  private let relay: Relay

  package init(_ services: Services) {
    self.services = services
    relay = Relay(services)
  }

  private func router() throws -> CaptureRouter {
    let metrics = PrometheusMetrics(help: MetricsRoutes.help)
    MetricsSystem.bootstrap(metrics)
    let router = CaptureRouter(context: CaptureContext.self)
    let page = try Page()
    router.add(middleware: MetricsMiddleware())
    router.add(middleware: ContinueMiddleware())
    router.add(middleware: RequestIDMiddleware())
    router.add(middleware: PageFailures(page: page, isForBrowsersOnly: true))
    router.add(middleware: SiteMiddleware(configuration: services.configuration))
    // What people and scripts read.
    let guarded = router.group().add(middleware: KeyMiddleware(services: services, isRequired: true))
    CapturesRoutes(services: services).add(to: guarded)
    ConversionRoutes(services: services).add(to: guarded)
    DeviceRoutes(services: services).add(to: router)
    HealthRoutes().add(to: router)
    MetricsRoutes(services: services, metrics: metrics).add(to: guarded)
    PageRoutes(services: services, page: page).add(to: guarded)
    PageRoutes(services: services, page: page).addIcon(to: router)
    PageRoutes(services: services, page: page).addShared(to: router)
    SessionRoutes(services: services).add(to: guarded)
    SlowMotionRoutes(services: services, relay: relay, page: page).add(to: router)
    TusRoutes(services: services).add(to: guarded)
    VideoRoutes(services: services).add(to: router)
    WorkRoutes(services: services).add(to: guarded)
    return router
  }

  /// Serves until SIGTERM or SIGINT; requests under way are then finished.
  package func run() async throws {
    await StreamTake.recover(services)
    try await Listeners(configuration: services.configuration, relay: relay, logger: services.logger)
      .run(try router(), services: [services.conversions, UploadSweeper(services: services)]) { [services] in
        services.logger.notice("\(services.configuration.keyRule)")
        if services.configuration.appIDs.isEmpty {
          services.logger.notice("No signature of a capture is checked: \(ConversionReport.noApps)")
        }
      }
  }
}

/// `/health`: the server is up.
struct HealthRoutes {
  func add(to router: CaptureRouter) {
    router.get("health") { _, _ in try JSONAnswer.response(["status": "ok"]) }
  }
}
