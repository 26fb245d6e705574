"""Images that are stored as JPEG or PNG files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError


def decode(file: bytes, height: int, width: int) -> NDArray[np.uint8]:
    """The pixels of a JPEG or PNG file: (height, width, 3) u1, RGB.

    Raises `TakesetError` if Pillow is not installed, or if the file cannot be decoded or has another size.
    """
    image_module = _pillow()
    try:
        with image_module.open(io.BytesIO(file), formats=("JPEG", "PNG")) as image:
            if image.size != (width, height):  # before memory is taken for it
                raise TakesetError(f"the image is {image.size[0]}x{image.size[1]}, and its dataset says {width}x{height}")
            pixels = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except TakesetError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError, struct.error and more.
        raise TakesetError(f"the image cannot be decoded: {error}") from error
    return pixels


def can_decode() -> bool:
    """Whether Pillow is installed."""
    try:
        _pillow()
    except TakesetError:
        return False
    return True


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise TakesetError("the images are stored as JPEG or PNG files, which Pillow decodes: pip install 'takeset[images]'") from None
    return Image
