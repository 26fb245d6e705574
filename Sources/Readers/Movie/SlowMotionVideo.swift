import Foundation
import Media
package import Model
import Rasters
package import Steps

/// Standalone videos, such as the slow-motion app's recordings at 60, 120 or 240 frames per second, which play in real time.
///
///     reader: {name: slow-motion-video, rotation: keep}
package struct SlowMotionVideo: Reader {
  package static let name = "slow-motion-video"
  package static let summary = "Standalone videos (MOV, MP4; H.264, HEVC), at their true times"

  @StepOption("auto: images are stored upright, except where the display matrix is suspect; apply: always upright; keep: as coded")
  var rotation = VideoRotation.auto
  var video = VideoOptions()

  package static let needsAlign = false

  package init() {}

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  /// Recognizes a file by its extension, or else by its first box; it is never certain, so that readers of formats come first.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard let confidence = try MovieFile.confidence(place) else { return nil }
    return Candidate(confidence, stem: place.stem, hasGenericName: MovieFile.isGeneric(place.stem)) { [path = place.path] in
      TakeInputs(file: path, role: .movie)
    }
  }

  package func open(_ take: Take) throws -> Episode {
    let file = take.inputs.entries[0].path
    let name = URL(fileURLWithPath: file).deletingPathExtension().lastPathComponent
    let movie = try MovieTake(
      take.inputs.slice(0), file: file, at: InputOrigin(inputs: take.inputs, entry: 0),
      options: video, rotation: rotation
    ) { movie in
      // The app's WebRTC mode rotated the images and set the matrix as well.
      if name.hasPrefix("recording_") { return "the display matrix of the app's recording_ files rotates images that are already upright" }
      let isPortrait = movie.size.height > movie.size.width
      return isPortrait && Rotation90(rawValue: Int(movie.rotation))?.swapsSides == true
        ? "the images are already portrait, and the display matrix would rotate them by \(Int(movie.rotation)) degrees" : nil
    }
    var episode = movie.episode(id: take.id, snapsRate: true).rotating(.phone, by: movie.rotation)
    episode.findings += [episode.frames.droppedFrames()].compactMap(\.self)
    episode.variant = movie.nominalRate.map { "\(Int($0))fps" }
    episode.unixOrigin = MovieFile.startTime(inName: name).map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    episode.dates = Day.dates(
      name: take.id, episode.unixOrigin.map { RecordingDate("the number in its name", unixNanoseconds: $0.nanoseconds) }, movie.date)
    return episode
  }
}
