import Evidence
import Model

// What a recording has beside its images: numbers, bodies and the poses of the camera.
extension MCAPEpisode {
  // MARK: Numbers

  /// Whether most messages of a topic can be read. Of a topic that nobody has named, none is taken where they cannot.
  func isReadable(_ topic: MCAPTopic, _ what: String) throws -> Bool {
    if !options.topics.isEmpty { try require(topic, what) }
    return !topic.times.isEmpty && topic.unreadable.count * 5 <= topic.messages
  }

  /// Adds joints or numbers. Joints of several programs on one topic are as many streams: `joints`, `joints_2`, those with most numbers first.
  func addNumbers(_ name: StreamName, _ topic: MCAPTopic, to episode: inout Episode) throws {
    guard try isReadable(topic, topic.kind == .joints ? "positions of joints" : "numbers") else { return }
    let unit = topic.unit.isEmpty ? topic.kind == .joints ? "rad or m" : "as recorded" : topic.unit
    for (number, group) in topic.groups.enumerated() {
      let own = number == 0 ? name : StreamName("\(name)_\(number + 1)")
      guard episode.streams[own] == nil, !streams.numbers.contains(where: { number > 0 && $0.name == own }) else {
        throw TakeFailure(
          .topicsAmbiguous, "\(topic.name.onOneLine) has joints of \(topic.groups.count) programs, and \(own) is another topic's name",
          file: file)
      }
      episode.streams[own] = group.columns.stream(
        unit: String(unit.onOneLine.prefix(40)), clock: clock, columns: group.names.isEmpty ? nil : group.names, in: place(of: topic),
        file: topic.name.onOneLine, notes)
    }
  }

  /// Adds the poses of a body, such as a hand, as they are.
  func addBody(_ name: StreamName, _ topic: MCAPTopic, to episode: inout Episode) throws {
    try require(topic, "poses")
    let order = SensorTimes(topic.times, of: "poses of \(topic.name.onOneLine)", file: file, notes: notes).order
    let frame = PoseFrame(cameraAxes: .arbitrary, worldAxes: worldAxes(topic.frame), unit: .meters)
    episode.streams[name] = SampleStream(
      spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: frame.unit.rawValue, clock: clock),
      source: VectorSource(order.map { topic.poses[$0] }), timestamps: order.map { topic.times[$0] },
      sourceIndex: order.map { Int64(topic.numbers[$0]) })
  }

  // MARK: Poses

  private func worldAxes(_ frame: String) -> PoseFrame.WorldAxes {
    if recording.isOwn, let own = recording.metadata["takeset"]?["world_axes"] { return PoseFrame.WorldAxes(own) }
    let words = "those of the frame \(frame.isEmpty ? "of the poses" : String(frame.onOneLine.prefix(80)))"
    return PoseFrame.WorldAxes(options.worldUp.map { "\($0.rawValue) up, \(words)" } ?? words)
  }

  func addPoses(to episode: inout Episode, images: MCAPTopic) throws {
    let (constant, changing) = recording.transforms
    let gap = Int64((options.maxPoseGap * 1e9).rounded())
    func frame(_ world: String) -> PoseFrame {
      let unit = recording.isOwn ? recording.metadata["takeset"]?["unit"].flatMap(LengthUnit.init(rawValue:)) : nil
      return PoseFrame(cameraAxes: options.axes.cameraAxes, worldAxes: worldAxes(world), unit: unit ?? .meters)
    }
    if let topic = streams.pose, topic.kind == .pose {
      try require(topic, "poses", as: .posesMissing)
      let trajectory = Trajectory(Array(zip(topic.times, topic.poses)), file: file, notes)
      var (camera, own): (Pose?, PoseFrame) = (nil, frame(topic.frame))
      if topic.body.isEmpty, options.topics.isEmpty, !recording.isOwn, !topic.isBeside(images) {
        notes.add(
          .axesUnknown,
          "nothing says whose poses \(topic.name.onOneLine) has: they are taken as those of the camera. The option topics says so with pose: \(topic.name.onOneLine), or names them otherwise, as in hand: \(topic.name.onOneLine)",
          severity: .warning, file: file)
      }
      if !topic.body.isEmpty, !images.frame.isEmpty, topic.body != images.frame {
        let tree = TransformTree([], constant: constant, file: file, notes)
        camera = tree.constantPose(of: images.frame, in: topic.body)
        if camera == nil {
          if options.axes == .opencv { own.cameraAxes = .arbitrary }
          notes.add(
            .axesUnknown,
            "\(topic.name.onOneLine) has the poses of \(topic.body.onOneLine), images are of \(images.frame.onOneLine), and no transform between them is recorded: the poses are those of \(topic.body.onOneLine)\(options.axes == .opencv ? ", with axes that nobody knows; axes: ros says that they are a robot's" : "")",
            severity: .warning, file: file)
        }
      }
      let posed = PosedRows(frame: own, clock: clock, file: file, times: trajectory.times, gap: gap)
      return try posed.add(to: &episode, notes) { time in
        trajectory.pose(at: time, limit: gap).map { pose in camera.map { pose.composed(with: $0) } ?? pose }
      }
    }
    guard !images.frame.isEmpty, !changing.isEmpty || streams.pose != nil else {
      if let topic = streams.pose {
        throw TakeFailure(
          .posesMissing,
          "\(topic.name.onOneLine) has transforms, and the images on \(images.name.onOneLine) name no frame, so nothing says which is theirs",
          file: file)
      }
      return
    }
    let tree = TransformTree(changing, constant: constant, file: file, notes)
    guard tree.moves(images.frame), let root = tree.parents(of: images.frame).last else {
      if streams.pose != nil {
        throw TakeFailure(
          .posesMissing, "no transform leads from \(images.frame.onOneLine), the frame of the images, to one that moves", file: file)
      }
      return
    }
    var posed = PosedRows(frame: frame(root), clock: clock, file: file, times: tree.times(of: images.frame), gap: gap)
    if let slow = tree.slowest(of: images.frame), slow.step > gap {
      posed.hint = "; the transform of \(slow.child.onOneLine) is there every \(Double(slow.step) / 1e9) s only"
    }
    try posed.add(to: &episode, notes) { tree.pose(of: images.frame, in: root, at: $0, limit: gap) }
    episode.details["transforms"] = .array(([images.frame] + tree.parents(of: images.frame)).map { .string($0) })
  }
}
