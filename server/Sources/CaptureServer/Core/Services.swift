import Foundation
package import Logging

/// What the routes share.
package struct Services: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let database: Database
  let store: any CaptureStore
  let intake: Intake
  let conversions: ConversionQueue
  /// `nil` where no roots of App Attest are configured.
  let attestation: AttestationVerifier?
  let logger: Logger

  /// Opens the data folder and its database, and removes what a killed server left.
  package init(_ configuration: Configuration, logger: Logger) async throws {
    self.configuration = configuration
    self.logger = logger
    attestation = try AttestationVerifier(configuration)
    data = try DataFolder(configuration.data)
    database = try Database(path: data.database)
    if let place = configuration.store, place.hasPrefix("s3:") {
      store = try S3Store(S3Client(S3Client.Location(place)), cache: data.path + "/cache")
    } else {
      store = try LocalStore(configuration.store ?? data.captures)
    }
    conversions = ConversionQueue(configuration, data: data, database: database, store: store, logger: logger)
    intake = Intake(configuration: configuration, data: data, store: store, database: database, conversions: conversions)
    try await intake.sweep()
  }
}
