import Evidence
import Foundation
import Logging

/// The images of a capture on its pages: the files of `takeset preview` of its first take, beside its conversion.
struct CapturePreview {
  static let folder = "preview"
  private static let contents = "preview.json"
  private static let seconds = 120
  /// Larger than any that the converter writes.
  private static let byteLimit = 4 << 20

  struct Trajectory {
    var width, height: Double
    /// Corners of the path, such as `1.5,2 3,4`. Numbers only: a worker may have written them.
    var path: String
    var start, end: Place
    var title: String
    /// Lines of the scale bar, and the words: its length, the axes, and the marks' names.
    var bar: String?
    var words: [Word]

    struct Place { var x, y: Double }
    struct Word {
      var x, y: Double
      var anchor, text: String
    }

    /// `nil` for what is no drawing.
    fileprivate init?(_ drawing: JSONValue) {
      func size(_ name: String) -> Double? { drawing[name]?.double.flatMap { (1...10_000).contains($0) ? $0 : nil } }
      let places = (drawing["track"]?.array ?? []).compactMap { point -> Place? in
        let numbers = (point.array ?? []).compactMap(\.double)
        return numbers.count == 3 ? Place(x: numbers[1], y: numbers[2]) : nil
      }
      guard let width = size("width"), let height = size("height"), let first = places.first, let last = places.last else { return nil }
      (self.width, self.height, start, end) = (width, height, first, last)
      path = places.map { "\($0.x),\($0.y)" }.joined(separator: " ")
      title = Figure.short(drawing["title"]?.string ?? "Trajectory", 200)
      let line = drawing["scale_bar"]?.string ?? ""
      bar = line.utf8.count <= 100 && line.wholeMatch(of: /[MhvlHVL0-9 .\-]+/) != nil ? line : nil
      words = (drawing["labels"]?.array ?? []).prefix(8).compactMap { label in
        guard let parts = label.array, parts.count == 4, let x = parts[0].double, let y = parts[1].double, let text = parts[2].string,
          let anchor = parts[3].string, ["start", "middle", "end"].contains(anchor), (0...width).contains(x), (0...height).contains(y)
        else { return nil }
        return Word(x: x, y: y, anchor: anchor, text: Figure.short(text, 80))
      }
    }
  }

  /// `nil` without poses.
  var trajectory: Trajectory?

  /// Writes the preview of a dataset, and its first images as `thumbnail.jpg` and, where there is depth, `overlay.jpg`. A capture without
  /// them is complete too, so problems are only logged.
  static func make(of dataset: String, in folder: String, _ takeset: TakesetCommand, _ logger: Logger) async {
    do {
      let made = folder + "/" + Self.folder
      let end = try await takeset(["preview", dataset, "--output", made, "--first", "1", "--quiet"], in: folder, seconds: seconds)
      guard end.code == 0 else {
        // One that was killed leaves what it had.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) where name.hasPrefix(".\(Self.folder)") {
          DurableFile.removeFolder(folder + "/" + name)
        }
        return logger.warning("no preview: \(end.words)")
      }
      let episode = try read(made)?["episodes"]?.array?.first
      for (member, name) in [("poster", "thumbnail.jpg"), ("depth_poster", "overlay.jpg")] {
        if let file = episode?[member]?["file"]?.string { try DurableFile.link(made + "/" + file, to: folder + "/" + name) }
      }
    } catch {
      logger.warning("no preview: \(error)")
    }
  }

  /// The preview beside a conversion; `nil` where there is none, as of captures that an earlier version converted.
  init?(besides conversion: String) {
    guard let found = try? Self.read(conversion + "/" + Self.folder), let episode = found["episodes"]?.array?.first else { return nil }
    trajectory = episode["trajectory"].flatMap(Trajectory.init)
  }

  private static func read(_ folder: String) throws -> JSONValue? {
    let data = try Data(contentsOf: URL(fileURLWithPath: folder + "/" + contents))
    return data.count <= byteLimit ? try JSONDecoder().decode(JSONValue.self, from: data) : nil
  }

  /// Whether a preview may have a file of this name, and its type.
  static func type(of name: String) -> String? {
    if name == contents { return "application/json" }
    return name.wholeMatch(of: /[0-9]{6}-(image|images|depth|depths)\.jpg/) != nil ? "image/jpeg" : nil
  }
}
