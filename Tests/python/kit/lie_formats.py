"""Takes of every format that `takeset simulate` makes: what they are simulated with, and where they have what."""

import dataclasses

from lie_fields import Entries, Exr, Files, Joined, Json, Lzfse, Movie, Names, Pictures, Raw, Table, Times


@dataclasses.dataclass
class Poses:
    """Poses as lists of numbers, nested or not: which are the position, and the matrix or the quaternion (x, y, z, w)."""

    field: object
    position: tuple
    matrix: tuple = ()
    quaternion: tuple = ()


@dataclasses.dataclass
class Format:
    app: str
    options: list
    # Times of the frames, all of which a clock that is set changes; those on no clock of the frames are not among them.
    times: list = dataclasses.field(default_factory=list)
    # Whether the times may be written in another unit; texts of dates may not.
    unit: bool = True
    # Lists, tables and folders that belong together by place, number or time.
    lists: list = dataclasses.field(default_factory=list)
    poses: Poses | None = None
    # Fields whose values have fx, fy, cx and cy at these places.
    cameras: list = dataclasses.field(default_factory=list)
    depth: object = None
    # What can be taken away of the depth, by name.
    maps: dict = dataclasses.field(default_factory=dict)
    inertial: list = dataclasses.field(default_factory=list)
    joints: list = dataclasses.field(default_factory=list)
    # Accelerations and rotations, three numbers each.
    readings: tuple = ()
    images: object = None
    movie: Movie | None = None
    texts: list = dataclasses.field(default_factory=list)


ROWS, ROW = (3, 7, 11), (0, 1, 2, 4, 5, 6, 8, 9, 10)
SMALL, WIDE = ["--size", "96x72", "--depth-size", "32x24"], ["--size", "192x144"]


def session(variant, **more):
    depth = ["--depth-size", "32x24"] if variant == "v1" else []
    given = {
        "times": [Times(Entries("poses.json"))], "lists": [Json("poses.json", "[]"), Files("rgb/*")],
        "poses": Poses(Json("poses.json", "[].transform"), ROWS, ROW), "images": Pictures("rgb/*"), "texts": ["metadata.json", "poses.json"],
    }
    if variant != "v1":
        given |= {"joints": [Times(Entries("encoders.json"))], "texts": [*given["texts"], "encoders.json"]}
    if variant.startswith("v3"):
        given |= {"inertial": [Times(Entries("imu.json"))], "readings": (Json("imu.json", "[].accel"), Json("imu.json", "[].gyro")), "movie": Movie("video.mov"), "texts": [*given["texts"], "imu.json"]}
    if variant.startswith("v3") or variant == "packed":
        given |= {"cameras": [(Table("calib.txt", (0, 1, 2, 3), separator=" "), (0, 1, 2, 3))], "texts": [*given["texts"], "calib.txt"]}
    return Format("stack-session", ["--variant", variant, "--size", "96x72", *depth], **(given | more))


def of_record3d(form, metadata, images, depth, maps):
    return Format(
        "record3d", ["--form", form, "--size", "144x192", "--depth-size", "48x64"], times=[Times(Json(metadata, "frameTimestamps[]"))],
        lists=[Json(metadata, "frameTimestamps[]"), Json(metadata, "poses[]"), Files(images)],
        poses=Poses(Json(metadata, "poses[]"), (4, 5, 6), quaternion=(0, 1, 2, 3)), cameras=[(Json(metadata, "K"), (0, 4, 6, 7))],
        depth=depth, maps=maps, images=Pictures(images), texts=[metadata])


def of_transforms(options, **more):
    given = {
        "times": [Times(Json("transforms.json", "frames[].timestamp"))], "lists": [Json("transforms.json", "frames[]")],
        "poses": Poses(Json("transforms.json", "frames[].transform_matrix"), ROWS, ROW),
        "cameras": [(Json("transforms.json", "", ["fl_x", "fl_y", "cx", "cy"]), (0, 1, 2, 3))], "texts": ["transforms.json"],
    }
    return Format("transforms-json", [*options, *SMALL], **(given | more))


IPHUMI_TIMES = [Json("*.json", f"{name}[]", where=bool) for name in ("poseTimes", "rgbTimes", "depthTimes", "ultrawideRGBTimes")]

KINDS = "accelerometer", "gyroscope"
SPECTACULAR = [Entries("data.jsonl", True, lambda line: "frames" in line, "time"), *(
    Entries("data.jsonl", True, lambda line, kind=kind: line.get("sensor", {}).get("type") == kind, "time") for kind in KINDS)]

FORMATS = {
    "session-v1": session("v1", depth=Raw("depth/*"), maps={"depth": Files("depth/*")}),
    "session-v2": session("v2", depth=Json("poses.json", "[].depth")),
    "session-v3-slam": session("v3-slam"),
    "session-v3-scaled": session("v3-scaled"),
    "session-packed": session("packed"),
    "session-synthetic": session("synthetic"),
    "realitycam": Format(
        "realitycam-bundle", ["--size", "216x384"], depth=Joined("depth.gz", 192 * 256, deflated=True),
        maps={"depth": Joined("depth.gz", 192 * 256, deflated=True)}, lists=[Json("hash_chain.json", "frame_hashes[]")], movie=Movie("video.mp4"),
        texts=["metadata.json", "hash_chain.json"]),
    "slow-motion": Format("slow-motion-video", ["--size", "216x384"], movie=Movie("*.mov")),
    "stray-scanner": Format(
        "stray-scanner", SMALL, times=[Times(Table("odometry.csv", 0, 1, texts=True)), Times(Table("imu.csv", 0, 1, texts=True))],
        lists=[Table("odometry.csv", head=1), Files("depth/*")], poses=Poses(Table("odometry.csv", (2, 3, 4, 5, 6, 7, 8), 1), (0, 1, 2), quaternion=(3, 4, 5, 6)),
        cameras=[(Table("odometry.csv", (9, 10, 11, 12), 1), (0, 1, 2, 3)), (Table("camera_matrix.csv", (0, 1, 2)), None)],
        depth=Pictures("depth/*"), maps={"depth": Files("depth/*", "confidence/*"), "confidence": Files("confidence/*")},
        inertial=[Times(Table("imu.csv", 0, 1, texts=True))], readings=(Table("imu.csv", (1, 2, 3), 1), Table("imu.csv", (4, 5, 6), 1)), movie=Movie("rgb.mp4"), texts=["odometry.csv", "imu.csv", "camera_matrix.csv"]),
    "record3d": of_record3d(
        "folder", "metadata", "rgbd/*.jpg", Lzfse("rgbd/*.depth"), {"depth": Files("rgbd/*.depth", "rgbd/*.conf"), "confidence": Files("rgbd/*.conf")}),
    "record3d-exr": of_record3d("exr", "metadata.json", "rgb/*", Exr("depth/*"), {"depth": Files("depth/*")}),
    "3d-scanner-app": Format(
        "3d-scanner-app", [*SMALL, "--image-every", "1"], times=[Times(Json("frame_*.json", "time"))], lists=[Files("frame_*.json"), Files("frame_*.jpg")],
        poses=Poses(Json("frame_*.json", "cameraPoseARFrame"), ROWS, ROW), cameras=[(Json("frame_*.json", "intrinsics"), (0, 4, 2, 5))],
        depth=Pictures("depth_*"), maps={"depth": Files("depth_*", "conf_*"), "confidence": Files("conf_*")}, images=Pictures("frame_*.jpg"),
        texts=["frame_*.json", "info.json"]),
    "polycam": Format(
        "polycam", [*SMALL, "--seconds", "6"], times=[Times(Names(r"(\d+)", "keyframes/*/*"), "us")],
        lists=[Files("keyframes/corrected_cameras/*"), Files("keyframes/corrected_images/*")],
        poses=Poses(
            Json("keyframes/corrected_cameras/*", "", [f"t_{row}{column}" for row in range(3) for column in range(4)]), ROWS, ROW),
        cameras=[(Json("keyframes/corrected_cameras/*", "", ["fx", "fy", "cx", "cy"]), (0, 1, 2, 3))], depth=Pictures("keyframes/depth/*"),
        maps={"depth": Files("keyframes/depth/*", "keyframes/confidence/*"), "confidence": Files("keyframes/confidence/*")},
        images=Pictures("keyframes/corrected_images/*"), texts=["keyframes/corrected_cameras/*"]),
    "iphumi": Format(
        "iphumi", WIDE, times=[Times(field, "iso") for field in IPHUMI_TIMES], unit=False,
        lists=[Json("*.json", "poseTransforms[]"), Json("*.json", "poseTimes[]"), Json("*.json", "rgbTimes[]"), Json("*.json", "depthTimes[]")],
        poses=Poses(Json("*.json", "poseTransforms[]"), ROWS, ROW), cameras=[(Json("*.json", "mainCameraIntrinsics"), (0, 4, 2, 5))],
        depth=Joined("*_depth.raw", 192 * 256, type="<f2"), maps={"depth": Joined("*_depth.raw", 192 * 256, type="<f2")}, movie=Movie("*_rgb.mp4"),
        texts=["*.json"]),
    "nerfstudio": of_transforms(
        ["--quirk", "times"], depth=Pictures("depth/*"), maps={"depth": Files("depth/*")}, images=Pictures("images/*"), lists=[
            Json("transforms.json", "frames[]"), Files("images/*")]),
    "nerfcapture": of_transforms(
        ["--form", "nerfcapture"], images=Pictures("images/*[0-9].png"), lists=[Json("transforms.json", "frames[]"), Files("images/*[0-9].png")]),
    "anysense": Format(
        "anysense", ["--size", "144x192"], times=[Times(Table("AR_Pose_*", 0, texts=True), "ms")], lists=[Table("AR_Pose_*")],
        poses=Poses(Table("AR_Pose_*", (1, 2, 3, 4, 5, 6, 7)), (4, 5, 6), quaternion=(0, 1, 2, 3)), depth=Raw("Depth_Images*/*"),
        maps={"depth": Files("Depth_Images*/*")}, movie=Movie("RGB_*.mp4"), texts=["AR_Pose_*"]),
    "arkitscenes": Format(
        "arkitscenes", ["--size", "96x72"],
        times=[Times(Table("lowres_wide.traj", 0, separator=" ", texts=True)), Times(Names(r"_([\d.]+)\.(?:png|pincam)$", "vga_wide*/*", "lowres_depth/*", "confidence/*"))],
        lists=[Table("lowres_wide.traj"), Files("vga_wide/*")],
        poses=Poses(Table("lowres_wide.traj", (1, 2, 3, 4, 5, 6), separator=" "), (3, 4, 5)),
        cameras=[(Table("vga_wide_intrinsics/*", (2, 3, 4, 5), separator=" "), (0, 1, 2, 3))], depth=Pictures("lowres_depth/*"),
        maps={"depth": Files("lowres_depth/*", "confidence/*"), "confidence": Files("confidence/*")}, images=Pictures("vga_wide/*"),
        texts=["lowres_wide.traj", "vga_wide_intrinsics/*"]),
    "spectacular": Format(
        "spectacular-rec", WIDE, times=[Times(one) for one in SPECTACULAR], inertial=[Times(one) for one in SPECTACULAR[1:]],
        readings=tuple(Json("data.jsonl", "[].sensor", ["values"], True, lambda sensor, kind=kind: sensor["type"] == kind) for kind in KINDS),
        lists=[Json("data.jsonl", "[]", lines=True, where=lambda line: "frames" in line), Files("frames2/*")],
        cameras=[(Json("data.jsonl", "[].frames[0].cameraParameters", ["focalLengthX", "focalLengthY", "principalPointX", "principalPointY"], lines=True), (0, 1, 2, 3))],
        depth=Pictures("frames2/*"), maps={"depth": Files("frames2/*")},
        movie=Movie("data.mov"), texts=["data.jsonl", "calibration.json"]),
    "opencamera": Format(
        "opencamera-sensors", ["--size", "192x144", "--quirk", "flat"],
        times=[Times(Table("VID_*_timestamps.csv", 0, texts=True), "ns"), *(Times(Table(f"VID_*_{name}.csv", 3, texts=True), "ns") for name in ("accel", "gyro"))],
        lists=[Table("VID_*_timestamps.csv")],
        inertial=[Times(Table(f"VID_*_{name}.csv", 3, texts=True), "ns") for name in ("accel", "gyro")],
        readings=tuple(Table(f"VID_*_{name}.csv", (0, 1, 2)) for name in ("accel", "gyro")), movie=Movie("VID_*.mp4"),
        texts=["VID_*_timestamps.csv", "VID_*_accel.csv", "VID_*_gyro.csv"]),
    "folder-tum": Format(
        "folder", SMALL, times=[Times(Table(f"{name}.txt", 0, 2, " ", texts=True)) for name in ("rgb", "depth", "groundtruth")],
        lists=[Table("rgb.txt", head=2), Table("groundtruth.txt", head=2), Files("rgb/*")],
        poses=Poses(Table("groundtruth.txt", (1, 2, 3, 4, 5, 6, 7), 2, " "), (0, 1, 2), quaternion=(3, 4, 5, 6)), depth=Pictures("depth/*"),
        maps={"depth": Files("depth/*")}, images=Pictures("rgb/*"), texts=["rgb.txt", "depth.txt", "groundtruth.txt"]),
    "folder-arm": Format(
        "folder", ["--layout", "arm", *WIDE], times=[Times(Table("frames.csv", 1, 1, texts=True), "ns"), Times(Table("arm.csv", 0, 1, texts=True), "ns")],
        lists=[Table("frames.csv", head=1), Table("arm.csv", head=1)], poses=Poses(Table("arm.csv", (1, 2, 3, 4, 5, 6), 1), (0, 1, 2)), movie=Movie("cam.mp4"),
        texts=["frames.csv", "arm.csv"]),
}
