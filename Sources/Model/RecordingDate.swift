/// What one part of a take says of when it was recorded.
package struct RecordingDate: Sendable, Equatable, Codable {
  /// The part, for messages: `the name`, `metadata.json`, `rgb.mp4`.
  package var source: String
  /// The day as it is written there, YYYY-MM-DD: the phone's own, or UTC's.
  package var day: String
  /// Unix time in seconds; `nil` where only the day is known.
  package var seconds: Int64?

  package init(_ source: String, day: String, seconds: Int64? = nil) { (self.source, self.day, self.seconds) = (source, day, seconds) }
}
