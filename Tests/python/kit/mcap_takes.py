"""Recordings in MCAP that the libraries of others write: messages of ROS 2 in CDR, Foxglove's in Protocol Buffers and JSON."""

import base64
import io
import json
import math

import numpy as np
from foxglove_schemas_protobuf import (
    CameraCalibration_pb2, CompressedImage_pb2, CompressedVideo_pb2, FrameTransform_pb2, PoseInFrame_pb2, RawImage_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from mcap.writer import CompressionType, Writer
from mcap_ros2.writer import Writer as ROSWriter
from PIL import Image
from scipy.spatial.transform import Rotation

START = 1_780_000_000_123_456_789
PERIOD = 33_333_333
SIZE = (96, 72)
K = [90.0, 0, 47.5, 0, 91.0, 35.5, 0, 0, 1]


def image(number, size=SIZE):
    """An image whose top rows carry its number, as those of simulated takes do."""
    width, height = size
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    pixels = np.stack([60 + 120 * x, 80 + 90 * y, 100 + 60 * x * y], axis=-1)
    rows = max(height // 10, 8)
    bits = [number >> (19 - k) & 1 for k in range(20)]
    bits += [sum(bits[group * 5 : group * 5 + 5]) % 2 for group in range(4)]
    for k, bit in enumerate(bits):
        pixels[:rows, k * width // 24 : (k + 1) * width // 24] = 235 if bit else 20
    return pixels.astype(np.uint8)


def jpeg(number, size=SIZE):
    file = io.BytesIO()
    Image.fromarray(image(number, size)).save(file, "JPEG", quality=95)
    return file.getvalue()


def depth(number):
    values = (500 + 7 * number + np.arange(24 * 32).reshape(24, 32)).astype(np.uint16)
    values[0, 0] = 0
    return values


def pose(time):
    """Position and quaternion at seconds since the start; positions ascend linearly between measured poses."""
    rotation = Rotation.from_euler("zyx", [20 * math.sin(time), 10 * math.cos(time), 15 * time], degrees=True).as_quat()
    return [0.3 * time, 0.1 * math.sin(2 * time), 1 + 0.05 * time], [float(v) for v in rotation]


def at(number):
    return START + number * PERIOD


def sec_nsec(time, names=("sec", "nsec")):
    return {names[0]: time // 10**9, names[1]: time % 10**9}


HEADER = """
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
POSE = """
================================================================================
MSG: geometry_msgs/Pose
Point position
Quaternion orientation
================================================================================
MSG: geometry_msgs/Point
float64 x
float64 y
float64 z
================================================================================
MSG: geometry_msgs/Quaternion
float64 x 0
float64 y 0
float64 z 0
float64 w 1
"""
VECTOR = """
================================================================================
MSG: geometry_msgs/Vector3
float64 x
float64 y
float64 z
"""
TRANSFORM = """
================================================================================
MSG: geometry_msgs/TransformStamped
std_msgs/Header header
string child_frame_id # the frame of the child
geometry_msgs/Transform transform
================================================================================
MSG: geometry_msgs/Transform
geometry_msgs/Vector3 translation
geometry_msgs/Quaternion rotation
""" + VECTOR + POSE + HEADER
ROI = """
================================================================================
MSG: sensor_msgs/RegionOfInterest
uint32 x_offset
uint32 y_offset
uint32 height
uint32 width
bool do_rectify
"""
ROS = {
    "sensor_msgs/msg/CompressedImage": "std_msgs/Header header # Header timestamp\nstring format\nuint8[] data\n" + HEADER,
    "sensor_msgs/msg/Image": "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\nuint32 step\nuint8[] data\n" + HEADER,
    "sensor_msgs/msg/CameraInfo": "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\nfloat64[] d\nfloat64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\nRegionOfInterest roi\n" + ROI + HEADER,
    "sensor_msgs/msg/Imu": "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\nfloat64[9] orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\nfloat64[9] angular_velocity_covariance\ngeometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance\n" + VECTOR + POSE + HEADER,
    "sensor_msgs/msg/JointState": "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n" + HEADER,
    "geometry_msgs/msg/PoseStamped": "std_msgs/Header header\nPose pose\n" + POSE + HEADER,
    "nav_msgs/msg/Odometry": "std_msgs/Header header\nstring child_frame_id\ngeometry_msgs/PoseWithCovariance pose\nfloat64[36] other\n\n================================================================================\nMSG: geometry_msgs/PoseWithCovariance\nPose pose\nfloat64[36] covariance\n" + POSE + HEADER,
    "tf2_msgs/msg/TFMessage": "geometry_msgs/TransformStamped[] transforms\n" + TRANSFORM,
    "std_msgs/msg/Float32": "float32 data\n",
    "std_msgs/msg/Float64MultiArray": "MultiArrayLayout layout\nfloat64[] data\n================================================================================\nMSG: std_msgs/MultiArrayLayout\nMultiArrayDimension[] dim\nuint32 data_offset\n================================================================================\nMSG: std_msgs/MultiArrayDimension\nstring label\nuint32 size\nuint32 stride\n",
    "my_msgs/msg/Grip": "uint8 FINE=1\nstring<=10 note \"ok\"\nstd_msgs/Header header\nbool ok\nint64[<=3] counts\nfloat32 unused\nmy_msgs/Inner[2] inner\nfloat32[] data\n================================================================================\nMSG: my_msgs/Inner\nint8 a\nfloat64 b\n" + HEADER,
}


class ROSRecording:
    """A recording of ROS 2, written by the library mcap-ros2-support."""

    def __init__(self, path, **options):
        self.writer = ROSWriter(str(path), **options)
        self.schemas = {}

    def add(self, topic, kind, message, time, log=None):
        if kind not in self.schemas:
            self.schemas[kind] = self.writer.register_msgdef(kind, ROS[kind])
        self.writer.write_message(topic, self.schemas[kind], message, log_time=time if log is None else log, publish_time=time)

    def header(self, time, frame="camera"):
        return {"stamp": sec_nsec(time, ("sec", "nanosec")), "frame_id": frame}

    def image(self, number, topic="/cam/image/compressed", frame="camera", **options):
        time = at(number)
        self.add(topic, "sensor_msgs/msg/CompressedImage", {"header": self.header(time, frame), "format": "jpeg", "data": jpeg(number)}, time, **options)

    def info(self, number, topic="/cam/camera_info", frame="camera", k=K, d=(), model="plumb_bob", p=(0.0,) * 12, size=SIZE):
        message = {
            "header": self.header(at(number), frame), "height": size[1], "width": size[0], "distortion_model": model, "d": list(d), "k": k,
            "r": [1.0, 0, 0, 0, 1, 0, 0, 0, 1], "p": list(p), "binning_x": 0, "binning_y": 0,
            "roi": {"x_offset": 0, "y_offset": 0, "height": 0, "width": 0, "do_rectify": False},
        }
        self.add(topic, "sensor_msgs/msg/CameraInfo", message, at(number))

    def raw(self, number, encoding, values, topic="/cam/depth", step=None, big=False):
        height, width = values.shape[:2]
        bytes_ = values.astype(values.dtype.newbyteorder(">" if big else "<")).tobytes()
        row = len(bytes_) // height
        step = step or row
        data = b"".join(bytes_[y * row : (y + 1) * row] + bytes(step - row) for y in range(height))
        message = {
            "header": self.header(at(number)), "height": height, "width": width, "encoding": encoding, "is_bigendian": int(big), "step": step,
            "data": data,
        }
        self.add(topic, "sensor_msgs/msg/Image", message, at(number))

    def pose(self, time, topic="/pose", frame="map"):
        position, rotation = pose((time - START) / 1e9)
        message = {"header": self.header(time, frame), "pose": {"position": dict(zip("xyz", position)), "orientation": dict(zip("xyzw", rotation))}}
        self.add(topic, "geometry_msgs/msg/PoseStamped", message, time)

    def transform(self, parent, child, time, position, rotation, topic="/tf"):
        transform = {
            "header": self.header(time, parent), "child_frame_id": child,
            "transform": {"translation": dict(zip("xyz", position)), "rotation": dict(zip("xyzw", rotation))},
        }
        self.add(topic, "tf2_msgs/msg/TFMessage", {"transforms": [transform]}, time)

    def imu(self, time, topic="/imu"):
        zero = [0.0] * 9
        message = {
            "header": self.header(time, "imu"), "orientation": dict(zip("xyzw", [0.0, 0, 0, 1])), "orientation_covariance": zero,
            "angular_velocity": dict(zip("xyz", [0.1, -0.2, (time - START) / 1e9])), "angular_velocity_covariance": zero,
            "linear_acceleration": dict(zip("xyz", [0.5, 0.25, 9.75])), "linear_acceleration_covariance": zero,
        }
        self.add(topic, "sensor_msgs/msg/Imu", message, time)

    def joints(self, time, names=("shoulder", "elbow"), topic="/joint_states", values=None):
        values = [(time - START) / 1e9 + place for place in range(len(names))] if values is None else values
        message = {"header": self.header(time, ""), "name": list(names), "position": values, "velocity": [], "effort": [0.0] * len(names)}
        self.add(topic, "sensor_msgs/msg/JointState", message, time)

    def finish(self):
        self.writer.finish()


def ros(path, frames=12, **options):
    """Images with a calibration, raw depth, poses at 100 Hz, an IMU, joints, a number."""
    recording = ROSRecording(path, **options)
    recording.info(0)
    for number in range(frames):
        recording.image(number)
        recording.raw(number, "16UC1", depth(number))
        recording.joints(at(number) + 5_000_000)
        recording.add("/gripper/width", "std_msgs/msg/Float32", {"data": 0.5 + number / 64}, at(number))
    for step in range(-2, frames * 4):
        time = START + step * 10_000_000
        recording.pose(time)
        recording.imu(time)
    recording.finish()
    return path


def descriptors(message):
    """The FileDescriptorSet of a message, with all that it refers to."""
    found = FileDescriptorSet()
    seen = set()

    def add(file):
        for other in file.dependencies:
            add(other)
        if file.name not in seen:
            seen.add(file.name)
            file.CopyToProto(found.file.add())

    add(message.DESCRIPTOR.file)
    return found.SerializeToString()


class FoxgloveRecording:
    """A recording of Foxglove's schemas, written by the library mcap."""

    def __init__(self, path, json=False, **options):
        self.file = open(path, "wb")
        self.writer = Writer(self.file, **options)
        self.writer.start()
        self.json = json
        self.schemas, self.channels = {}, {}

    def add(self, topic, message, time, log=None):
        name = message.DESCRIPTOR.full_name
        if name not in self.schemas:
            data = b"{}" if self.json else descriptors(message)
            self.schemas[name] = self.writer.register_schema(name, "jsonschema" if self.json else "protobuf", data)
        if topic not in self.channels:
            self.channels[topic] = self.writer.register_channel(topic, "json" if self.json else "protobuf", self.schemas[name])
        data = json.dumps(self.plain(message)).encode() if self.json else message.SerializeToString()
        self.writer.add_message(self.channels[topic], time if log is None else log, data, time)

    def plain(self, message):
        """As Foxglove writes messages in JSON."""
        if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
            return {"sec": message.seconds, "nsec": message.nanos}
        found = {}
        for field in message.DESCRIPTOR.fields:
            value = getattr(message, field.name)
            if field.message_type:
                found[field.name] = self.plain(value)
            elif isinstance(value, bytes):
                found[field.name] = base64.b64encode(value).decode()
            else:
                found[field.name] = list(value) if not isinstance(value, (str, int, float, bool)) else value
        return found

    def stamped(self, message, time):
        (message.timestamp.seconds, message.timestamp.nanos) = divmod(time, 10**9)
        return message

    def image(self, number, topic="/cam/image", **options):
        message = CompressedImage_pb2.CompressedImage(data=jpeg(number), format="jpeg", frame_id="camera")
        self.add(topic, self.stamped(message, at(number)), at(number), **options)

    def video(self, number, data, format="h264", topic="/cam/video"):
        message = CompressedVideo_pb2.CompressedVideo(data=data, format=format, frame_id="camera")
        self.add(topic, self.stamped(message, at(number)), at(number))

    def depth(self, number, topic="/cam/depth"):
        values = depth(number)
        message = RawImage_pb2.RawImage(width=32, height=24, encoding="16UC1", step=64, data=values.tobytes(), frame_id="camera")
        self.add(topic, self.stamped(message, at(number)), at(number))

    def info(self, number, topic="/cam/info"):
        message = CameraCalibration_pb2.CameraCalibration(width=SIZE[0], height=SIZE[1], K=K, frame_id="camera")
        self.add(topic, self.stamped(message, at(number)), at(number))

    def pose(self, time, topic="/cam/pose"):
        message = PoseInFrame_pb2.PoseInFrame(frame_id="map")
        position, rotation = pose((time - START) / 1e9)
        for target, values in (message.pose.position, position), (message.pose.orientation, rotation):
            for name, value in zip("xyzw", values):
                setattr(target, name, value)
        self.add(topic, self.stamped(message, time), time)

    def transform(self, parent, child, time, position, rotation, topic="/tf"):
        message = FrameTransform_pb2.FrameTransform(parent_frame_id=parent, child_frame_id=child)
        for target, values in (message.translation, position), (message.rotation, rotation):
            for name, value in zip("xyzw", values):
                setattr(target, name, value)
        self.add(topic, self.stamped(message, time), time)

    def finish(self):
        self.writer.finish()
        self.file.close()


def foxglove(path, frames=12, json=False, **options):
    recording = FoxgloveRecording(path, json, **options)
    for number in range(frames):
        recording.info(number)
        recording.image(number)
        recording.depth(number)
    for step in range(-2, frames * 4):
        recording.pose(START + step * 10_000_000)
    recording.finish()
    return path


COMPRESSIONS = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}
