"""Small generated sessions of every variant of the app."""

import functools
import io
import json

import numpy as np
from PIL import Image
from videos import video_file

START = 1771446234.25  # Unix seconds at which the simulated phone starts to record
BOOT = 81234.5  # the same moment in seconds since boot
SLAM = {"v3-slam", "v3-scaled", "packed"}


@functools.cache
def numbered_image(number, width, height):
    """A JPEG whose top row of 24 blocks carries its number, in shades that differ from image to image."""
    bits = [number >> (19 - k) & 1 for k in range(20)]
    bits += [sum(bits[group * 5 : group * 5 + 5]) % 2 for group in range(4)]
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    image = np.stack([60 + 100 * x, 60 + 100 * y, np.full_like(x, 60 + 7 * number % 120)], -1).astype(np.uint8)
    for k, bit in enumerate(bits):
        image[: max(height // 5, 8), k * width // 24 : (k + 1) * width // 24] = 235 if bit else 20
    return jpeg(Image.fromarray(image))


def jpeg(image):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=85)
    return out.getvalue()


def depth_map(number, width=16, height=12):
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    return (1 + 0.1 * number + x + 0.5 * y).astype("<f4").tobytes()


def transform(number, seed=0):
    """A rigid motion on a smooth path of which no two places are the same."""
    turn, tilt = 0.3 + 0.02 * number + seed, 0.1 + 0.01 * number
    about_y = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    matrix = np.eye(4)
    matrix[:3, :3] = about_y @ about_x
    matrix[:3, 3] = [0.1 + 0.01 * number, 0.02 * np.sin(number), -0.3 + 0.005 * number + seed]
    return matrix.tolist()


def pose(variant, number, seed):
    entry = {"rgbIndex": number, "transform": transform(number, seed)}
    if variant in SLAM:
        return {"timestamp": number / 60, **entry, "depth": None}
    entry["timestamp"] = BOOT + number / 60
    if variant == "v1" and number % 2 == 0:
        entry["depthIndex"] = number // 2
    if variant == "v2":
        entry["depth"] = 1.25 + number / 64
    return entry


def reading(number):
    angles = {"index_mcp": 10, "index_pip": 40, "three_finger_mcp": 120, "three_finger_pip": 200}
    angles = {name: (first + number) * 45 / 512 for name, first in angles.items()}
    return {"timestamp": START + 0.01 + 0.02 * number, "esp_timestamp_ms": 5000 + 20 * number, **angles}


def motion(number):
    return {"timestamp": START + 0.01 * number, "accel": [0.01, -0.02, 0.001 * number], "gyro": [0.1, 0.5 - 0.003 * number, 0.2]}


def session(variant="v2", count=8, seed=0, size=(96, 48)):
    """The files of a valid session by path. The video of v3 has as many images as rgb/."""
    size = (224, 224) if variant == "packed" else size
    files = {f"rgb/{number:06d}.jpg": numbered_image(number, *size) for number in range(count)}
    said = {"deviceModel": "iPhone17,1", "iosVersion": "18.3", "startTime": "2026-02-18T20:23:54Z", "rgbFrameCount": count}
    said["rgbResolution"] = [480, 360] if variant == "packed" else list(size)
    if variant == "synthetic":
        said = {"deviceModel": "synthetic", "rgbResolution": list(size), "frameCount": count, "synthetic": True, "seed": seed}
    entries = [] if variant == "v3-raw" else [pose(variant, number, seed) for number in range(count)]
    said["poseCount"] = len(entries)
    if variant == "v1":
        files |= {f"depth/{number:06d}.bin": depth_map(number) for number in range((count + 1) // 2)}
        said |= {"depthResolution": [16, 12], "depthFrameCount": (count + 1) // 2}
    else:
        readings = [reading(number) for number in range(count // 3 + 3)]
        files["encoders.json"] = dumped(readings)
        said |= {"bleConnected": True, "encoderCount": len(readings)}
    if variant in ("v3-raw", "v3-slam", "v3-scaled"):
        motions = [motion(number) for number in range(count * 2)]
        files |= {"imu.json": dumped(motions), "video.mov": video_file(count, fps=60)}
        said |= {"imuCount": len(motions), "hasVideo": True}
    if variant in SLAM | {"v3-raw"}:
        said |= {"captureSource": "iphone_ultrawide", "slamProcessed": variant in SLAM}
    if variant in SLAM:
        files["calib.txt"] = b"183.5000 183.5000 240.0000 180.0000"
    if variant == "v3-scaled":
        said["scale_factor"] = 0.4375
    return files | {"poses.json": dumped(entries), "metadata.json": dumped(said)}


def dumped(value):
    return json.dumps(value).encode()


def changed(files, name, **fields):
    """The session with fields of a JSON object replaced."""
    return files | {name: dumped(json.loads(files[name]) | fields)}


def put(directory, files):
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory
