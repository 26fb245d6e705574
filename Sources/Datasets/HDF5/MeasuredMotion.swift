import Foundation
import Model
import Rasters

/// The images of a shard whose motion is measured against the poses while they are written: some seconds of them, in which the camera's turning
/// changes most.
struct MeasuredMotion: Sendable {
  let raster: Int
  let grid: MotionGrid
  /// By row, the row of the image before it.
  let earlier: [Int: Int]
  /// All rows of images that are measured.
  let rows: Set<Int>
  /// The time of each row's image, in seconds from the first row; `nil` without one.
  private let times: [Double?]
  private let poses: ImageLag.Poses
  let poseName: StreamName
  let poseStream: SampleStream
  let lens: ImageLag.Lens?

  /// Images closer than this are not compared: what shifts between them is less than what is uncertain of it.
  private static let leastStep = 0.029
  /// Length of the stretches that are chosen, and their number.
  private static let stretch = 1.0, stretches = 3

  /// `nil` without images or poses of a camera, and for images that are not decoded.
  ///
  /// - Throws: what the source of the poses throws.
  init?(_ layout: ShardLayout) throws {
    let (episode, rasters) = (layout.episode, layout.rasters)
    let candidates = rasters.indices.filter { rasters[$0].stream.spec.kind == .image }
    // Images of a step in Python have the times of rows.
    guard
      let raster = candidates.first(where: { image in episode.alignments.contains { $0.stream == rasters[image].name } })
        ?? candidates.first,
      rasters[raster].sampleBytes != nil, let grid = MotionGrid(rasters[raster].stream.spec.gridSize),
      let (name, stream) = episode.firstStream(where: { $0.spec.kind.poseFrame != nil }), let poseRows = stream.rows,
      let frame = stream.spec.kind.poseFrame, frame.body == nil, let toARKit = frame.cameraAxes.arkitFromThese,
      let start = episode.frames.timestamps.first
    else { return nil }
    // From the axes of a camera with z forward and y down to ARKit's, and on to those of the poses.
    let axes = Pose(position: .zero, quaternion: toARKit).inverse.composed(with: Pose(position: .zero, quaternion: [1, 0, 0, 0]))
    var reader = RowReader(episode)
    var poses = ImageLag.Poses()
    var rotations: [Int: SIMD4<Double>] = [:]
    var last: Pose?
    for row in 0..<reader.count {
      guard let pose = try reader.pose(name, at: row), let sample = poseRows[row] else { continue }
      // A pose that is said again is no new one.
      if pose == last { continue }
      last = pose
      let frame = episode.frames.timestamps[row], time = Double(frame.since(start) + stream.delay(of: sample, at: frame)) / 1e9
      guard poses.times.last.map({ time > $0 }) ?? true else { continue }
      let turned = pose.composed(with: axes)
      poses.times.append(time)
      poses.poses.append(turned)
      rotations[row] = turned.quaternion
    }
    let images = rasters[raster].stream
    times = rasters[raster].rows.map { $0.map { Double(images.timestamps[$0.nearest].since(start)) / 1e9 } }
    var chosen: [(row: Int, time: Double)] = []
    for (row, time) in times.enumerated() {
      if let time, chosen.last.map({ time - $0.time >= Self.leastStep }) ?? true { chosen.append((row, time)) }
    }
    let kept = Self.liveliest(chosen, rotations)
    var earlier: [Int: Int] = [:]
    for (last, next) in zip(chosen, chosen.dropFirst()) where kept.contains(next.row) { earlier[next.row] = last.row }
    guard !earlier.isEmpty else { return nil }
    (self.raster, self.grid, self.earlier, rows) = (raster, grid, earlier, Set(earlier.keys).union(earlier.values))
    (self.poses, poseName, poseStream) = (poses, name, stream)
    lens = episode.intrinsics(of: images, at: rasters[raster].rows.compactMap(\.self).first).flatMap {
      ImageLag.Lens($0, images.spec.gridSize, on: grid)
    }
  }

  /// The rows in the stretches in which the rotation from image to image changes most.
  private static func liveliest(_ chosen: [(row: Int, time: Double)], _ rotations: [Int: SIMD4<Double>]) -> Set<Int> {
    var changes: [Int: Double] = [:]
    var last: SIMD3<Double>?
    for (a, b) in zip(chosen, chosen.dropFirst()) {
      guard let from = rotations[a.row], let to = rotations[b.row] else {
        last = nil
        continue
      }
      let rate = FrameQuality.rotationVector(from: from, to: to) / (b.time - a.time)
      if let last { changes[Int(b.time / stretch), default: 0] += ((rate - last) * (rate - last)).sum() }
      last = rate
    }
    let most = Set(changes.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(stretches).map(\.key))
    return Set(chosen.filter { most.contains(Int($0.time / stretch)) }.map(\.row))
  }

  /// The part of a row: its image, at the ends of a block, and the shifts from the image before it, where that is in the same block.
  struct Part: Sendable {
    var image: MotionImage?
    var shifts: [Float]?
  }

  /// The pairs of the rows that were stored, in order.
  struct Pairs {
    fileprivate var all: [ImageLag.Pair] = []
    private var last: (row: Int, image: MotionImage)?
    /// Times since which the image of each measured row, and of the last one of all, is shown.
    private var since: [Int: Double] = [:]
    private var shown: Double?

    /// - Parameter isRepeat: Whether the image of the row is that of the row before, to the last bit: it is no later than that.
    mutating func add(_ part: Part?, of row: Int, _ motion: MeasuredMotion, isRepeat: Bool) {
      if !isRepeat || shown == nil { shown = motion.times[row] }
      guard let part, let end = shown else { return }
      since[row] = end
      if let before = motion.earlier[row], let start = since.removeValue(forKey: before) {
        let shifts = part.shifts ?? (last?.row == before ? part.image.flatMap { last?.image.shifts(to: $0, lens: motion.lens) } : nil)
        if let shifts { all.append(ImageLag.Pair(start: start, end: end, shifts: shifts)) }
      }
      if let image = part.image { last = (row, image) }
    }
  }

  /// By how much the images are late; `nil` where their motion does not tell.
  func lag(_ pairs: Pairs) -> ImageLag? { ImageLag(pairs.all, on: grid, poses: poses, lens: lens) }
}
