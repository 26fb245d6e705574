import Model

/// Coordinate frames by the transforms between them, as ROS and Foxglove record them: each child in its parent, at times or forever.
struct TransformTree {
  private struct Edge {
    var parent: String
    var trajectory: Trajectory
    var isStatic: Bool
  }
  private var edges: [String: Edge] = [:]

  /// - Parameters:
  ///   - changing: Transforms at their times.
  ///   - constant: Those of `/tf_static`, which hold at all times.
  init(_ changing: [MCAPTopic], constant: [MCAPTopic], file: String, _ notes: FindingCollector) {
    for (topics, isStatic) in [(constant, true), (changing, false)] {
      var found: [String: [(time: Timestamp, parent: String, child: String, pose: Pose)]] = [:]
      for transform in topics.flatMap(\.transforms) { found[transform.child, default: []].append(transform) }
      for (child, all) in found.sorted(by: { $0.key < $1.key }) where edges[child] == nil {
        guard let parent = all.first?.parent else { continue }
        let own = all.filter { $0.parent == parent }
        if own.count < all.count {
          notes.add(
            .posesDuplicate, "transforms put \(child.onOneLine) into other frames than \(parent.onOneLine), and are left out", file: file,
            count: all.count - own.count)
        }
        edges[child] = Edge(
          parent: parent, trajectory: Trajectory((isStatic ? Array(own.suffix(1)) : own).map { ($0.time, $0.pose) }, file: file, notes),
          isStatic: isStatic)
      }
    }
  }

  /// The frames from one to the root, without the first; empty where the frame is not in the tree.
  func parents(of frame: String) -> [String] {
    var chain: [String] = []
    var next = frame
    // A loop has no root.
    while let edge = edges[next], !chain.contains(edge.parent), edge.parent != frame {
      chain.append(edge.parent)
      next = edge.parent
    }
    return chain
  }

  /// Whether the way from a frame to its root changes with time.
  func moves(_ frame: String) -> Bool { ([frame] + parents(of: frame)).contains { edges[$0].map { !$0.isStatic } ?? false } }

  /// The pose of a frame in another one, both of which static transforms lead to a common one.
  func constantPose(of frame: String, in other: String) -> Pose? {
    let time = Timestamp(nanoseconds: 0)
    for common in [other] + parents(of: other) {
      guard let own = pose(of: frame, in: common, at: time, limit: 0), let its = pose(of: other, in: common, at: time, limit: 0) else {
        continue
      }
      return its.inverse.composed(with: own)
    }
    return nil
  }

  /// The times of the transform on the way from a frame to its root that has most of them.
  func times(of frame: String) -> [Timestamp] {
    ([frame] + parents(of: frame)).compactMap { edges[$0] }.filter { !$0.isStatic }.map(\.trajectory.times).max { $0.count < $1.count }
      ?? []
  }

  /// The transform on the way from a frame to its root with the longest usual step, in nanoseconds; `nil` where none changes twice.
  func slowest(of frame: String) -> (child: String, step: Int64)? {
    ([frame] + parents(of: frame)).compactMap { child -> (child: String, step: Int64)? in
      guard let edge = edges[child], !edge.isStatic else { return nil }
      let steps = zip(edge.trajectory.times, edge.trajectory.times.dropFirst()).map { $1.since($0) }.sorted()
      return steps.isEmpty ? nil : (child, steps[steps.count / 2])
    }.max { $0.step < $1.step }
  }

  /// The pose of a frame in one of its parents; `nil` where a transform between them is not known at that time.
  func pose(of frame: String, in parent: String, at time: Timestamp, limit: Int64) -> Pose? {
    var (pose, next) = (Pose.identity, frame)
    for _ in 0...edges.count {
      if next == parent { return pose }
      guard let edge = edges[next],
        let own = edge.isStatic ? edge.trajectory.poses.first : edge.trajectory.pose(at: time, limit: limit)
      else { return nil }
      (pose, next) = (own.composed(with: pose), edge.parent)
    }
    return nil
  }
}
