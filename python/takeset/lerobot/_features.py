"""Features: what LeRobot calls the columns of a dataset, with their types, shapes and names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
# A text of the episode, and when it begins in it. Both forms of JSON are read; older versions of pyarrow have only texts.
_JSON = pa.json_() if hasattr(pa, "json_") else pa.string()
LANGUAGE = pa.list_(
    pa.struct(
        [
            pa.field("role", pa.string(), nullable=False),
            pa.field("content", pa.string()),
            pa.field("style", pa.string()),
            pa.field("timestamp", pa.float32(), nullable=False),
            pa.field("camera", pa.string()),
            pa.field("tool_calls", pa.list_(_JSON)),
        ]
    )
)
_HUB_LANGUAGE = {
    **{name: {"dtype": "string", "_type": "Value"} for name in ("role", "content", "style", "camera")},
    "timestamp": {"dtype": "float32", "_type": "Value"},
    "tool_calls": {"feature": {"_type": "Json"} if hasattr(pa, "json_") else {"dtype": "string", "_type": "Value"}, "_type": "List"},
}
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
    def is_language(self) -> bool:
        """Texts of parts of an episode, which have no statistics."""
        return self.dtype == "language"

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
        if self.is_language:
            return LANGUAGE
        element = _TYPES[self.dtype]
        return element if self.shape == (1,) else pa.list_(element, self.shape[0])

    @property
    def hub(self) -> dict[str, Any]:
        """Type of the column as the `datasets` library writes it into a Parquet file."""
        if self.dtype == "image":
            return {"_type": "Image"}
        if self.is_language:
            return {"feature": _HUB_LANGUAGE, "_type": "List"}
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

# The segments of an episode, all of them in each of its rows. Only datasets with segments have it.
SUBTASKS = Feature("language_persistent", "language", (1,))
