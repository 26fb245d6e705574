package import Evidence
import Model
package import Steps

/// A column of a table: its heading, or its number from 1.
package enum TableColumn: OptionValue, Hashable {
  case heading(String)
  case number(Int)

  package init?(json: JSONValue) {
    switch json {
    case .string(let text) where !text.isEmpty: self = .heading(text)
    case .integer(let number) where (1...CSVFile.mostFields).contains(Int(clamping: number)): self = .number(Int(number))
    default: return nil
    }
  }
  package var json: JSONValue {
    switch self {
    case .heading(let text): .string(text)
    case .number(let number): JSONValue(number)
    }
  }
  package static var schema: [String: JSONValue] { ["anyOf": [["type": "string", "minLength": 1], ["type": "integer", "minimum": 1]]] }
  package static var words: String { "the heading of a column, or its number from 1" }
  package static var pluralWords: String { "headings of columns, or their numbers from 1" }
}

/// A description of folders: a file that has it, or its members, which are read once.
enum DescriptionOption: OptionValue {
  case file(String)
  case members(JSONValue, Result<FolderDescription, any Error>)

  init?(json: JSONValue) {
    switch json {
    case .string(let file) where !file.isEmpty: self = .file(file)
    case .object: self = .members(json, Result { try FolderDescription(json) })
    default: return nil
    }
  }
  var json: JSONValue {
    switch self {
    case .file(let file): .string(file)
    case .members(let json, _): json
    }
  }
  static var schema: [String: JSONValue] { ["anyOf": [["type": "string", "minLength": 1], ["type": "object"]]] }
  static var words: String { "a file, or an object with the members of a description" }
}

/// A unit of times, or times as text.
package enum TimeUnit: String, OptionChoice {
  case s, ms, us, ns
  case iso8601

  /// The power of ten of a unit, in seconds.
  var exponent: Int {
    switch self {
    case .s, .iso8601: 0
    case .ms: -3
    case .us: -6
    case .ns: -9
    }
  }
}

/// The members of `takeset.yaml`, each as a step is declared: so they have the same messages, and their tables in the docs are generated.
package enum FolderParts {
  /// A table and its times, in each part that has one.
  package struct Table: StepOptionGroup {
    @StepOption("the table: a text file with fields between commas, semicolons, tabs or blanks") var table: String? = nil
    @StepOption("the column of the times; null: the first") var time: TableColumn? = nil
    @StepOption("the unit of these times; null: that of the member time") var timeUnit: TimeUnit? = nil

    package init() {}
  }

  /// `images: {camera_image: …}`
  package struct Images: Step {
    package static let name = "images"
    package static let summary = "The images of a camera: files, or a video"

    @StepOption("the files, such as \"rgb/*.png\"; * and ? stand for parts of the name") var files: String? = nil
    @StepOption("a video instead of files") var video: String? = nil
    @StepOption(
      "the times of the files, or of the frames of a video: a table, name (they are in the names of the files), {rate: 30}, or {table, time, file, time-unit}"
    )
    var times: JSONValue? = nil
    @StepOption("the time of a video's first frame, on the clock of the tables (seconds; in quotes, it is exact to the nanosecond)")
    var start: JSONValue? = nil

    package init() {}
  }

  /// `depth: {camera_depth: …}`
  package struct Depth: Step {
    package static let name = "depth"
    package static let summary = "The depth maps of a camera, as gray PNG files of 16 bits"

    @StepOption("the files, such as \"depth/*.png\"") var files: String? = nil
    @StepOption("their times, as those of images") var times: JSONValue? = nil
    @StepOption("what a value of 1 is, in the unit", above: 0, through: 1000) var scale = 0.001
    @StepOption("the unit of the scale") var unit = LengthWord.m

    package init() {}
  }

  /// `times: {table: …}` and `times: {rate: …}`
  struct FileTimes: Step {
    static let name = "times"
    static let summary = "The times of files"

    var source = Table()
    @StepOption("the column with the names of the files; null: the one that has them") var file: TableColumn? = nil
    @StepOption("files per second, of files whose times are not known", above: 0, through: 100_000) var rate: Double? = nil

    init() {}
  }

  /// `pose: …`
  package struct Pose: Step {
    package static let name = "pose"
    package static let summary = "The poses of the camera, or of a body that carries it"

    package enum Layout: String, OptionChoice { case tum, euroc, kitti }
    package enum Up: String, OptionChoice {
      case x, y, z
      case minusX = "-x"
      case minusY = "-y"
      case minusZ = "-z"
    }
    package enum Angle: String, OptionChoice { case rad, deg }
    package enum Maps: String, OptionChoice {
      case cameraToWorld = "camera-to-world"
      case worldToCamera = "world-to-camera"
    }

    var source = Table()
    @StepOption(
      "tum: time, x y z, qx qy qz qw; euroc: time in ns, x y z, qw qx qy qz; kitti: 12 numbers of a 3x4 matrix by rows, without a time")
    var layout: Layout? = nil
    @StepOption(
      "the columns of time, x, y, z and of a rotation: qx, qy, qz, qw; or rx, ry, rz, a rotation vector; or roll, pitch, yaw about the fixed axes x, y, z, in that order"
    )
    var columns: [String: JSONValue]? = nil
    @StepOption("the columns of the 12 or 16 numbers of a matrix, by rows") var matrix: [TableColumn]? = nil
    @StepOption("a table with the time of each line, of the layout kitti") var times: String? = nil
    @StepOption("the axes of the camera; null: not known") var axes: AxesName? = nil
    @StepOption(
      "the axis of the world that points up; a world in which it is neither y nor z is turned until one of them does; null: not known")
    var worldUp: Up? = nil
    @StepOption("the unit of the positions; arbitrary: that of a reconstruction without a scale") var unit = PositionUnit.m
    @StepOption("the unit of roll, pitch and yaw, and of a rotation vector's length") var angleUnit = Angle.rad
    @StepOption("what the numbers map: the camera's coordinates to those of the world, or the other way round") var maps = Maps
      .cameraToWorld
    @StepOption(
      "of poses that are those of a body, such as an IMU or a gripper, the pose of the camera in it: the 16 numbers of a matrix by rows, or x, y, z (m), qx, qy, qz, qw"
    )
    var cameraInBody: [Double]? = nil

    package init() {}
  }

  /// `streams: {gripper: …}`
  package struct Stream: Step {
    package static let name = "streams"
    package static let summary = "A table of other numbers, which becomes a stream"

    var source = Table()
    @StepOption("its columns; null: all but that of the times") var columns: [TableColumn]? = nil
    @StepOption("the unit of its numbers") var unit = "as recorded"

    package init() {}
  }

  /// `imu: …`
  package struct Inertial: Step {
    package static let name = "imu"
    package static let summary = "The readings of an IMU"

    package enum Acceleration: String, OptionChoice {
      case metric = "m/s^2"
      case g
    }
    package enum Rotation: String, OptionChoice {
      case rad = "rad/s"
      case deg = "deg/s"
    }

    var source = Table()
    @StepOption("the columns of the acceleration along x, y and z") var accel: [TableColumn] = []
    @StepOption("the columns of the angular velocity about x, y and z") var gyro: [TableColumn] = []
    @StepOption("the table of the angular velocities, where they are in another one, with times of their own") var gyroTable: String? = nil
    @StepOption("the unit of the accelerations") var accelUnit = Acceleration.metric
    @StepOption("the unit of the angular velocities") var gyroUnit = Rotation.rad

    package init() {}
  }

  /// `cameras: {camera: …}`
  package struct Camera: Step {
    package static let name = "cameras"
    package static let summary = "The intrinsics of a camera, in pixels of its images"

    package enum Center: String, OptionChoice { case corner, pixel }

    @StepOption("focal length from left to right (pixels)", above: 0, through: 1e6) var fx: Double? = nil
    @StepOption("focal length from top to bottom; null: as fx", above: 0, through: 1e6) var fy: Double? = nil
    @StepOption("principal point (pixels)", -1e6...1e6) var cx: Double? = nil
    @StepOption("principal point (pixels)", -1e6...1e6) var cy: Double? = nil
    @StepOption("size of the images that these numbers are for; null: that of the images", 1...65_535) var width: Int? = nil
    @StepOption("their height", 1...65_535) var height: Int? = nil
    @StepOption(
      "what the principal point counts from; corner: the outer corner of the top-left pixel; pixel: the middle of that pixel, as OpenCV and ROS count"
    )
    var center = Center.corner
    @StepOption("coefficients of the lens; they are not applied, and noted") var distortion: [Double] = []

    package init() {}
  }

  /// `time: …`
  package struct Time: Step {
    package static let name = "time"
    package static let summary = "The unit and the clock of all times"

    @StepOption("the unit of times in tables and names; iso8601: text such as 2026-05-04T10:00:00.25Z") var unit = TimeUnit.s
    @StepOption("whether they are Unix times; null: where they are those of the years 2010 to 2096") var unix: Bool? = nil

    package init() {}
  }

  package enum LengthWord: String, OptionChoice {
    case m, cm, mm

    var meters: Double {
      switch self {
      case .m: 1
      case .cm: 0.01
      case .mm: 0.001
      }
    }
  }

  package enum PositionUnit: String, OptionChoice {
    case m, cm, mm, arbitrary

    var factor: Double { LengthWord(rawValue: rawValue)?.meters ?? 1 }
  }

  /// The parts, for the docs.
  package static let all: [any Step.Type] = [
    Images.self, Depth.self, Pose.self, Stream.self, Inertial.self, Camera.self, Time.self,
  ]
}
