"""Sessions into LeRobot's own dataset, by its writer, and rows out of one.

    python lerobot_rows.py write DIRECTORY-OF-SESSIONS DATASET
    python lerobot_rows.py stream DIRECTORY-OF-SESSIONS DATASET
    python lerobot_rows.py read DATASET ROWS.npz

LeRobot reads no captures: whoever has some writes a script around `add_frame`. This one pairs by number, as ../plain.py does, and places joints as it does.
A session that fails is left out; what was stopped goes on where it was. `write` has the defaults, which write each image as a PNG file before the video;
`stream` encodes at once, as the examples of its recorder do, with a queue that holds all, so that none is dropped.
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
from lerobot.datasets.video_utils import VideoEncodingManager  # noqa: E402
from measure import WHOLE, edge  # noqa: E402
from PIL import Image  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402

NAMES = ["x", "y", "z", "qx", "qy", "qz", "qw", "index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
FEATURES = {
    "observation.images.camera": {"dtype": "video", "shape": (240, 320, 3), "names": ["height", "width", "channels"]},
    "observation.state": {"dtype": "float32", "shape": (11,), "names": NAMES},
    "action": {"dtype": "float32", "shape": (11,), "names": NAMES},
}


def write(sessions, root, **options):
    options = {"root": root, "image_writer_threads": 4, **options}
    sessions, done = sorted(Path(sessions).iterdir()), Path(root, "done.txt")
    if Path(root).exists():  # a run before this one was stopped
        dataset = LeRobotDataset.resume("local/takes", **options)
    else:
        dataset = LeRobotDataset.create("local/takes", fps=60, features=FEATURES, **options)
    # LeRobot does not know what its episodes are made of.
    finished = done.read_text().split() if done.exists() else []
    failed = 0
    with VideoEncodingManager(dataset):  # as its own recording does, so that what is complete stays when something fails
        for session in sessions:
            if session.name in finished:
                continue
            try:
                add(dataset, session)
            except (OSError, ValueError) as error:
                print(f"{session}: {error}", file=sys.stderr)
                dataset.clear_episode_buffer()
                failed += 1
            with done.open("a") as file:
                file.write(f"{session.name}\n")
    sys.exit(failed > 0)


def stream(sessions, root):
    write(sessions, root, streaming_encoding=True, encoder_threads=2, encoder_queue_maxsize=100_000)


def add(dataset, session):
    """An episode of each stretch of a session without a gap, because LeRobot's time is row / fps."""
    entries = sorted(json.loads((session / "poses.json").read_text()), key=lambda entry: entry["rgbIndex"])
    files = [session / f"rgb/{entry['rgbIndex']:06d}.jpg" for entry in entries]
    entries, files = zip(*[(entry, file) for entry, file in zip(entries, files) if file.exists()])
    frames = nanoseconds([entry["timestamp"] for entry in entries])
    transforms = np.array([entry["transform"] for entry in entries])
    angles, times = joints(json.loads((session / "encoders.json").read_text()), frames[0])
    # There is no mask: where no reading is near, or one failed, the last good one stays.
    good = np.isfinite(angles).all(1)
    angles, times = angles[good], times[good]
    rows = nearest(times, frames)
    rows = np.maximum.accumulate(np.where(rows < 0, 0, rows))
    states = np.hstack([transforms[:, :3, 3], Rotation.from_matrix(transforms[:, :3, :3]).as_quat(), angles[rows]]).astype(np.float32)
    starts = [0, *(np.flatnonzero(np.diff(frames) > 25_000_000) + 1), len(frames)]
    for start, end in zip(starts, starts[1:]):
        actions = np.vstack([states[start + 1 : end], states[end - 1 : end]])
        for row in range(start, end):
            image = np.asarray(Image.open(files[row]).convert("RGB").resize((320, 240), Image.Resampling.BILINEAR))
            dataset.add_frame({"observation.images.camera": image, "observation.state": states[row], "action": actions[row - start], "task": session.name})
        dataset.save_episode()


def read(root, output):
    dataset = LeRobotDataset("local/takes", root=root)
    camera = dataset.meta.camera_keys[0]
    edges, whole, episodes, seconds, states, names = [], [], [], [], [], []
    for index in range(len(dataset)):
        sample = dataset[index]
        image = (sample[camera].movedim(0, 2) * 255).round().byte().numpy()
        edges.append(edge(image))
        if index % WHOLE == 0:
            whole.append(image)
        episodes.append(int(sample["episode_index"]))
        seconds.append(float(sample["timestamp"]))
        states.append(sample["observation.state"].numpy())
        names.append(sample["task"])
    np.savez(output, edges=np.stack(edges), whole=np.stack(whole), episode=episodes, seconds=seconds, state=np.stack(states), task=names)


if __name__ == "__main__":
    {"write": write, "stream": stream, "read": read}[sys.argv[1]](*sys.argv[2:])
