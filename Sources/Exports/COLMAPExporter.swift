import Datasets
import Evidence
import Foundation
import Model
import Steps

/// Scenes as COLMAP's text model: per episode `images/` and `sparse/0/` with `cameras.txt`, `images.txt` and `points3D.txt`.
///
/// `PINHOLE` cameras, one for each set of intrinsics; poses are world-to-camera with OpenCV's camera axes, in the world of the dataset.
/// COLMAP measures pixels from the outer corner of the top-left one, as Takeset does.
/// Source: COLMAP's page "Output Format"; `sparse/0` is where `colmap` itself and the programs that read its models have them.
struct COLMAPExporter: Exporter {
  static let name = "colmap"
  static let summary = "scenes as COLMAP text models: images, cameras, poses"

  var options = SceneOptions()

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let scenes = try PosedImages.all(of: episodes, options, for: Self.name, losingTo: directory)
    let clouds = try options.clouds(of: episodes, for: Self.name, losingTo: directory)
    directory.lose("The format has no times, depth maps or other streams.")
    var notes: [String: JSONValue] = [:]
    for (index, scene) in scenes.enumerated() {
      let frames = try scene.write(to: directory)
      let folder = "\(scene.id)/sparse/0/"
      let cameras = Cameras(frames.map(\.intrinsics))
      try directory.write(cameras.text(scene.size), to: folder + "cameras.txt")
      try directory.write(images(frames, of: scene, cameras), to: folder + "images.txt")
      try directory.writing(folder + "points3D.txt") { write in
        let heading = "# POINT3D_ID X Y Z R G B ERROR TRACK[] as (IMAGE_ID POINT2D_IDX)\n"
        try Array(heading.utf8).withUnsafeBytes(write)
        if let cloud = try clouds?[index].cloud(in: directory) { notes[scene.id] = cloud.note(try writePoints(cloud.grid, write)) }
      }
    }
    if !notes.isEmpty { directory.note("clouds", .object(notes)) }
  }

  /// Two lines for each image, of which the second, for points in the image, is empty.
  private func images(_ frames: [PosedImages.Frame], of scene: PosedImages, _ cameras: Cameras) -> String {
    var text = "# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME\n# POINTS2D[] as (X Y POINT3D_ID)\n"
    for (index, frame) in frames.enumerated() {
      let world = frame.pose.inverse.continuing(nil)
      let (q, t) = (world.quaternion, world.position)
      let name = scene.path(frame).dropFirst("images/".count)
      text += "\(index + 1) \(q.w) \(q.x) \(q.y) \(q.z) \(t.x) \(t.y) \(t.z) \(cameras.number[index]) \(name)\n\n"
    }
    return text
  }

  /// Points that no image observes; -1 is COLMAP's error of a point whose error is not known.
  private func writePoints(_ cloud: VoxelGrid, _ write: (UnsafeRawBufferPointer) throws -> Void) throws -> VoxelGrid.Bounds {
    var (number, text) = (0, "")
    let bounds = try cloud.forEach { point in
      number += 1
      text += "\(number) \(point.x) \(point.y) \(point.z) \(point.red) \(point.green) \(point.blue) -1\n"
      if number.isMultiple(of: 4096) {
        try Array(text.utf8).withUnsafeBytes(write)
        text = ""
      }
    }
    try Array(text.utf8).withUnsafeBytes(write)
    return bounds
  }
}

/// The different intrinsics of images, numbered from 1 in the order of their first use.
private struct Cameras {
  private(set) var all: [Intrinsics] = []
  /// The number of each image's camera.
  private(set) var number: [Int] = []

  init(_ images: [Intrinsics]) {
    var numbers: [[Double]: Int] = [:]
    for camera in images {
      let key = [camera.fx, camera.fy, camera.cx, camera.cy]
      if numbers[key] == nil {
        all.append(camera)
        numbers[key] = all.count
      }
      number.append(numbers[key] ?? 0)
    }
  }

  func text(_ size: ImageSize) -> String {
    let lines = all.enumerated().map { index, camera in
      "\(index + 1) PINHOLE \(size.width) \(size.height) \(camera.fx) \(camera.fy) \(camera.cx) \(camera.cy)\n"
    }
    return "# CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]\n" + lines.joined()
  }
}
