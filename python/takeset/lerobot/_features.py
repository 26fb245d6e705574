"""Features: what LeRobot calls the columns of a dataset, with their types, shapes and names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_TYPES = {"float32": pa.float32(), "int64": pa.int64(), "uint8": pa.uint8(), "bool": pa.bool_()}


@dataclass(frozen=True)
class Feature:
    """One feature.

    name   LeRobot's: policies take what begins with `observation` and `action` as input and output; `/` is not allowed
    dtype  float32, int64, uint8, bool, image or video
    shape  of one row; (height, width, channels) of images
    names  of the elements; None for single numbers
    info   of images and videos
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def is_image(self) -> bool:
        """Images, depth maps among them, or video."""
        return self.dtype in ("image", "video")

    @property
    def is_depth(self) -> bool:
        """Depth maps, which are images of 16 bits."""
        return bool(self.info.get("is_depth_map"))

    @property
    def json(self) -> dict[str, Any]:
        """As in info.json."""
        entry: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape), "names": None if self.names is None else list(self.names)}
        return entry | ({"info": self.info} if self.info else {})

    @property
    def arrow(self) -> pa.DataType:
        """Type of the column in data/*.parquet; single numbers are no lists."""
        if self.dtype == "image":
            return IMAGE
        element = _TYPES[self.dtype]
        return element if self.shape == (1,) else pa.list_(element, self.shape[0])

    @property
    def hub(self) -> dict[str, Any]:
        """Type of the column as the `datasets` library writes it into a Parquet file."""
        if self.dtype == "image":
            return {"_type": "Image"}
        value = {"dtype": self.dtype, "_type": "Value"}
        return value if self.shape == (1,) else {"feature": value, "length": self.shape[0], "_type": "Sequence"}

    def column(self, values: NDArray[Any]) -> pa.Array:
        """Values (n, k) or (n,) as a column."""
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), type=_TYPES[self.dtype])
        return flat if self.shape == (1,) else pa.FixedSizeListArray.from_arrays(flat, self.shape[0])


def camera_feature(name: str, height: int, width: int, channels: int, dtype: str = "image", info: dict[str, Any] | None = None) -> Feature:
    """Images or video of a camera. Training needs `names` with `channels` last."""
    return Feature(name, dtype, (height, width, channels), ("height", "width", "channels"), info or {})


# The columns that every dataset has, after its own.
ROW_FEATURES = (
    Feature("timestamp", "float32", (1,)),
    Feature("frame_index", "int64", (1,)),
    Feature("episode_index", "int64", (1,)),
    Feature("index", "int64", (1,)),
    Feature("task_index", "int64", (1,)),
)
