"""Images and depth maps as the files that LeRobot stores in Parquet."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import TakesetError
from .._stream import Stream

File = tuple[bytes, str]
_ORIENTATION = 0x0112
FARTHEST_MM = 65535


class ImageFiles:
    """The images of a stream as files. JPEG and PNG files of the dataset keep their bytes.

    encode   how images that are stored as pixels are encoded: png or jpeg
    quality  of these JPEG files

    A stored file that LeRobot would show differently (turned by an EXIF orientation, gray) becomes a PNG of its pixels. `changed` counts
    them.
    """

    def __init__(self, encode: str, quality: int) -> None:
        self.changed = 0
        self._encode, self._quality = encode, quality

    def stored(self, stream: Stream, row: int) -> File:
        """The file of a row of a stream that is stored as files, and its suffix."""
        file = stream.encoded(row)
        if file is None:
            raise TakesetError(f"{stream!r}, row {row}: the image is not there, although its mask says so", 65)
        if _is_shown_as_stored(file, stream, row):
            return file, "jpg" if stream.encoding == "jpeg" else "png"
        self.changed += 1
        return _png(stream[row]), "png"

    def encoded(self, pixels: NDArray[np.uint8]) -> File:
        """A file of pixels (H, W, 3)."""
        return (_jpeg(pixels, self._quality), "jpg") if self._encode == "jpeg" else (_png(pixels), "png")

    def depth(self, values: NDArray[np.uint16]) -> File:
        """A file of a depth map (H, W, 1): PNG of 16 bits."""
        return _png(values), "png"


def millimeters(depth: NDArray[Any], unit: str) -> tuple[NDArray[np.uint16], int]:
    """Depth in whole millimeters, rounded half up; 0 stays 0. Also the number of values that are too far for it and become 0."""
    if depth.dtype == np.uint16 and unit == "mm":
        return depth, 0
    scaled = np.nan_to_num(depth.astype(np.float64)) * (1 if unit == "mm" else 1000)
    rounded = np.floor(scaled + 0.5)
    is_far = rounded > FARTHEST_MM
    return np.where(is_far | (rounded < 0), 0, rounded).astype(np.uint16), int(np.count_nonzero(is_far))


def _png(pixels: NDArray[Any]) -> bytes:
    """A PNG file of pixels (H, W, 3) u1 or (H, W, 1) u2."""
    return _saved(pixels, "PNG", compress_level=1)


def _jpeg(pixels: NDArray[np.uint8], quality: int) -> bytes:
    """A JPEG file of pixels (H, W, 3); colors have full resolution above quality 90, as in `takeset run`."""
    return _saved(pixels, "JPEG", quality=quality, subsampling="4:4:4" if quality > 90 else "4:2:0")


def _saved(pixels: NDArray[Any], form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    _pillow().fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)).save(buffer, form, **options)
    return buffer.getvalue()


def _is_shown_as_stored(file: bytes, stream: Stream, row: int) -> bool:
    try:
        with _pillow().open(io.BytesIO(file)) as image:
            size, mode = image.size, image.mode
            orientation = image.getexif().get(_ORIENTATION, 1) if image.format == "JPEG" else 1
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError, struct.error and more.
        raise TakesetError(f"{stream!r}, row {row}: the image cannot be read: {error}", 65) from error
    height, width = stream.shape[1:3]
    if size != (width, height):
        raise TakesetError(f"{stream!r}, row {row}: the image is {size[0]}x{size[1]}, and its dataset says {width}x{height}", 65)
    return mode == "RGB" and orientation == 1


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise TakesetError("LeRobot's images need Pillow: pip install 'takeset[lerobot]'", 65) from None
    return Image
