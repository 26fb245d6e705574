"""Labels a take as a success if an object of a given color is in a target box at its end.

    transforms:
      - align: {}
      - python: {file: success.py, options: {hue: [90, 150], box: [0.6, 0.5, 0.9, 0.9], share: 0.2}}

The label is `success`, true or false, from the last image of the take. A take without any image gets none.

Options:

    hue         [from, to] in degrees: red is 0, green 120, blue 240. [340, 20] is a range of reds ([90, 150])
    saturation  gray and pale pixels below this do not count, from 0 to 1 (0.4)
    value       dark pixels below this do not count, from 0 to 1 (0.2)
    box         [left, top, right, bottom] as shares of the width and height of the image (all of it)
    share       this share of the box's pixels must have the color (0.1)

The step needs OpenCV: `pip install opencv-python-headless`.
"""

import cv2
import numpy as np
from takeset import steps

cv2.setNumThreads(1)


@steps.labels(reads=["camera_image"])
class Success:
    def __init__(self, options, take):
        self.hues = options.get("hue", [90, 150])
        self.saturation = options.get("saturation", 0.4)
        self.value = options.get("value", 0.2)
        self.box = options.get("box", [0, 0, 1, 1])
        self.share = options.get("share", 0.1)
        left, top, right, bottom = self.box
        if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
            raise ValueError(f"box is {self.box}, which is no [left, top, right, bottom] from 0 to 1")

    def __call__(self, block):
        """Called for each block. Of the answers, that of the last block counts."""
        rows = np.flatnonzero(block.valid["camera_image"])
        if len(rows) == 0:
            return {}
        return {"success": bool(self.colored(block.camera_image[rows[-1]]).mean() >= self.share)}

    def colored(self, image):
        """Which pixels of the box have the color."""
        height, width = image.shape[:2]
        left, top, right, bottom = np.rint(np.array(self.box) * [width, height, width, height]).astype(int)
        hue, saturation, value = cv2.split(cv2.cvtColor(image[top:bottom, left:right].astype(np.float32) / 255, cv2.COLOR_RGB2HSV))
        first, last = self.hues
        is_hue = (hue >= first) & (hue <= last) if first <= last else (hue >= first) | (hue <= last)
        return is_hue & (saturation >= self.saturation) & (value >= self.value)
