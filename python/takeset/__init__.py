"""Read Takeset datasets.

    import takeset

    with takeset.open("dataset/") as ds:
        episode = ds[0]
        images = episode["camera_image"][10:26]           # (16, H, W, 3) u1
        poses = episode["pose"][10:26]                    # (16, 7) f4: x y z qx qy qz qw
        known = episode["pose"].valid[10:26]              # (16,) bool

`takeset.torch`, `takeset.lerobot` and `takeset.rerun` are imported by themselves, with the packages that they need.
"""

from ._convert import convert
from ._dataset import Dataset
from ._dataset import open_dataset as open
from ._episode import Camera, Episode, Imu
from ._errors import TakesetError
from ._labels import Labels, LabelSegment
from ._manifest import Finding
from ._stats import Statistics
from ._stream import Stream

__version__ = "0.3.0"

__all__ = [
    "Camera", "Dataset", "Episode", "Finding", "Imu", "LabelSegment", "Labels", "Statistics", "Stream", "TakesetError", "__version__",
    "convert", "open",
]  # fmt: skip
