/// What messages are to an episode, by their schema.
enum TopicKind: String {
  case image, video, calibration, pose, transforms, imu, joints, numbers
  /// Images or depth maps without compression.
  case raw

  /// The places of the fields in a decoded message: the first three are those of every kind.
  enum Slot {
    static let seconds = 0, nanoseconds = 1, frame = 2
    // Images
    static let data = 3, format = 4
    static let width = 5, height = 6, step = 7, isBigEndian = 8
    // Calibrations; width and height are those of images.
    static let matrix = 3, distortion = 4, model = 7
    /// The part of the sensor: x, y, width, height, and by what pixels are divided across and down.
    static let part = 8
    /// Of rectified images.
    static let projection = 14
    // Poses: x, y, z and the quaternion x, y, z, w; the frame of the body.
    static let pose = 3, body = 10
    // Inertial sensors: accelerations and rotations.
    static let readings = 3
    static let names = 3, values = 4, unit = 5
    static let transforms = 3
  }

  /// The kind by the end of the schema's name, as in `foxglove.CompressedImage` and `sensor_msgs/msg/CompressedImage`.
  init?(schema: String) {
    let last = schema.split(whereSeparator: { $0 == "/" || $0 == "." }).last.map(String.init) ?? schema
    guard let kind = Self.schemas[last] else { return nil }
    self = kind
  }

  private static let schemas: [String: TopicKind] = [
    "CompressedImage": .image, "CompressedVideo": .video, "RawImage": .raw, "Image": .raw, "CameraCalibration": .calibration,
    "CameraInfo": .calibration, "PoseInFrame": .pose, "PoseStamped": .pose, "PoseWithCovarianceStamped": .pose, "Odometry": .pose,
    "FrameTransform": .transforms, "FrameTransforms": .transforms, "TFMessage": .transforms, "TransformStamped": .transforms, "Imu": .imu,
    "Inertial": .imu, "JointState": .joints, "Float32": .numbers, "Float64": .numbers, "Float32MultiArray": .numbers,
    "Float64MultiArray": .numbers, "Numbers": .numbers,
  ]

  /// The kind of messages of another name, by the fields that their definition has.
  static let byFields: [TopicKind] = [.raw, .image, .calibration, .transforms, .pose, .imu, .joints, .numbers]

  /// The fields without which messages are not of this kind.
  var needed: [Int] {
    switch self {
    case .image, .video: [Slot.data, Slot.format]
    case .raw: [Slot.data, Slot.format, Slot.width, Slot.height, Slot.step]
    case .calibration: [Slot.matrix, Slot.width, Slot.height]
    case .pose: Array(Slot.pose..<(Slot.pose + 7))
    case .imu: Array(Slot.readings..<(Slot.readings + 6))
    case .joints: [Slot.names, Slot.values]
    case .numbers: [Slot.values]
    case .transforms: []
    }
  }

  private static let stamp: [[String]] = [
    ["timestamp.seconds", "timestamp.sec", "header.stamp.sec", "header.stamp.secs", "stamp.sec", "timestamp"],
    [
      "timestamp.nanos", "timestamp.nsec", "timestamp.nanosec", "header.stamp.nanosec", "header.stamp.nsec", "header.stamp.nsecs",
      "stamp.nanosec",
    ],
    ["frame_id", "header.frame_id", "parent_frame_id"],
  ]

  private static func vector(_ prefixes: [String], _ axes: [String] = ["x", "y", "z"]) -> [[String]] {
    axes.map { axis in prefixes.map { "\($0).\(axis)" } }
  }

  private static let quaternion = ["x", "y", "z", "w"]

  private static func transform(_ prefix: String) -> [[String]] {
    vector([prefix + "translation", "translation"]) + vector([prefix + "rotation", "rotation"], quaternion) + [["child_frame_id"]]
  }

  var wanted: WantedFields {
    var fields: [[String]]
    switch self {
    case .image, .video: fields = [["data"], ["format"]]
    case .raw: fields = [["data"], ["encoding"], ["width"], ["height"], ["step"], ["is_bigendian"]]
    case .calibration:
      fields = [["K", "k"], ["D", "d"], ["width"], ["height"], ["distortion_model"]]
      fields += ["roi.x_offset", "roi.y_offset", "roi.width", "roi.height", "binning_x", "binning_y"].map { [$0] }
      fields.append(["P", "p"])
    case .pose:
      fields =
        Self.vector(["pose.position", "pose.pose.position"])
        + Self.vector(["pose.orientation", "pose.pose.orientation"], Self.quaternion) + [["child_frame_id"]]
    case .imu: fields = Self.vector(["linear_acceleration"]) + Self.vector(["angular_velocity"])
    case .joints: fields = [["name"], ["position"]]
    case .numbers: fields = [["names"], ["values", "data"], ["unit"]]
    case .transforms: fields = []
    }
    var wanted = WantedFields((Self.stamp + fields).map { WantedFields.Field(paths: $0) })
    if self == .transforms {
      // One transform by itself has its fields at the top.
      let one = WantedFields((Self.stamp + Self.transform("transform.")).map { WantedFields.Field(paths: $0) })
      wanted.fields = one.fields + [WantedFields.Field(paths: ["transforms"], records: one)]
    }
    return wanted
  }
}
