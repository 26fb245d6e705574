"""Sessions into LeRobot's own dataset, by its writer, and rows out of one.

    python lerobot_rows.py write DIRECTORY-OF-SESSIONS DATASET
    python lerobot_rows.py read DATASET ROWS.npz

LeRobot reads no captures: whoever has some writes a script around `add_frame`. This one pairs by number, as ../plain.py does, and places joints as it does.
"""

import json
import os
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "SVT_LOG": "1"}
sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
from arrays import joints, nanoseconds, nearest  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from measure import edge  # noqa: E402
from PIL import Image  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402

NAMES = ["x", "y", "z", "qx", "qy", "qz", "qw", "index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
FEATURES = {
    "observation.images.camera": {"dtype": "video", "shape": (240, 320, 3), "names": ["height", "width", "channels"]},
    "observation.state": {"dtype": "float32", "shape": (11,), "names": NAMES},
    "action": {"dtype": "float32", "shape": (11,), "names": NAMES},
}


def write(sessions, root):
    dataset = LeRobotDataset.create("local/takes", fps=60, root=root, features=FEATURES, image_writer_threads=4)
    for session in sorted(Path(sessions).iterdir()):
        entries = sorted(json.loads((session / "poses.json").read_text()), key=lambda entry: entry["rgbIndex"])
        files = [session / f"rgb/{entry['rgbIndex']:06d}.jpg" for entry in entries]
        entries, files = zip(*[(entry, file) for entry, file in zip(entries, files) if file.exists()])
        frames = nanoseconds([entry["timestamp"] for entry in entries])
        transforms = np.array([entry["transform"] for entry in entries])
        angles, times = joints(json.loads((session / "encoders.json").read_text()), frames[0])
        rows = nearest(times, frames)
        # There is no mask: where no reading is near, the last one stays.
        rows = np.maximum.accumulate(np.where(rows < 0, 0, rows))
        states = np.hstack([transforms[:, :3, 3], Rotation.from_matrix(transforms[:, :3, :3]).as_quat(), np.nan_to_num(angles[rows])]).astype(np.float32)
        actions = np.vstack([states[1:], states[-1:]])
        for file, state, action in zip(files, states, actions):
            image = np.asarray(Image.open(file).convert("RGB").resize((320, 240), Image.Resampling.BILINEAR))
            dataset.add_frame({"observation.images.camera": image, "observation.state": state, "action": action, "task": "look around"})
        dataset.save_episode()
    dataset.finalize()


def read(root, output):
    dataset = LeRobotDataset("local/takes", root=root)
    camera = dataset.meta.camera_keys[0]
    samples = [dataset[index] for index in range(len(dataset))]
    images = [(sample[camera].movedim(0, 2) * 255).round().byte().numpy() for sample in samples]
    np.savez(
        output, edges=np.stack([edge(image) for image in images]), whole=np.stack(images[::20]), episode=[int(sample["episode_index"]) for sample in samples],
        seconds=[float(sample["timestamp"]) for sample in samples], state=np.stack([sample["observation.state"].numpy() for sample in samples]),
    )  # fmt: skip


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
