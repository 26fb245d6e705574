import Logging
import ServiceLifecycle

/// Removes expired uploads when the server starts, and every minute.
struct UploadSweeper: Service, CustomStringConvertible {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  let logger: Logger
  /// The name for the log, which would print everything in it.
  var description: String { "UploadSweeper" }

  func run() async throws {
    let uploads = Uploads(configuration: configuration, data: data, database: database, intake: intake)
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        do {
          try await uploads.sweep()
        } catch {
          if !Task.isCancelled { logger.error("expired uploads could not be removed: \(error)") }
        }
        try? await Task.sleep(for: .seconds(60))
      }
    }
  }
}
