"""Optical flow between consecutive images, as an image of 80x60 pixels.

    transforms:
      - align: {}
      - python: {file: optical_flow.py, options: {full-speed: 4}}

In `optical_flow`, the hue of a pixel says in which direction that part of the image has moved since the row before: red to the right,
yellow-green down, cyan to the left, violet up. The brightness says how fast. The first row of a take is black and has no sample; so is a
row that has no image, and one that follows a row without an image.

Options:

    full-speed  the speed at which a color is brightest, in pixels of the 80x60 image per row (4)

Images of another shape than 4:3 are stretched to it, and the directions with them. The step needs OpenCV: `pip install
opencv-python-headless`.
"""

import cv2
import numpy as np
from takeset import steps

cv2.setNumThreads(1)

SIZE = (80, 60)
SEARCHED = (160, 120)  # the flow is found in images of this size


@steps.rows(reads=["camera_image"], writes=steps.Image("optical_flow", size=SIZE))
class OpticalFlow:
    def __init__(self, options, take):
        self.full_speed = float(options.get("full-speed", 4))
        self.search = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        self.before = None  # the row before, which may be in the block before

    def __call__(self, block):
        colors = np.zeros((len(block), SIZE[1], SIZE[0], 3), np.uint8)
        valid = np.zeros(len(block), np.bool_)
        for row, image in enumerate(block.camera_image):
            now = None
            if block.valid["camera_image"][row]:
                now = cv2.resize(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), SEARCHED, interpolation=cv2.INTER_AREA)
            if now is not None and self.before is not None:
                colors[row] = self.color(self.search.calc(self.before, now, None))
                valid[row] = True
            self.before = now
        return colors, valid

    def color(self, flow):
        flow = cv2.resize(flow, SIZE, interpolation=cv2.INTER_AREA) * (SIZE[0] / SEARCHED[0])
        speed, angle = cv2.cartToPolar(flow[..., 0], flow[..., 1], angleInDegrees=True)
        value = np.minimum(speed / self.full_speed, 1)
        return np.rint(cv2.cvtColor(np.dstack([angle, np.ones_like(angle), value]), cv2.COLOR_HSV2RGB) * 255).astype(np.uint8)
