"""Everything that the Python package can read of a dataset, each part by itself, in a process of its own: whatever a file holds, a part succeeds or
raises `TakesetError`. `python package_reading.py DIR...` prints one line of JSON for each: the processor time it took, the errors of the package,
and what else was raised.
"""

import json
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))
# Only what takeset.rerun reads is of interest here, and Rerun itself is a large package.
sys.modules["rerun"], sys.modules["rerun.blueprint"] = mock.MagicMock(), mock.MagicMock()

import takeset  # noqa: E402
import takeset.rerun  # noqa: E402
from takeset._manifest import Manifest  # noqa: E402
from takeset._window_options import WindowOptions  # noqa: E402
from takeset._windows import WindowReader  # noqa: E402
from takeset.lerobot import export  # noqa: E402

MEMORY = 4 << 30
VALUES = "id", "take_id", "part", "take", "split", "reader", "findings", "times_ns", "unix_ns", "clock", "origin_ns", "is_resampled"
VALUES += "seconds", "rate_hz", "gaps", "source_index", "quality", "quality_bits", "cameras", "imu", "group", "meta"
STREAM = "kind", "shape", "dtype", "unit", "encoding", "names", "parts", "has_samples", "attrs", "camera", "statistics", "dataset", "valid"
STREAM += "dt_ns", "source_index"


class Reading:
    """What was raised while a dataset was read."""

    def __init__(self):
        self.said, self.wrong = [], []

    def part(self, work, *arguments):
        try:
            return work(*arguments)
        except takeset.TakesetError as error:
            self.said.append(str(error))
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.wrong.append(f"{type(error).__name__}: {str(error)[:80]} ({Path(place.filename).name}:{place.lineno} {place.name})")
        return None

    def everything(self, path):
        ds = self.part(takeset.open, path)
        if ds is None:
            return
        with ds:
            for name in "rows", "record", "record_sha256", "findings", "takes", "splits", "statistics", "to_pandas", "_repr_html_":
                found = self.part(getattr, ds, name)
                if callable(found):
                    self.part(found)
            self.part(repr, ds)
            for statistics in (self.part(lambda: list(ds.statistics.values())) or []):
                self.part(statistics.parameters)
            for episode in ds:
                self.episode(episode)
                with tempfile.TemporaryDirectory() as folder:
                    options = dict(tolerance=0.49 / 60, min_frames=1, jobs=1)
                    self.part(lambda: export(ds, f"{folder}/out", 60, episodes=[episode.id], **options))
            self.part(lambda: [ds[episode.id] for episode in ds])
            numbers = range(len(ds))
        for number in numbers:
            for actions, keys in ("relative-6d", ("pose", "camera_depth")), ("stored", ("joints", "depth_point")), ("stored-chunk", ("camera_image",)):
                self.part(self.windows, path, number, actions, keys)

        with mock.patch.object(Manifest, "IN_MEMORY", 10):  # as a manifest of many takes is read
            with takeset.open(path) as ds:
                for work in lambda: ds.takes, lambda: ds.record, lambda: ds.findings, lambda: ds["glove"], lambda: [episode.take for episode in ds]:
                    self.part(work)

    def windows(self, path, number, actions, keys):
        options = WindowOptions(2, 2, keys, actions=actions, normalize=True, pad=actions == "stored")
        found = WindowReader(path, [f"demo_{number:06d}"], options)
        for i in (0, -1):
            self.part(lambda: found[i])

    def episode(self, episode):
        for name in VALUES:
            self.part(getattr, episode, name)
        for work in repr, str, len, episode.segments, episode.to_pandas, episode._repr_html_, takeset.rerun.log, takeset.rerun._blueprint:
            arguments = (episode, mock.MagicMock()) if work is takeset.rerun.log else (episode,) if work in (repr, str, len, takeset.rerun._blueprint) else ()
            self.part(work, *arguments)
        keys = self.part(episode._all_keys) or []
        for key in [*keys, "pose", "camera_image", "camera_depth", "next_obs/pose", "next_obs/camera_image", "nothing", "../..", ""]:
            self.part(lambda: key in episode)
            self.part(episode.intrinsics, key)
            stream = self.part(episode.__getitem__, key)
            if stream is not None:
                self.stream(stream)

    def stream(self, stream):
        for name in STREAM:
            self.part(getattr, stream, name)
        for work in repr, len, stream.mask, lambda: stream[:], lambda: stream[[-1, 0, 0]], lambda: stream[0], lambda: stream.encoded(0):
            self.part(work, *([stream] if work in (repr, len) else []))


def main(paths):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for path in paths:
        start, reading = time.process_time(), Reading()
        print(json.dumps({"path": path}), flush=True)
        reading.everything(path)
        found = {"path": path, "seconds": time.process_time() - start, "said": sorted(set(reading.said)), "wrong": sorted(set(reading.wrong))}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
