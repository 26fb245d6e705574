import Hummingbird

/// Pages for people, and what they load. With a key, a reader sees only the project of the key.
struct PageRoutes {
  let services: Services
  let page: Page

  /// - Parameter routes: Routes that recognize keys.
  func add(to routes: some RouterMethods<CaptureContext>) {
    let pages = routes.group().add(middleware: PageFailures(page: page))
    CaptureListPage(services: services, page: page).add(to: pages)
    CapturePages(services: services, page: page).add(to: pages)
    JobsPage(services: services, page: page).add(to: pages)
    CaptureFileRoutes(services: services).add(to: pages)
    DatasetPages(services: services, page: page, reports: DatasetReports(services)).add(to: pages)
    DevicesPage(services: services, page: page).add(to: pages)
  }

  /// For everybody: captures whose link was given away.
  func addShared(to routes: some RouterMethods<CaptureContext>) {
    let pages = routes.group().add(middleware: PageFailures(page: page, isForGuests: true))
    CapturePages(services: services, page: page).addShared(to: pages)
    CaptureFileRoutes(services: services).addShared(to: pages)
  }

  /// For everybody: a browser that was let in by a key in an address sends none for this.
  /// Browsers ask for it, and note it as a failure if there is none.
  func addIcon(to routes: some RouterMethods<CaptureContext>) {
    routes.get("favicon.ico") { _, _ in
      Response(
        status: .ok, headers: [.contentType: "image/svg+xml", .cacheControl: "private, max-age=86400"],
        body: .init(byteBuffer: ByteBuffer(string: PageFiles.icon)))
    }
  }
}
