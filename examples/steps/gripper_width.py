"""The opening of a gripper, from two ArUco tags on its fingers.

    transforms:
      - align: {}
      - python: {file: gripper_width.py, options: {tag-size: 0.016, camera: [935.2, 935.2, 640, 360]}}
      - resize-image: {width: 320, height: 240, mode: fit}

The stream `gripper` is the distance between the centers of the two tags, in meters. A row in which not both tags are found has no value.

Options:

    tag-size    side of the black square of a tag, in meters (0.016)
    ids         numbers of the two tags ([0, 1])
    dictionary  OpenCV's name of the tags (DICT_4X4_50)
    camera      [fx, fy, cx, cy] of the images as the step gets them, in pixels. With it, the step finds where each tag is in space.
                Without it, the sides of the tags give the scale, which is right only if both face the camera at the same distance

Put the step before `resize-image`: a tag should be 30 pixels wide or more, for an error below 1 mm. It needs a white margin. For the
images of another camera, change the name of the stream at `CAMERA`. The step needs OpenCV 4.7 or later: `pip install
opencv-python-headless`.
"""

import cv2
import numpy as np
from takeset import steps

cv2.setNumThreads(1)

CAMERA = "camera_image"


@steps.rows(reads=[CAMERA], writes=steps.Vector("gripper", ["width"], unit="m"))
class GripperWidth:
    def __init__(self, options, take):
        self.size = float(options.get("tag-size", 0.016))
        self.ids = [int(number) for number in options.get("ids", [0, 1])]
        self.camera = options.get("camera")
        dictionary = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, options.get("dictionary", "DICT_4X4_50")))
        self.detector = cv2.aruco.ArucoDetector(dictionary)

    def __call__(self, block):
        width = np.full((len(block), 1), np.nan, np.float32)
        for row in np.flatnonzero(block.valid[CAMERA]):
            tags = self.tags(getattr(block, CAMERA)[row])
            if tags is not None:
                width[row] = self.distance(*tags)
        return width, ~np.isnan(width[:, 0])

    def tags(self, image):
        """The corners of the two tags, (4, 2) each, from the upper left clockwise; None where one is missing or is seen twice."""
        gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        corners, ids, _ = self.detector.detectMarkers(gray)
        found = [] if ids is None else ids.ravel().tolist()
        if any(found.count(number) != 1 for number in self.ids):
            return None
        tags = [corners[found.index(number)][0].astype(np.float64) for number in self.ids]
        return [refined(gray, refined(gray, tag)) for tag in tags]

    def distance(self, one, other):
        if self.camera:
            return np.linalg.norm(self.position(one) - self.position(other))
        pixels = np.mean([np.linalg.norm(tag - np.roll(tag, 1, axis=0), axis=1) for tag in (one, other)])
        return np.linalg.norm(one.mean(axis=0) - other.mean(axis=0)) * self.size / pixels

    def position(self, tag):
        """The center of a tag in the camera's frame, in meters."""
        fx, fy, cx, cy = self.camera
        corners = np.array([[-1, 1, 0], [1, 1, 0], [1, -1, 0], [-1, -1, 0]]) * (self.size / 2)
        _, _, center = cv2.solvePnP(corners, tag, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]]), None, flags=cv2.SOLVEPNP_IPPE_SQUARE)
        return center[:, 0]


def refined(gray, tag):
    """The corners where lines through the edges meet. OpenCV's own refinement makes small tags smaller, by up to half a pixel."""
    cell = np.linalg.norm(tag - np.roll(tag, 1, axis=0), axis=1).mean() / 6
    along, across = np.linspace(0.15, 0.85, 24), np.linspace(-0.5, 0.5, 17) * cell
    lines = []
    for start, end in zip(tag, np.roll(tag, -1, axis=0)):
        outwards = np.array([end[1] - start[1], start[0] - end[0]]) / np.linalg.norm(end - start)
        points = (start + along[:, None] * (end - start))[:, None] + across[:, None] * outwards
        light = cv2.remap(gray, points.astype(np.float32), None, cv2.INTER_LINEAR).astype(np.float64)
        steepness = np.maximum(np.diff(light, axis=1), 0)  # the edge is where black becomes white
        edge = (steepness * (across[1:] + across[:-1]) / 2).sum(axis=1) / np.maximum(steepness.sum(axis=1), 1e-9)
        slope, offset = np.polyfit(along, edge, 1)
        lines.append(np.cross([*start + offset * outwards, 1], [*end + (offset + slope) * outwards, 1]))
    corners = np.cross(np.roll(lines, 1, axis=0), lines)
    return corners[:, :2] / corners[:, 2:]
