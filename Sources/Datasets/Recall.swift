import Model

/// The errors in a dataset that an earlier version of Takeset made, for `inspect` and `verify` to report. The dataset stays as it was
/// written; only converting its recordings again helps.
package struct Recall: Sendable, Equatable {
  /// Stray Scanner takes whose images have the pose of the frame before: Takeset 0.2.0 did not read the frame that the app hides.
  private(set) var shiftedImages: [String] = []
  /// Stray Scanner takes whose accelerations are as the app wrote them, in g since February 2025, under the unit m/s².
  private(set) var unscaledAccelerations: [String] = []

  package init() {}

  /// Adds a take if an earlier version made an error in it.
  package mutating func add(_ take: TakeRecord) {
    guard take.reader == "stray-scanner", take.outcome == .written else { return }
    let details = take.details ?? [:]
    // Where the video had a frame for each row, nothing was hidden.
    let hadOtherCount = take.findings.contains { [.samplesHidden, .movieCountMismatch].contains($0.code) }
    if details["movie_pairing"] != nil, details["movie_first_row"] == nil, hadOtherCount { shiftedImages.append(take.id.text) }
    if take.streams.contains(where: { $0.name == .imu }), details["acceleration_unit"] == nil {
      unscaledAccelerations.append(take.id.text)
    }
  }

  mutating func add(_ other: Recall) {
    shiftedImages += other.shiftedImages
    unscaledAccelerations += other.unscaledAccelerations
  }

  /// One sentence for each mistake, with the takes that have it.
  package var sentences: [String] {
    let remedy = "convert the recordings again: takeset run INPUT --output DIR --replace"
    return [
      (shiftedImages, "Takeset 0.2.0 or before paired each image with the pose of the frame before it"),
      (unscaledAccelerations, "Takeset 0.2.0 or before kept accelerations in the app's unit, which is g since February 2025, not m/s^2"),
    ].compactMap { takes, what in takes.isEmpty ? nil : "\(what), in \(takes.sorted().abridged); \(remedy)" }
  }
}
