import Foundation
package import Logging

/// The services that the routes share.
package struct Services: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let store: any CaptureStore
  let intake: Intake
  let conversions: ConversionQueue
  let shipping: DatabaseShipping?
  /// `nil` where no roots of App Attest are configured.
  let attestation: AttestationVerifier?
  let logger: Logger

  /// Opens the data folder and its database, and removes what a killed server left. Throws `Mistake`.
  package init(_ configuration: Configuration, logger: Logger) async throws {
    // Threads of the pool for blocking calls mostly wait for the disk. With as many as cores, a few fsyncs would hold up all writes.
    setenv("NIO_SINGLETON_BLOCKING_POOL_THREAD_COUNT", "16", 0)
    self.configuration = configuration
    self.logger = logger
    attestation = try AttestationVerifier(configuration)
    data = try DataFolder(configuration.data)
    database = try ServerDatabase(path: data.database, writesLogBack: configuration.standby == nil)
    if let place = configuration.store, S3Location.isAddress(place) {
      store = try await S3Store(S3Client(S3Location(place)), cache: data.path + "/cache")
    } else {
      store = try LocalStore(configuration.store ?? data.captures)
    }
    conversions = ConversionQueue(configuration, data: data, database: database, store: store, logger: logger)
    shipping =
      if let place = configuration.standby {
        try await DatabaseShipping(to: StandbyPlace(place), from: database, path: data.database, logger: logger)
      } else {
        nil
      }
    let leftovers = Leftovers(database: database, store: store, logger: logger)
    intake = Intake(
      configuration: configuration, data: data, store: store, database: database, leftovers: leftovers, conversions: conversions)
    try await leftovers.removeAll()
  }
}
