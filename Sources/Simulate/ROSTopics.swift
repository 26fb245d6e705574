import Codecs
import Model

/// A message of ROS 2 in plain CDR, the lowest byte of a number first.
private struct CDRMessage {
  private(set) var bytes: [UInt8] = [0, 1, 0, 0]

  private mutating func align(to size: Int) { while (bytes.count - 4) % size != 0 { bytes.append(0) } }

  mutating func add(_ number: some FixedWidthInteger) {
    align(to: number.bitWidth / 8)
    withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
  }
  mutating func add(_ number: Double) { add(number.bitPattern) }
  mutating func add(_ numbers: [Double]) { for number in numbers { add(number) } }
  mutating func add(_ text: String) {
    add(UInt32(text.utf8.count + 1))
    bytes += text.utf8
    bytes.append(0)
  }
  mutating func add(data: [UInt8]) {
    add(UInt32(data.count))
    bytes += data
  }

  /// A message with a header.
  init(at time: Int64, _ frame: String) { addHeader(at: time, frame) }
  init() {}

  mutating func addHeader(at time: Int64, _ frame: String) {
    add(Int32(time / 1_000_000_000))
    add(UInt32(time % 1_000_000_000))
    add(frame)
  }

  mutating func add(_ pose: Pose) {
    add([pose.position.x, pose.position.y, pose.position.z])
    add([pose.quaternion.x, pose.quaternion.y, pose.quaternion.z, pose.quaternion.w])
  }
}

/// The topics of a robot with ROS 2: a camera on a body.
struct ROSTopics {
  private static let camera = "camera_optical", body = "base_link", world = "odom"
  private let image, info, depth, odometry, mount, imu, gripper: UInt16

  /// Fields of types, by their names.
  private static let fields: [String: String] = [
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "std_msgs/Float32": "float32 data",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Quaternion": "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1",
    "geometry_msgs/Pose": "Point position\nQuaternion orientation",
    "geometry_msgs/PoseWithCovariance": "Pose pose\nfloat64[36] covariance",
    "geometry_msgs/Twist": "Vector3 linear\nVector3 angular",
    "geometry_msgs/TwistWithCovariance": "Twist twist\nfloat64[36] covariance",
    "geometry_msgs/Transform": "Vector3 translation\nQuaternion rotation",
    "geometry_msgs/TransformStamped": "std_msgs/Header header\nstring child_frame_id\nTransform transform",
    "sensor_msgs/RegionOfInterest": "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\nbool do_rectify",
    "sensor_msgs/CompressedImage": "std_msgs/Header header\nstring format\nuint8[] data",
    "sensor_msgs/Image":
      "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\nuint32 step\nuint8[] data",
    "sensor_msgs/CameraInfo":
      "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\nfloat64[] d\nfloat64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\nRegionOfInterest roi",
    "sensor_msgs/Imu":
      "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\nfloat64[9] orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\nfloat64[9] angular_velocity_covariance\ngeometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance",
    "nav_msgs/Odometry":
      "std_msgs/Header header\nstring child_frame_id\ngeometry_msgs/PoseWithCovariance pose\ngeometry_msgs/TwistWithCovariance twist",
    "tf2_msgs/TFMessage": "geometry_msgs/TransformStamped[] transforms",
  ]

  /// A definition with those of all types that it refers to, as files carry it.
  private static func definition(of type: String) -> String {
    var (text, known, next) = (fields[type] ?? "", [type], 0)
    while next < known.count {
      let package = known[next].split(separator: "/")[0]
      for line in (fields[known[next]] ?? "").split(separator: "\n") {
        let word = String(line.split(separator: " ")[0].prefix { $0 != "[" })
        guard let other = [word, "\(package)/\(word)"].first(where: { fields[$0] != nil }), !known.contains(other) else { continue }
        known.append(other)
        text += "\n" + String(repeating: "=", count: 80) + "\nMSG: \(other)\n" + (fields[other] ?? "")
      }
      next += 1
    }
    return text + "\n"
  }

  init(_ file: inout MCAPFile) throws {
    func add(_ topic: String, _ type: String) throws -> UInt16 {
      try file.addChannel(
        topic, schema: type.replacing("/", with: "/msg/"), Array(Self.definition(of: type).utf8), schemaEncoding: "ros2msg", encoding: "cdr"
      )
    }
    image = try add("/camera/color/image_raw/compressed", "sensor_msgs/CompressedImage")
    info = try add("/camera/color/camera_info", "sensor_msgs/CameraInfo")
    depth = try add("/camera/aligned_depth_to_color/image_raw", "sensor_msgs/Image")
    odometry = try add("/odom", "nav_msgs/Odometry")
    mount = try add("/tf_static", "tf2_msgs/TFMessage")
    imu = try add("/imu/data", "sensor_msgs/Imu")
    gripper = try add("/gripper/width", "std_msgs/Float32")
  }

  func addMount(_ pose: Pose, at time: Int64, to file: inout MCAPFile) throws {
    var message = CDRMessage()
    message.add(UInt32(1))
    message.addHeader(at: time, Self.body)
    message.add(Self.camera)
    message.add(pose)
    try file.addMessage(message.bytes, on: mount, sequence: 0, at: UInt64(time))
  }

  /// - Parameter pose: Of the body.
  func addPose(_ pose: Pose, at time: Int64, to file: inout MCAPFile) throws {
    var message = CDRMessage(at: time, Self.world)
    message.add(Self.body)
    message.add(pose)
    message.add([Double](repeating: 0, count: 36 + 6 + 36))
    try file.addMessage(message.bytes, on: odometry, sequence: 0, at: UInt64(time))
  }

  func addReading(_ reading: IMUSimulation.Reading, at time: Int64, to file: inout MCAPFile) throws {
    let force = (reading.acceleration - reading.gravity) * 9.80665
    var message = CDRMessage(at: time, "imu")
    message.add([0, 0, 0, 1] + [Double](repeating: 0, count: 9))
    message.add([reading.gyro.x, reading.gyro.y, reading.gyro.z] + [Double](repeating: 0, count: 9))
    message.add([force.x, force.y, force.z] + [Double](repeating: 0, count: 9))
    try file.addMessage(message.bytes, on: imu, sequence: 0, at: UInt64(time))
  }

  func addGripper(_ width: Float, at time: Int64, to file: inout MCAPFile) throws {
    var message = CDRMessage()
    message.add(width.bitPattern)
    try file.addMessage(message.bytes, on: gripper, sequence: 0, at: UInt64(time))
  }

  func addImages(
    _ jpeg: [UInt8], _ size: ImageSize, _ maps: [UInt16], _ depthSize: ImageSize, _ camera: Intrinsics, at time: Int64,
    to file: inout MCAPFile
  ) throws {
    var calibration = CDRMessage(at: time, Self.camera)
    calibration.add(UInt32(size.height))
    calibration.add(UInt32(size.width))
    calibration.add("plumb_bob")
    calibration.add(UInt32(5))
    calibration.add([0, 0, 0, 0, 0])
    // ROS counts from the middle of the first pixel.
    let (cx, cy) = (camera.cx - 0.5, camera.cy - 0.5)
    calibration.add([camera.fx, 0, cx, 0, camera.fy, cy, 0, 0, 1])
    calibration.add([1, 0, 0, 0, 1, 0, 0, 0, 1])
    calibration.add([camera.fx, 0, cx, 0, 0, camera.fy, cy, 0, 0, 0, 1, 0])
    for _ in 0..<6 { calibration.add(UInt32(0)) }
    calibration.add(UInt8(0))
    var image = CDRMessage(at: time, Self.camera)
    image.add("rgb8; jpeg compressed bgr8")
    image.add(data: jpeg)
    var depth = CDRMessage(at: time, Self.camera)
    depth.add(UInt32(depthSize.height))
    depth.add(UInt32(depthSize.width))
    depth.add("16UC1")
    depth.add(UInt8(0))
    depth.add(UInt32(2 * depthSize.width))
    depth.add(data: maps.withUnsafeBytes { Array($0) })
    for (channel, message) in [(info, calibration), (self.image, image), (self.depth, depth)] {
      try file.addMessage(message.bytes, on: channel, sequence: 0, at: UInt64(time))
    }
  }
}
