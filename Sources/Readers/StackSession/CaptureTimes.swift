import Media
import Model

/// Capture time of each image, in sessions whose poses do not say: SLAM synthesizes times (image number over 60), and a raw session has
/// none at all.
struct CaptureTimes {
  /// Times by position in the sorted listing of images.
  let times: [Timestamp]
  let clock: Clock
  let tick: Int64

  /// Chooses the source by trust: the video's presentation times, when it has as many samples as there are images; else the span of the
  /// IMU, divided evenly; else 60 fps.
  init(images: Int, movie: Movie?, imuSpan: Int64?, notes: FindingCollector) {
    if let movie, movie.samples.count == images {
      times = movie.nanoseconds.map { Timestamp(nanoseconds: $0) }
      (clock, tick) = (.mediaTime, movie.tickNanoseconds)
      notes.add(.timesFromMovie, "frame times are the presentation times of video.mov", file: "video.mov")
      return
    }
    (clock, tick) = (.frameNumber, 1)
    if let movie {
      notes.add(
        .movieCountMismatch, "video.mov has \(movie.samples.count) frames, the session \(images) images; they cannot be matched",
        file: "video.mov")
    }
    if let imuSpan, imuSpan > 0, images > 1, (20...250).contains(Double(images - 1) * 1e9 / Double(imuSpan)) {
      let period = Double(imuSpan) / Double(images - 1)
      times = (0..<images).map { Timestamp(nanoseconds: Int64((Double($0) * period).rounded())) }
      notes.add(
        .timesFromIMU, "frame times are spread evenly over the span of the IMU; dropped frames cannot be detected",
        file: "imu.json")
    } else {
      times = (0..<images).map { Timestamp(nanoseconds: Int64((Double($0) * 1e9 / 60).rounded())) }
      notes.add(.timesAssumed, "there is no evidence of when images were taken; 60 fps are assumed, and dropped frames cannot be detected")
    }
  }
}
