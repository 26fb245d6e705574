import Foundation
package import Logging
import Model

/// The log on standard error, a line for each event: clients, workers and converters choose some of its words.
package struct ServerLog: LogHandler {
  private var stream = StreamLogHandler.standardError(label: name)

  private static let name = "takeset-server"

  package static var logger: Logger { Logger(label: name) { _ in ServerLog() } }

  package var metadata: Logger.Metadata {
    get { stream.metadata }
    set { stream.metadata = newValue }
  }

  package var logLevel: Logger.Level {
    get { stream.logLevel }
    set { stream.logLevel = newValue }
  }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { stream[metadataKey: key] }
    set { stream[metadataKey: key] = newValue }
  }

  package func log(event: LogEvent) {
    var event = event
    // What programs print ends with a line end, which says nothing.
    let message = event.message.description.trimmingCharacters(in: .whitespacesAndNewlines)
    event.message = "\(message.onOneLine)"
    stream.log(event: event)
  }
}
