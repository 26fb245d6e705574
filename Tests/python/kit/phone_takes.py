"""Simulated takes of phone apps: what they say is true, and converting one without changing its values."""

import json
import zipfile

import numpy as np
from outputs import only, record
from scipy.spatial.transform import Rotation

PIPELINE = "version: 1\n{}transforms: [{}]\nwriter: {{hdf5: {{image: raw}}}}\n"


def converted(takeset, root, source, check=0, reader="", steps="align"):
    """The entry, demo and meta of the only take; of one that fails, its entry."""
    (root / "p.yaml").write_text(PIPELINE.format(f"reader: {reader}\n" if reader else "", steps))
    takeset.convert(source, output=root / "out", check=check, arguments=["--pipeline", root / "p.yaml"])
    return only(root / "out") if check == 0 else record(root / "out")


def truth(folder, key="camera_to_world"):
    """Camera-to-world matrices and times in nanoseconds, by frame."""
    found = json.loads((folder / "truth.json").read_text())
    return np.array(found[key]).reshape(-1, 4, 4), np.array(found["frame_time_ns"])


def matrices(poses):
    found = np.tile(np.eye(4), (len(poses), 1, 1))
    found[:, :3, :3], found[:, :3, 3] = Rotation.from_quat(poses[:, 3:]).as_matrix(), poses[:, :3]
    return found


def zipped(folder, path, prefix=""):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != "truth.json":
                archive.write(file, prefix + str(file.relative_to(folder)))
    return path


def problem(entry):
    (found,) = [finding for finding in entry["findings"] if finding["severity"] == "error"]
    return found


def absolute(meta, path="timestamp_ns"):
    return meta[path][:] + int(meta["timestamp_ns"].attrs["origin_ns"])


def same(one, other, names):
    return all(np.array_equal(one[name][:], other[name][:]) for name in names)


STREAMS = ["obs/pose", "obs/camera_image", "obs/camera_depth", "obs/camera_depth_confidence"]
