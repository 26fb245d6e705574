import Foundation
import Model
import Simulate
package import Steps

/// Small examples of every kind of take that `takeset simulate` makes.
package final class SimulatedTakes {
  package struct Example: Sendable, CustomStringConvertible {
    package var reader: String
    package var name: String
    package var description: String { "\(reader) \(name)" }
    fileprivate var write: @Sendable (String) throws -> Void
  }

  /// All examples: every variant and quirk of sessions, every layout, depth format, signature and fault of bundles, scans, videos.
  package static let all: [Example] = sessions + bundles + scans + videos

  private static let small = ImageSize(width: 32, height: 24)

  private static var sessions: [Example] {
    func example(_ name: String, _ variant: SimulatedSession.Variant, _ quirks: [SessionQuirk]) -> Example {
      Example(reader: "stack-session", name: name) { path in
        var session = SimulatedSession()
        (session.variant, session.quirks, session.seconds) = (variant, quirks, 0.4)
        (session.size, session.depthSize) = (small, ImageSize(width: 8, height: 6))
        try session.write(to: path)
      }
    }
    return SimulatedSession.Variant.allCases.map { example($0.rawValue, $0, []) }
      + SessionQuirk.allCases.map { example($0.rawValue, $0.rawValue.hasPrefix("depth") ? .v1 : .v2, [$0]) }
  }

  private static var bundles: [Example] {
    func example(_ name: String, _ change: @escaping @Sendable (inout SimulatedBundle) -> Void) -> Example {
      Example(reader: "realitycam-bundle", name: name) { path in
        var bundle = SimulatedBundle()
        (bundle.movie.size, bundle.movie.seconds, bundle.depthSize) = (
          ImageSize(width: 64, height: 48), 0.4, ImageSize(width: 8, height: 6)
        )
        change(&bundle)
        try bundle.write(to: path)
      }
    }
    return SimulatedBundle.Layout.allCases.map { layout in example(layout.rawValue) { $0.layout = layout } }
      + SimulatedBundle.DepthContainer.allCases.map { container in example(container.rawValue) { $0.depthContainer = container } }
      + SimulatedBundle.Signature.allCases.map { signature in example(signature.rawValue) { $0.signature = signature } }
      + SimulatedBundle.Fault.allCases.map { fault in example(fault.rawValue) { $0.fault = fault } }
  }

  private static var scans: [Example] {
    func example(_ name: String, _ change: @escaping @Sendable (inout SimulatedStrayScan) -> Void) -> Example {
      Example(reader: "stray-scanner", name: name) { path in
        var scan = SimulatedStrayScan()
        (scan.seconds, scan.size, scan.depthSize) = (0.4, ImageSize(width: 64, height: 48), ImageSize(width: 8, height: 6))
        change(&scan)
        try scan.write(to: path)
      }
    }
    return [true, false].flatMap { hasMovie in
      [true, false].map { isOld in
        example((hasMovie ? "movie" : "depth alone") + (isOld ? ", old" : "")) { ($0.hasMovie, $0.isOld) = (hasMovie, isOld) }
      }
    } + SimulatedStrayScan.Quirk.allCases.map { quirk in example(quirk.rawValue) { $0.quirks = [quirk] } }
  }

  private static var videos: [Example] {
    ["mov", "mp4"].map { ending in
      Example(reader: "slow-motion-video", name: ending) { path in
        var movie = SimulatedMovie()
        (movie.size, movie.seconds) = (ImageSize(width: 64, height: 48), 0.2)
        try movie.write(named: "video_1771446000.\(ending)", into: path)
      }
    }
  }

  /// Writes an example into `directory` and returns the location that a search would pass to readers: a folder or a file.
  package static func write(_ example: Example, into directory: TemporaryDirectory) throws -> TakeLocation {
    let path = directory.path + "/session_1"
    try example.write(path)
    if example.reader == "slow-motion-video" { return TakeLocation(path: path + "/video_1771446000.\(example.name)", isDirectory: false) }
    if example.name == SimulatedBundle.Layout.multipart.rawValue {
      return TakeLocation(path: path + "/upload.multipart", isDirectory: false)
    }
    let siblings = try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
    if siblings == ["session_1"] { return TakeLocation(path: path, isDirectory: true) }
    let file =
      siblings.first { $0.hasPrefix("session_1.") && !$0.hasSuffix(".json") } ?? siblings.first { $0 != "session_1" } ?? "session_1"
    return TakeLocation(path: directory.path + "/" + file, isDirectory: false)
  }
}
