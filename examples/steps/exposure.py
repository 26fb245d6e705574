"""Drops rows whose image is too dark or too bright.

    transforms:
      - align: {}
      - python: {file: exposure.py, options: {low: 40, high: 215}}

The measure is the mean of an image's luma, from 0 (black) to 255 (white). A row without an image stays.

Options:

    low   rows below this are dropped (40)
    high  rows above this are dropped (215)
"""

import numpy as np
from takeset import steps

LUMA = np.array([2126, 7152, 722])  # Rec. 709: parts in 10,000 of red, green and blue


@steps.keep(reads=["camera_image"], reason="badly-exposed")
def exposure(block):
    luma = (block.camera_image.mean(axis=(1, 2), dtype=np.float64) * LUMA).sum(axis=1) / 10_000
    is_good = (luma >= block.options.get("low", 40)) & (luma <= block.options.get("high", 215))
    return is_good | ~block.valid["camera_image"]
