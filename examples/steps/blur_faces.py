"""Blurs faces in `camera_image`.

    transforms:
      - align: {}
      - python: {file: blur_faces.py, files: [haarcascade_frontalface_default.xml], options: {hold: 10}}
      - resize-image: {width: 320, height: 240, mode: fit}

This is an aid and no guarantee. The detector finds upright faces that look at the camera. It misses faces that are turned, tilted, half
hidden, small or dark, and it takes some other things for faces. Look at the result before you give images away.

The detector's file must be beside this one. It comes with OpenCV:

    cp "$(python3 -c 'import cv2; print(cv2.data.haarcascades)')"/haarcascade_frontalface_default.xml .

The Debian package `opencv-data` has it in `/usr/share/opencv4/haarcascades`. The step needs OpenCV 4: `pip install
"opencv-python-headless<5"`. From version 5 on, `opencv-contrib-python-headless` alone has this detector, and it comes without the file.

Options:

    min-side   faces smaller than this are not looked for, in pixels (24)
    neighbors  so many detections close to each other make a face; a smaller number finds more faces, and more things that are none (3)
    grow       the rectangle of a face is enlarged by this share of its side, on each side (0.25)
    hold       the rectangle stays for so many rows more, because the detector may miss in one row what it found in the row before (5)

Of a face, the mean colors of nine rectangles remain, with gradual transitions. A blur that keeps more could be undone in part.
"""

from pathlib import Path

import cv2
from takeset import steps

cv2.setNumThreads(1)

FILE = Path(__file__).parent / "haarcascade_frontalface_default.xml"
if not hasattr(cv2, "CascadeClassifier"):
    raise ImportError(f"OpenCV {cv2.__version__} has no CascadeClassifier; install opencv-python-headless<5 in its place")
if not FILE.exists():
    raise FileNotFoundError(f"{FILE.name} is not beside {Path(__file__).name}; copy it there, and name it in `files`")


@steps.rows(reads=["camera_image"], writes=steps.Image("camera_image"))
class BlurFaces:
    def __init__(self, options, take):
        self.min_side = int(options.get("min-side", 24))
        self.neighbors = int(options.get("neighbors", 3))
        self.grow = float(options.get("grow", 0.25))
        self.hold = int(options.get("hold", 5))
        self.cascade = cv2.CascadeClassifier(str(FILE))
        self.recent = []  # (last row, left, top, right, bottom) of what is blurred

    def __call__(self, block):
        valid = block.valid["camera_image"]
        images = block.camera_image.copy()
        for row, image in enumerate(images):
            number = block.first + row
            if valid[row]:
                self.recent += [(number + self.hold, *rectangle) for rectangle in self.faces(image)]
            self.recent = [found for found in self.recent if found[0] >= number]
            for _, left, top, right, bottom in self.recent if valid[row] else []:
                face = image[top:bottom, left:right]
                means = cv2.resize(face, (3, 3), interpolation=cv2.INTER_AREA)
                face[:] = cv2.resize(means, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR)
        return images, valid

    def faces(self, image):
        """The rectangles of faces, enlarged, as left, top, right and bottom."""
        height, width = image.shape[:2]
        gray = cv2.equalizeHist(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
        for x, y, w, h in self.cascade.detectMultiScale(gray, 1.1, self.neighbors, minSize=(self.min_side, self.min_side)):
            dx, dy = round(w * self.grow), round(h * self.grow)
            yield max(x - dx, 0), max(y - dy, 0), min(x + w + dx, width), min(y + h + dy, height)
