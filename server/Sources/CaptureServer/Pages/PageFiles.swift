import Mustache

/// The files of the pages, which are in the binary: templates, the style, scripts and the icon. Pages work without
/// JavaScript, but for the live view and the player, and templates escape whatever a client named.
enum PageFiles {
  static let style = String(decoding: PackageResources.page_css, as: UTF8.self)
  static let liveScript = String(decoding: PackageResources.live_js, as: UTF8.self)
  static let captureScript = String(decoding: PackageResources.capture_js, as: UTF8.self)
  static let icon = String(decoding: PackageResources.icon_svg, as: UTF8.self)

  /// Throws if a template is malformed.
  static func templates() throws -> MustacheLibrary {
    var library = MustacheLibrary()
    for (name, bytes) in [
      ("capture", PackageResources.capture_mustache), ("captures", PackageResources.captures_mustache),
      ("datasets", PackageResources.datasets_mustache), ("devices", PackageResources.devices_mustache),
      ("jobs", PackageResources.jobs_mustache), ("labels", PackageResources.labels_mustache),
      ("live", PackageResources.live_mustache), ("message", PackageResources.message_mustache), ("page", PackageResources.page_mustache),
      ("server", PackageResources.server_mustache),
    ] {
      try library.register(String(decoding: bytes, as: UTF8.self), named: name)
    }
    return library
  }
}
