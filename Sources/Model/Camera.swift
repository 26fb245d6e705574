/// A pinhole camera of an episode. The rasters of its image, depth and confidence streams refer to it.
package struct Camera: Equatable, Sendable {
  /// Size of the full-size image, to which the intrinsics refer.
  package var size: ImageSize
  /// The intrinsics; `nil` where the source does not give them.
  package var intrinsicsTrack: IntrinsicsTrack?
  /// The stream of its poses.
  package var pose: StreamName?

  package init(size: ImageSize, intrinsicsTrack: IntrinsicsTrack? = nil, pose: StreamName? = nil) {
    (self.size, self.intrinsicsTrack, self.pose) = (size, intrinsicsTrack, pose)
  }

  /// Intrinsics in pixels of a raster, for uses that need one set per episode.
  package func usualIntrinsics(_ raster: Raster) -> Intrinsics? { intrinsicsTrack?.usual.applying(raster.rasterFromFull) }
}

/// Intrinsics of the full-size image, which autofocus may vary over time.
package struct IntrinsicsTrack: Equatable, Sendable {
  /// Intrinsics that hold from a time on.
  package struct Moment: Equatable, Sendable {
    package var time: Timestamp
    package var intrinsics: Intrinsics
    package init(time: Timestamp, intrinsics: Intrinsics) { (self.time, self.intrinsics) = (time, intrinsics) }
  }

  package var usual: Intrinsics
  /// Measured intrinsics, ascending in time, on the frames' clock; empty where they are constant.
  package var moments: [Moment]

  package init(_ usual: Intrinsics, moments: [Moment] = []) { (self.usual, self.moments) = (usual, moments) }

  package var isMoving: Bool { !moments.isEmpty }

  /// Intrinsics of the nearest moment, the earlier of two equally near; `usual` where they are constant.
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

  /// The same camera on another grid. Where the map rotates, the camera's axes rotate with it, so that focal lengths stay positive.
  package func applying(_ map: Affine) -> Intrinsics {
    let center = map(cx, cy)
    return Intrinsics(
      fx: abs(map.xx) * fx + abs(map.xy) * fy, fy: abs(map.yx) * fx + abs(map.yy) * fy, cx: center.x, cy: center.y)
  }
}
