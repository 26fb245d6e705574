import Foundation
package import Model
package import Rasters

/// The images of an episode whose motion is measured against its poses, mostly while they are written: some seconds of them, in which the camera's
/// turning changes most.
package struct MeasuredMotion: Sendable {
  let imageName: StreamName
  let images: SampleStream
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
  /// Changes of the turning (rad²/s², summed over the stretches) below which no lag can be told, for the lens of a phone: the least of many takes
  /// that told one had two and a half times that.
  private static let leastChanges = 0.03

  /// Looks at the first images by name; those that `align` knows go first, because images of a step in Python have the times of rows.
  ///
  /// `nil` without images or poses of a camera, for images too small, and where the camera's turning changes too little.
  ///
  /// - Throws: what the source of the poses throws.
  package init?(_ episode: Episode) throws {
    let candidates = episode.streams.filter { $0.value.spec.kind == .image && $0.value.rows != nil }.sorted { $0.key < $1.key }
    guard
      let (imageName, images) = candidates.first(where: { image in episode.alignments.contains { $0.stream == image.key } })
        ?? candidates.first,
      let imageRows = images.rows, let grid = MotionGrid(images.spec.gridSize),
      let (name, stream) = episode.firstStream(where: { $0.spec.kind.poseFrame != nil && $0.spec.member == images.spec.member }),
      let poseRows = stream.rows,
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
      // Another program may have written poses that are none.
      guard let pose = try reader.pose(name, at: row), let sample = poseRows[row],
        (0.5...2).contains((pose.quaternion * pose.quaternion).sum()), (pose.position * pose.position).sum() < 1e12
      else { continue }
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
    times = imageRows.map { $0.map { Double(images.timestamps[$0.nearest].since(start)) / 1e9 } }
    var chosen: [(row: Int, time: Double)] = []
    for (row, time) in times.enumerated() {
      if let time, chosen.last.map({ time - $0.time >= Self.leastStep }) ?? true { chosen.append((row, time)) }
    }
    lens = episode.intrinsics(of: images, at: imageRows.compactMap(\.self).first).flatMap {
      ImageLag.Lens($0, images.spec.gridSize, on: grid)
    }
    // What shifts in an image grows with the focal length.
    let wide = (lens ?? .assumed).focal / ImageLag.Lens.assumed.focal
    let kept = Self.liveliest(chosen, rotations, least: Self.leastChanges / (wide * wide))
    var earlier: [Int: Int] = [:]
    for (last, next) in zip(chosen, chosen.dropFirst()) where kept.contains(next.row) { earlier[next.row] = last.row }
    guard !earlier.isEmpty else { return nil }
    (self.imageName, self.images, self.grid) = (imageName, images, grid)
    (self.earlier, rows) = (earlier, Set(earlier.keys).union(earlier.values))
    (self.poses, poseName, poseStream) = (poses, name, stream)
  }

  /// The rows in the stretches in which the rotation from image to image changes most; none where it changes by less than `least`.
  private static func liveliest(_ chosen: [(row: Int, time: Double)], _ rotations: [Int: SIMD4<Double>], least: Double) -> Set<Int> {
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
    let first = changes.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(stretches)
    guard first.reduce(0, { $0 + $1.value }) >= least else { return [] }
    let most = Set(first.map(\.key))
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

  /// The same from images that are read for it: of an episode that is written already.
  ///
  /// - Throws: what opening their source throws; images that cannot be read are skipped.
  package func readLag() throws -> ImageLag? {
    var cursor = try images.source.makeCursor(SampleRequest())
    var (pairs, last) = (Pairs(), [UInt8]())
    for (row, sample) in (images.rows ?? []).enumerated() where rows.contains(row) || rows.contains(row + 1) {
      var bytes: [UInt8] = []
      guard let sample, (try? cursor.read(sample.nearest, into: &bytes)) != nil else { continue }
      let part = rows.contains(row) ? grid.image(bytes).map { Part(image: $0) } : nil
      pairs.add(part, of: row, self, isRepeat: bytes == last)
      last = bytes
    }
    return lag(pairs)
  }
}

extension Measures {
  package mutating func set(_ lag: ImageLag) {
    self[.imagePoseLag] = (lag.lag * 1e5).rounded() / 100
    self[.imagePoseLagR] = (lag.correlation * 1e4).rounded() / 1e4
  }
}
