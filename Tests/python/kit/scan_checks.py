"""Converting scans, and what must hold for them."""

import json

import numpy as np
from conversions import Together, converted
from outputs import codes
from scans import LONG, depth_map, flood, periods, png, scan_video, session, wrong_crc


def convert(takeset, tmp_path, found, arguments=(), name="capture"):
    """The record, demo and meta of one capture."""
    entry, demo, meta = converted(takeset, found.write(tmp_path / name), arguments)
    assert entry["reader"] == demo.attrs["reader"] == "stray-scanner"
    return entry, demo, meta


class Scans(Together):
    """Scans that are converted in one run."""

    def __getitem__(self, name):
        entry, demo, meta = super().__getitem__(name)
        assert entry["reader"] == "stray-scanner" and (demo is None or demo.attrs["reader"] == "stray-scanner")
        return entry, demo, meta


def scan_codes(entry, *severities):
    """The codes of its findings, but for that of the steps that are drawn into most captures here, and that of their depth, which is of no scene."""
    return [code for code in codes(entry, *severities) if code not in ("frames-dropped", "geometry-contradictory")]


def absolute(meta, path="timestamp_ns"):
    """Times on the source's own clock."""
    return (meta[path][:] + int(meta["timestamp_ns"].attrs["origin_ns"])).tolist()


def depth_of(demo):
    return demo["obs/camera_depth"][..., 0]


def confidence_of(demo):
    return demo["obs/camera_depth_confidence"][..., 0]


def maps(make, count=20, size=(32, 24)):
    return np.stack([make(n, size) for n in range(count)])


def nearest_maps(stamps, present, tolerance=50_000_000):
    """For each row the number of the nearest map within the tolerance, of two equally near the earlier; -1 for none."""
    best = [min(present, key=lambda n: (abs(stamps[n] - t), stamps[n])) for t in stamps]
    return [n if abs(stamps[n] - t) <= tolerance else -1 for n, t in zip(best, stamps)]


AT = periods(20, LONG)


def others(*gone):
    return [n for n in range(20) if n not in gone]


def retimed_video(gone=(), extra=()):
    """A video in true time of the rows that are not gone, and of images 700, 701, … in periods of their own. And which it shows."""
    shown = sorted([(AT[n], n) for n in others(*gone)] + [(at, 700 + k) for k, at in enumerate(extra)])
    images = tuple(n for _, n in shown)
    return scan_video(tuple(10 * (at - shown[0][0]) for at, _ in shown), images), images


SMALL_MAP = depth_map(0, (16, 12))
INVALID_MAPS = {
    "cut": lambda data: data[: len(data) // 2], "checksum": wrong_crc, "empty": lambda data: b"", "text": lambda data: b"<html></html>",
    "8-bit": lambda data: png(depth_map(0, (32, 24)).astype(np.uint8)), "RGB": lambda data: png(np.zeros((24, 32, 3), np.uint8)),
    "size": lambda data: png(SMALL_MAP), "turned": lambda data: png(depth_map(0, (24, 32))), "flood": lambda data: flood(60000),
    "endless": lambda data: flood(2**31 - 1), "header only": lambda data: data[:33],
}


def every_problem():
    found = session(times="time")
    found.video, _ = retimed_video([8])
    del found.depth[5]
    found.depth[9] = wrong_crc(png(found.depth[9]))
    found.depth[10] = INVALID_MAPS["8-bit"](b"")
    del found.confidence[1]
    found.confidence[2] = b""
    found.confidence[3] = np.full((24, 32), 9, np.uint8)
    found.rows[14]["qw"] = "nan"
    found.imu[2][3] = "?"
    found.camera = b"?"
    found.odometry = found.table()[:-70]
    return found


def camera_info(demo, name="camera_image"):
    found = json.loads(demo.attrs["camera_info"])[name]
    (fx, a, cx), (b, fy, cy), last = found["intrinsics"]
    assert a == b == 0 and last == [0, 0, 1]
    return [fx, fy, cx, cy], (found["width"], found["height"])
