import Foundation
import Model
import Simulate
package import Steps

/// Small examples of every kind of take that `takeset simulate` makes.
package final class SimulatedTakes {
  /// A take of one kind, named by its reader and what is special about it.
  package struct Example: Sendable, CustomStringConvertible {
    package var reader: String
    package var name: String
    package var description: String { "\(reader) \(name)" }
    fileprivate var write: @Sendable (String) throws -> Void
  }

  /// All examples: every variant and quirk of sessions, every layout, depth format, signature and fault of bundles, scans, videos, every form of
  /// the other apps.
  package static let all: [Example] = sessions + bundles + scans + videos + recordings

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

  private static var recordings: [Example] {
    func example(_ name: String, _ form: SimulatedRecord3D.Form, _ quirks: [SimulatedRecord3D.Quirk] = []) -> Example {
      Example(reader: "record3d", name: name) { path in
        var take = SimulatedRecord3D()
        (take.form, take.quirks, take.seconds) = (form, quirks, 0.4)
        (take.size, take.depthSize) = (ImageSize(width: 48, height: 64), ImageSize(width: 6, height: 8))
        if quirks.contains(.noTimes) { take.depthSize = ImageSize(width: 192, height: 256) }
        try take.write(to: path)
      }
    }
    return SimulatedRecord3D.Form.allCases.map { example($0.rawValue, $0) }
      + SimulatedRecord3D.Quirk.allCases.map { example($0.rawValue, .folder, [$0]) } + scans3D + keyframes + scenes
      + examples(SimulatedIPhUMI.self, seconds: 0.4)
      + examples(SimulatedAnySense.self, seconds: 0.5, size: ImageSize(width: 48, height: 64))
      + examples(SimulatedARKitScenes.self, seconds: 1) + examples(SimulatedSpectacularRec.self, seconds: 0.4)
      + examples(SimulatedOpenCamera.self, seconds: 0.4) + folders + logs
  }

  private static var folders: [Example] {
    SimulatedFolder.Layout.allCases.map { layout in
      Example(reader: "folder", name: layout.rawValue) { path in
        var folder = SimulatedFolder()
        (folder.layout, folder.seconds) = (layout, 0.5)
        (folder.size, folder.depthSize) = (ImageSize(width: 64, height: 48), ImageSize(width: 8, height: 6))
        try folder.write(to: path)
      }
    }
  }

  private static var logs: [Example] {
    SimulatedMCAP.Form.allCases.map { form in
      Example(reader: "mcap", name: form.rawValue) { path in
        var log = SimulatedMCAP()
        (log.form, log.seconds) = (form, 0.5)
        (log.size, log.depthSize) = (ImageSize(width: 64, height: 48), ImageSize(width: 8, height: 6))
        try log.write(to: path)
      }
    }
  }

  private static var scans3D: [Example] {
    let variants = [[]] + SimulatedScannerApp.Quirk.allCases.map { [$0] }
    return variants.map { quirks in
      Example(reader: "3d-scanner-app", name: quirks.first?.rawValue ?? "scan") { path in
        var scan = SimulatedScannerApp()
        (scan.seconds, scan.size, scan.depthSize, scan.quirks) = (
          1, ImageSize(width: 64, height: 48), ImageSize(width: 8, height: 6), quirks
        )
        scan.imageEvery = 3
        try scan.write(to: path)
      }
    }
  }

  /// A whole take of an app, and one for each quirk.
  private static func examples<App: SimulatedApp>(_: App.Type, seconds: Double, size: ImageSize = ImageSize(width: 64, height: 48))
    -> [Example]
  {
    ([nil] + Array(App.Quirk.allCases).map { $0 }).map { quirk in
      Example(reader: App.command, name: quirk?.rawValue ?? "whole") { path in
        var take = App()
        (take.seconds, take.size, take.quirks) = (seconds, size, quirk.map { [$0] } ?? [])
        try take.write(to: path)
      }
    }
  }

  private static var scenes: [Example] {
    func example(_ name: String, _ form: SimulatedTransforms.Form, _ quirks: [SimulatedTransforms.Quirk]) -> Example {
      Example(reader: "transforms-json", name: name) { path in
        var capture = SimulatedTransforms()
        (capture.seconds, capture.form, capture.quirks) = (0.4, form, quirks)
        (capture.size, capture.depthSize) = (ImageSize(width: 64, height: 48), ImageSize(width: 8, height: 6))
        try capture.write(to: path)
      }
    }
    return SimulatedTransforms.Form.allCases.map { example($0.rawValue, $0, []) }
      + SimulatedTransforms.Quirk.allCases.map { example($0.rawValue, .nerfstudio, [$0, .times]) }
  }

  private static var keyframes: [Example] {
    let variants = [[]] + SimulatedPolycam.Quirk.allCases.map { [$0] }
    return variants.map { quirks in
      Example(reader: "polycam", name: quirks.first?.rawValue ?? "corrected") { path in
        var capture = SimulatedPolycam()
        (capture.seconds, capture.quirks) = (2, quirks)
        (capture.size, capture.depthSize) = (ImageSize(width: 64, height: 48), ImageSize(width: 8, height: 6))
        try capture.write(to: path)
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
    if example.reader == SimulatedOpenCamera.command {
      let movie = try FileManager.default.contentsOfDirectory(atPath: path).first { $0.hasSuffix(".mp4") }
      return TakeLocation(path: path + "/" + (movie ?? ""), isDirectory: false)
    }
    if example.reader == "mcap", example.name != SimulatedMCAP.Form.bag.rawValue {
      return TakeLocation(path: path + "/recording.mcap", isDirectory: false)
    }
    if example.reader == "iphumi" { return TakeLocation(path: path + "/session_1.json", isDirectory: false) }
    if example.name == SimulatedRecord3D.Form.r3d.rawValue { return TakeLocation(path: path + "/session_1.r3d", isDirectory: false) }
    let siblings = try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
    if siblings == ["session_1"] { return TakeLocation(path: path, isDirectory: true) }
    let file =
      siblings.first { $0.hasPrefix("session_1.") && !$0.hasSuffix(".json") } ?? siblings.first { $0 != "session_1" } ?? "session_1"
    return TakeLocation(path: directory.path + "/" + file, isDirectory: false)
  }
}
