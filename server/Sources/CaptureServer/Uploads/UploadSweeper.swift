import Logging
import ServiceLifecycle

/// Removes expired uploads when the server starts, and every minute.
struct UploadSweeper: Service, CustomStringConvertible {
  let services: Services
  /// For the log, which would print all services.
  var description: String { "UploadSweeper" }

  func run() async throws {
    let uploads = Uploads(services)
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        do {
          try await uploads.sweep()
        } catch {
          if !Task.isCancelled { services.logger.error("expired uploads could not be removed: \(error)") }
        }
        try? await Task.sleep(for: .seconds(60))
      }
    }
  }
}
