import Media
import Model

/// When each picture was taken, in sessions whose poses do not tell: SLAM invents times of picture number over 60, and a raw session
/// has none at all.
struct CaptureTimes {
  /// By position in the sorted listing of pictures.
  let times: [Timestamp]
  let clock: Clock
  let tick: Int64

  /// In order of trust: the movie's presentation times, when it has as many samples as there are pictures; the time that the IMU
  /// spans, divided evenly; 60 a second.
  init(images pictures: Int, movie: Movie?, imuSpan: Int64?, notes: Notes) {
    if let movie, movie.samples.count == pictures {
      times = movie.nanoseconds.map { Timestamp(nanoseconds: $0) }
      (clock, tick) = (.mediaTime, movie.tickNanoseconds)
      notes.add(.timesFromMovie, "frame times are the presentation times of video.mov", file: "video.mov")
      return
    }
    (clock, tick) = (.frameNumber, 1)
    if let movie {
      notes.add(.movieCountMismatch, "video.mov has \(movie.samples.count) pictures, the session \(pictures); which is which cannot be told",
          file: "video.mov")
    }
    if let imuSpan, imuSpan > 0, pictures > 1, (20...250).contains(Double(pictures - 1) * 1e9 / Double(imuSpan)) {
      let period = Double(imuSpan) / Double(pictures - 1)
      times = (0..<pictures).map { Timestamp(nanoseconds: Int64((Double($0) * period).rounded())) }
      notes.add(.timesFromIMU, "frame times are spread evenly over the time that the IMU spans; dropped frames cannot be seen",
          file: "imu.json")
    } else {
      times = (0..<pictures).map { Timestamp(nanoseconds: Int64((Double($0) * 1e9 / 60).rounded())) }
      notes.add(.timesAssumed, "nothing tells when pictures were taken; 60 a second are assumed, and dropped frames cannot be seen")
    }
  }
}
