"""A converter as data collections often begin with one: the n-th image has the n-th pose, and zeros stand where nothing is near.

    python by_position.py DIRECTORY-OF-SESSIONS OUTPUT-DIRECTORY

Each session becomes a file of h5py with its defaults for compressed datasets.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

JOINTS = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]


def convert(session, output):
    poses = json.loads((session / "poses.json").read_text())
    images = sorted((session / "rgb").glob("*.jpg"))
    count = min(len(poses), len(images))
    matrices = np.array([pose["transform"] for pose in poses[:count]])
    times = np.array([pose["timestamp"] for pose in poses[:count]])
    readings = json.loads((session / "encoders.json").read_text())
    angles = np.array([[reading[joint] for joint in JOINTS] for reading in readings])
    clock = np.array([reading["timestamp"] for reading in readings])
    # Each clock begins at its first sample.
    apart = np.abs((times - times[0])[:, None] - (clock - clock[0])[None])
    nearest = apart.argmin(1)
    joints = np.where((apart.min(1) < 0.05)[:, None], angles[nearest], 0)
    pixels = np.stack([np.asarray(Image.open(image).convert("RGB").resize((320, 240))) for image in images[:count]])
    with h5py.File(output, "w") as file:
        file.create_dataset("observations/images/camera", data=pixels, compression="gzip")
        file.create_dataset("observations/pose", data=np.hstack([matrices[:, :3, 3], Rotation.from_matrix(matrices[:, :3, :3]).as_quat()]))
        file.create_dataset("observations/joints", data=joints)


if __name__ == "__main__":
    for session in sorted(Path(sys.argv[1]).iterdir()):
        convert(session, Path(sys.argv[2]) / f"{session.name}.h5")
