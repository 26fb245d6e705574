package import Datasets
import Evidence
import Foundation
import Model
import Steps

/// Small files from which another program shows the episodes of a dataset: images and depth maps over time, and the trajectory.
///
/// `preview.json` names the files and says what is in them; docs/preview.md describes it. The files depend on nothing but the dataset.
package struct DatasetPreview {
  private let dataset: Dataset
  private let count: Int

  private static let file = "preview.json"
  /// Most bytes of the images and depth maps of an episode.
  private static let bytes = 3_000_000
  private static let posterBytes = 200_000

  /// Opens a dataset. Throws `UsageError` if the directory is not one.
  ///
  /// `count`: Images of an episode, and as many depth maps. `checks`: How a shard is checked that another program has written to.
  package init(_ directory: String, count: Int, checks: Verification.ExternalChecks = .none) throws {
    dataset = try Dataset(directory: directory, checks: checks)
    self.count = count
  }

  /// The episodes that a preview was made of.
  package struct Summary {
    package var episodes: Int
    /// Episodes that cannot be read, with the reason.
    package var problems: [(id: String, reason: String)]
  }

  /// Writes the previews of the first `most` episodes into a directory that does not exist. Throws `OutputExists`, `OutputFailure`.
  package func write(to output: String, most: Int = .max) throws -> Summary {
    let staged = try StagedDirectory(output, apartFrom: [dataset.directory])
    var summary = Summary(episodes: 0, problems: [])
    var episodes: [JSONValue] = []
    do {
      for (number, take) in dataset.written.prefix(most).enumerated() {
        let preview: EpisodePreview
        var record: TakeRecord?
        do {
          let found = try dataset.record(of: take)
          record = found
          preview = try EpisodePreview(
            dataset.episode(found), count: count, bytes: Self.bytes, posterBytes: Self.posterBytes)
        } catch {
          summary.problems.append((take.id.text, record.map { Dataset.problem(error, $0) } ?? "\(error)"))
          continue
        }
        episodes.append(try preview.write(in: staged.path, named: number.padded(to: 6), id: take.id.text))
        summary.episodes += 1
      }
      let contents: JSONValue = ["preview_version": 1, "episodes": .array(episodes)]
      try Data(contents.canonicalBytes).write(to: URL(fileURLWithPath: staged.path + "/" + Self.file))
      try staged.commit()
    } catch {
      staged.discard()
      throw error is OutputExists ? error : OutputFailure("cannot write \(output): \(error)")
    }
    return summary
  }
}

/// The images and drawings of one episode.
struct EpisodePreview {
  private let rows: Int
  private let seconds: Double
  /// Source index of the first row.
  private let firstSource: Int64
  /// One image or one depth map each.
  private let posters: [ContactStrip]
  private let strips: [ContactStrip]
  private let trajectory: TrajectoryDrawing?
  /// Points of the trajectory at some moments: seconds since the first row, and pixels of the drawing.
  private let track: [(seconds: Double, place: SIMD2<Double>)]

  init(_ episode: Episode, count: Int, bytes: Int, posterBytes: Int) throws {
    let contents = try EpisodeContents(episode, draws: true)
    (rows, seconds, trajectory) = (contents.rows, contents.seconds, contents.trajectory)
    firstSource = episode.frames.sourceIndex.first ?? 0
    posters = try ContactStrip.strips(of: episode, count: 1, bytes: posterBytes)
    strips = try ContactStrip.strips(of: episode, count: count, depthOfEvery: 1, bytes: bytes)
    let pose = episode.streams.filter { $0.value.rows != nil && $0.value.spec.kind.poseFrame != nil }.keys.min()
    guard let pose, let trajectory else {
      track = []
      return
    }
    var reader = RowReader(episode)
    let times = episode.frames.timestamps
    track = try ContactStrip.rows(min(count, rows), of: rows).compactMap { row in
      guard let position = try reader.pose(pose, at: row)?.position, (position * position).sum().isFinite else { return nil }
      return (Double(times[row].since(times[0])) / 1e9, trajectory.place(position))
    }
  }

  /// Writes the images beside each other; the names begin with `name`. Returns what `preview.json` says of them.
  func write(in directory: String, named name: String, id: String) throws -> JSONValue {
    var members: [String: JSONValue] = [
      "id": .string(id), "rows": JSONValue(rows), "seconds": .number(seconds), "first_source_index": .integer(firstSource),
    ]
    func write(_ strip: ContactStrip, _ file: String) throws -> JSONValue {
      try Data(strip.jpeg).write(to: URL(fileURLWithPath: directory + "/" + file))
      return [
        "file": .string(file), "stream": .string(strip.key.rawValue), "width": JSONValue(strip.cell.width),
        "height": JSONValue(strip.cell.height), "columns": JSONValue(strip.columns), "seconds": .array(strip.seconds.map { .number($0) }),
      ]
    }
    for strip in posters {
      let key = strip.isDepth ? "depth_poster" : "poster"
      members[key] = try write(strip, "\(name)-\(strip.isDepth ? "depth" : "image").jpg")
    }
    for strip in strips {
      let key = strip.isDepth ? "depth" : "images"
      members[key] = try write(strip, "\(name)-\(strip.isDepth ? "depths" : "images").jpg")
    }
    if let trajectory {
      func tenths(_ number: Double) -> JSONValue { .number((number * 10).rounded() / 10) }
      let drawing = trajectory.drawing
      members["trajectory"] = [
        "svg": .string(drawing.markup.text), "width": .number(drawing.width), "height": .number(drawing.height),
        "title": .string(drawing.title), "labels": drawing.json["labels"] ?? [],
        "scale_bar": JSONValue(drawing.lines.first { $0.style == .axis }?.path.text),
        "track": .array(track.map { .array([.number($0.seconds), tenths($0.place.x), tenths($0.place.y)]) }),
      ]
    }
    return .object(members)
  }
}
