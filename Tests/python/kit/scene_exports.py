"""Takes with cameras and depth, converted by many pipelines and exported as scenes: what the tests of nerfstudio, colmap and ply share."""

import json

from geometry_oracle import Runs
from scene_oracle import export

BODY = [0.02, -0.15, 0.08, 0.1, -0.2, 0.3, 0.9273618495495703]
PIPELINES = {
    "default": None, "plain": [], "opencv": [{"pose-frame": {"axes": "opencv"}}], "ros": [{"pose-frame": {"axes": "ros"}}],
    "body": [{"pose-frame": {"body": BODY}}], "z up": [{"pose-frame": {"up": "z"}}],
    "from the first frame": [{"pose-frame": {"origin": "first-frame"}}], "rotated": [{"rotate": {"degrees": 90}}],
    "cropped": [{"crop": {"box": [31, 17, 150, 131]}}], "fewer": [{"decimate": {"every": 3}}], "resampled": [{"resample": {"rate": 25}}],
    "finer depth": [{"resample-depth": {"to": "image", "method": "edge-aware"}}],
}
TAKES = ["scan", "session"]


def simulate_takes(takeset, root):
    """A scan with intrinsics, confidence and depth of each row, and a session with one set of intrinsics and fewer depth maps."""
    small = "--seconds", 0.5, "--size", "240x180", "--depth-size", "64x48"
    takeset("simulate", "stray-scanner", "--output", root / "scan", *small, "--seed", 6, check=0)
    session = takeset.simulate(root / "session", *small, "--seed", 4)
    metadata = json.loads((session / "metadata.json").read_text())
    (session / "metadata.json").write_text(json.dumps(metadata | {"cameraIntrinsics": {"fx": 180, "fy": 180, "cx": 120, "cy": 90}}))


class SceneExports:
    """The dataset of a pipeline and its export in one format, each made once for all tests of a file."""

    def __init__(self, takeset, form, root):
        self.takeset, self.form, self.root, self.done = takeset, form, root, {}
        self.runs = Runs(takeset, root / "runs", {})
        simulate_takes(takeset, self.runs.inputs)

    def dataset(self, pipeline):
        steps = PIPELINES[pipeline]
        return self.runs.output(default=True) if steps is None else self.runs.output(*steps)

    def __call__(self, pipeline, *options):
        key = pipeline, options
        if key not in self.done:
            dataset, output = self.dataset(pipeline), self.root / f"out{len(self.done)}"
            export(self.takeset, dataset, self.form, output, *options)
            self.done[key] = dataset, output
        return self.done[key]
