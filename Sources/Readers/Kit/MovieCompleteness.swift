import Media
import Model
import Steps

extension TakeInputs {
  /// Returns the part that a video still lacks while it is being written: its index comes last.
  func unfinishedMovie() throws -> String? {
    for (index, entry) in entries.enumerated() where entry.role == .movie {
      do {
        try MovieIndex.check(slice(index))
      } catch let error as MovieError where [.movieUnfinished, .movieTruncated, .fileEmpty].contains(error.code) {
        return "\(entry.path): \(error)"
      } catch is MovieError {
        // What is wrong with a whole video is for its conversion to say.
      }
    }
    return nil
  }
}
