/// A pinhole camera of an episode. Streams of its images, depth and confidence name it in their rasters.
package struct Camera: Equatable, Sendable {
  /// The full-size image, for which the intrinsics are.
  package var size: ImageSize
  /// Absent where the source does not tell.
  package var lens: Lens?
  /// The stream of poses that says where it is.
  package var pose: StreamName?

  package init(size: ImageSize, lens: Lens? = nil, pose: StreamName? = nil) {
    (self.size, self.lens, self.pose) = (size, lens, pose)
  }

  /// Intrinsics in pixels of one of its rasters, of a sample taken at a time; `nil` where they move and there is no sample.
  package func intrinsics(_ raster: Raster, at time: Timestamp?) -> Intrinsics? {
    lens?.intrinsics(at: time)?.applying(raster.rasterFromFull)
  }

  /// The ones to take where only one can be.
  package func usualIntrinsics(_ raster: Raster) -> Intrinsics? { lens?.usual.applying(raster.rasterFromFull) }
}

/// Intrinsics of a full-size image, which autofocus may move.
package struct Lens: Equatable, Sendable {
  package struct Moment: Equatable, Sendable {
    package var time: Timestamp
    package var intrinsics: Intrinsics
    package init(time: Timestamp, intrinsics: Intrinsics) { (self.time, self.intrinsics) = (time, intrinsics) }
  }

  package var usual: Intrinsics
  /// Ascending in time, on the frames' clock; empty for a lens that does not move.
  package var moments: [Moment]

  package init(_ usual: Intrinsics, moments: [Moment] = []) { (self.usual, self.moments) = (usual, moments) }

  package var isMoving: Bool { !moments.isEmpty }

  /// Those of the nearest moment, the earlier of two; the usual ones where the lens does not move.
  package func intrinsics(at time: Timestamp?) -> Intrinsics? {
    guard isMoving else { return usual }
    guard let time else { return nil }
    var (low, high) = (0, moments.count)
    while low < high {
      let middle = (low + high) / 2
      if moments[middle].time < time { low = middle + 1 } else { high = middle }
    }
    guard low < moments.count else { return moments[moments.count - 1].intrinsics }
    guard low > 0 else { return moments[0].intrinsics }
    let isEarlier = time.since(moments[low - 1].time) <= moments[low].time.since(time)
    return moments[isEarlier ? low - 1 : low].intrinsics
  }
}

/// Focal lengths and principal point in pixels; the origin is the outer corner of the top-left pixel.
package struct Intrinsics: Equatable, Sendable {
  package var fx, fy, cx, cy: Double

  package init(fx: Double, fy: Double, cx: Double, cy: Double) {
    (self.fx, self.fy, self.cx, self.cy) = (fx, fy, cx, cy)
  }

  /// The same camera on another grid. Where the map rotates, the camera's axes rotate along, so that focal lengths stay positive.
  package func applying(_ map: Affine) -> Intrinsics {
    let centre = map(cx, cy)
    return Intrinsics(
      fx: abs(map.xx) * fx + abs(map.xy) * fy, fy: abs(map.yx) * fx + abs(map.yy) * fy, cx: centre.x, cy: centre.y)
  }
}
