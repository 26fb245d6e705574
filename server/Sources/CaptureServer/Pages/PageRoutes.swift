import Hummingbird
import Logging

/// Pages for people, and the files that they load. A reader with a key sees only the key's project.
struct PageRoutes {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let store: any CaptureStore
  let intake: Intake
  let conversions: ConversionQueue
  let logger: Logger
  let page: Page

  func add(to routes: Routes) {
    let pages = routes.inside(PageFailures(page: page))
    CaptureListPage(configuration: configuration, data: data, database: database, page: page).add(to: pages)
    CapturePages(configuration: configuration, data: data, database: database, intake: intake, conversions: conversions, page: page).add(
      to: pages)
    JobsPage(configuration: configuration, data: data, database: database, page: page).add(to: pages)
    CaptureFileRoutes(data: data, database: database, store: store).add(to: pages)
    DatasetPages(
      configuration: configuration, data: data, database: database, page: page,
      reports: DatasetReports(configuration: configuration, data: data, logger: logger)
    ).add(to: pages)
    DevicesPage(configuration: configuration, database: database, page: page).add(to: pages)
  }

  /// Adds the routes for everybody: captures whose link was given away.
  func addShared(to routes: Routes) {
    let pages = routes.inside(PageFailures(page: page, isForGuests: true))
    CapturePages(configuration: configuration, data: data, database: database, intake: intake, conversions: conversions, page: page)
      .addShared(to: pages)
    CaptureFileRoutes(data: data, database: database, store: store).addShared(to: pages)
  }

  /// Adds the icon, for everybody: a browser that was let in by a key in an address sends none for it. Browsers ask for it, and report a
  /// failure without one.
  func addIcon(to routes: Routes) {
    routes.open(to: .everybody).get("favicon.ico") { _, _ in
      Response(
        status: .ok, headers: [.contentType: "image/svg+xml", .cacheControl: "private, max-age=86400"],
        body: .init(byteBuffer: ByteBuffer(string: PageFiles.icon)))
    }
  }
}
