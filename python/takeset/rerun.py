"""Show episodes in the Rerun viewer, or save them as .rrd files.

    python -m takeset.rerun dataset/                                  # the first episode, in a viewer
    python -m takeset.rerun dataset/ --episode take-1 --save take-1.rrd
    python -m takeset.rerun dataset/ --all --save recordings/         # a file for each episode

or, from Python, `takeset.rerun.log(episode)` and `takeset.rerun.save(episode, "take-1.rrd")`.

Every episode is a recording of its own, on its own times: the timeline `time` has Unix times where the take tells them, else times on its
clock; `row` and `source_frame` count rows and the source's frames. Entities:

    world/camera                    pose of the camera, with intrinsics where they are known
    world/camera/<image>, <depth>   images as stored, and depth maps in their unit
    world/trajectory                positions of all rows, a line for each segment between gaps
    poses, joints, actions/<part>   plots of every channel
    alignment/<stream>              time of the sample minus time of the row, in ms
    valid/<stream>                  1 where the row has a sample, else 0
    events                          gaps, and rows with quality bits
    findings                        what was found about the take
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arguments import EXIT_CODES, Parser, finish
from ._errors import TakesetError, UnknownKey

try:
    import rerun as rr
    import rerun.blueprint as rrb
except ImportError as error:  # pragma: no cover
    raise ImportError("takeset.rerun needs Rerun: pip install 'takeset[rerun]'") from error

if TYPE_CHECKING:
    from ._episode import Episode
    from ._stream import Stream

# Directions of the camera's axes, as Rerun abbreviates them.
_AXES = {
    "x right, y up, z back": rr.ViewCoordinates.RUB,
    "x right, y down, z forward": rr.ViewCoordinates.RDF,
    "x forward, y left, z up": rr.ViewCoordinates.FLU,
}
# Rerun waits without end for a file that it could not write.
_FLUSH_S = 20.0
_LEAST_FREE = 1 << 20  # bytes; Rerun hangs where the disk is full before the first message
_SAVE = "write files with --save (takeset.rerun.save), and open them where there is a display"
_UNITS_PER_METER = {"m": 1.0, "mm": 1000.0}


def save(episode: Episode, path: str | Path, every: int = 1, replace: bool = False) -> None:
    """Write an episode as an .rrd file, which `rerun FILE` opens. The file appears once it is complete.

    every    show every n-th image and depth map; numbers are all logged
    replace  replace an earlier file, which raises FileExistsError otherwise
    """
    path = Path(path)
    if path.exists() and not replace:
        raise FileExistsError(f"{path} already exists")
    partial = path.with_name(f".{path.name}.partial")
    made = [folder for folder in path.parents if not folder.exists()]
    is_complete = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(path.parent).free < _LEAST_FREE:
            raise OSError(f"Rerun cannot write {path}: the disk is full")
        recording = _recording(episode)
        try:
            recording.save(partial, default_blueprint=_blueprint(episode))
            log(episode, recording, every)
            recording.flush(timeout_sec=_FLUSH_S)
            recording.disconnect()
        except (RuntimeError, ValueError) as error:  # of Rerun
            raise OSError(f"Rerun cannot write {path}; is the disk full or read-only? {error}") from error
        partial.replace(path)
        is_complete = True
    finally:
        if not is_complete:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
                for folder in made:
                    folder.rmdir()


def show(episode: Episode, connect: str | None = None, every: int = 1) -> None:
    """Show an episode in a viewer: a new one, or with `connect` the one at this URL, such as rerun+http://127.0.0.1:9876/proxy."""
    if connect is None and sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise TakesetError(f"there is no display for a viewer; {_SAVE}", 1)
    recording = _recording(episode)
    if connect is None:
        recording.spawn(default_blueprint=_blueprint(episode))
    else:
        recording.connect_grpc(connect, default_blueprint=_blueprint(episode))
    log(episode, recording, every)
    recording.flush()


def log(episode: Episode, recording: Any = None, every: int = 1) -> None:
    """Log an episode to a Rerun recording; without one, to the current one.

    every  log every n-th image and depth map; numbers are all logged
    """
    if every < 1:
        raise ValueError("every must be at least 1")
    recording = rr.get_global_data_recording() if recording is None else recording
    if recording is None:
        raise RuntimeError("there is no current recording: call rr.init first, or give one")
    _log_world(episode, recording)
    _log_numbers(episode, recording)
    _log_frames(episode, recording, every)
    _log_events(episode, recording)


def _recording(episode: Episode) -> Any:
    recording = rr.RecordingStream("takeset", recording_id=episode.id)
    recording.send_recording_name(episode.id)
    # The times of the episode, and not those of logging it, so that the same episode gives the same data.
    recording.set_log_time_enabled(False)
    recording.set_log_tick_enabled(False)
    return recording


# Time


def _columns(episode: Episode, keep: Any = slice(None)) -> list[Any]:
    """The timelines of all rows, or of some."""
    unix = episode.unix_ns
    if unix is None:
        time = rr.TimeColumn("time", duration=(episode.times_ns + episode.origin_ns)[keep].astype("timedelta64[ns]"))
    else:
        time = rr.TimeColumn("time", timestamp=unix[keep].astype("datetime64[ns]"))
    rows = np.arange(len(episode))[keep]
    return [time, rr.TimeColumn("row", sequence=rows), rr.TimeColumn("source_frame", sequence=episode.source_index[keep])]


def _set_time(episode: Episode, recording: Any, row: int) -> None:
    unix = episode.unix_ns
    if unix is None:
        recording.set_time("time", duration=np.timedelta64(int(episode.times_ns[row]) + episode.origin_ns, "ns"))
    else:
        recording.set_time("time", timestamp=np.datetime64(int(unix[row]), "ns"))
    recording.set_time("row", sequence=row)
    recording.set_time("source_frame", sequence=int(episode.source_index[row]))


# The scene


def _log_world(episode: Episode, recording: Any) -> None:
    if "pose" not in episode:
        return
    pose = episode["pose"]
    poses, attrs = pose[:].astype(np.float64), pose.attrs
    if str(attrs.get("world_axes", "")).startswith("y up"):
        recording.log("world", rr.ViewCoordinates.RIGHT_HAND_Y_UP, static=True)
    elif str(attrs.get("world_axes", "")).startswith("z up"):
        recording.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    known = np.isfinite(poses).all(axis=1)
    recording.send_columns(
        "world/camera",
        indexes=_columns(episode, known),
        columns=rr.Transform3D.columns(translation=poses[known, :3], quaternion=poses[known, 3:]),
    )
    lines = [poses[first:end, :3][known[first:end]] for first, end in episode.segments()]
    recording.log("world/trajectory", rr.LineStrips3D([line for line in lines if len(line) > 1]), static=True)


def _log_frames(episode: Episode, recording: Any, every: int) -> None:
    frames = [episode[key] for key in episode.keys() if episode[key].kind in ("image", "depth")]
    for stream in frames:
        _log_camera(episode, recording, stream)
    valid = {stream.name: stream.valid for stream in frames}
    # Row by row, so that one image at a time is in memory.
    for row in range(0, len(episode), every):
        _set_time(episode, recording, row)
        for stream in frames:
            if valid[stream.name][row]:
                recording.log(f"world/camera/{stream.name}", _frame(stream, row))
            else:
                recording.log(f"world/camera/{stream.name}", rr.Clear(recursive=False))


def _frame(stream: Stream, row: int) -> Any:
    if stream.kind == "depth":
        return rr.DepthImage(stream[row][..., 0], meter=_UNITS_PER_METER.get(stream.unit, 1.0))
    file = stream.encoded(row)
    return rr.Image(stream[row]) if file is None else rr.EncodedImage(contents=file, media_type=f"image/{stream.encoding}")


def _log_camera(episode: Episode, recording: Any, stream: Stream) -> None:
    """The pinhole camera of a stream; varying with the row where autofocus changes it."""
    intrinsics = episode.intrinsics(stream.name)
    if intrinsics is None:
        return
    known = np.isfinite(intrinsics).all(axis=1)
    if not known.any():
        return
    (height, width), path = stream.shape[1:3], f"world/camera/{stream.name}"
    axes = _AXES.get(str(episode["pose"].attrs.get("camera_axes")) if "pose" in episode else "", rr.ViewCoordinates.RDF)
    matrices = np.zeros((int(known.sum()), 3, 3))
    fx, fy, cx, cy = intrinsics[known].T
    matrices[:, 0, 0], matrices[:, 1, 1], matrices[:, 0, 2], matrices[:, 1, 2], matrices[:, 2, 2] = fx, fy, cx, cy, 1
    if len(np.unique(matrices, axis=0)) == 1:
        recording.log(path, rr.Pinhole(image_from_camera=matrices[0], resolution=[width, height], camera_xyz=axes), static=True)
        return
    # Without a static one, which would hide those of the rows.
    count = len(matrices)
    recording.send_columns(
        path,
        indexes=_columns(episode, known),
        columns=rr.Pinhole.columns(
            image_from_camera=list(matrices), resolution=np.tile([width, height], (count, 1)), camera_xyz=[axes] * count
        ),
    )


# Plots


def _log_numbers(episode: Episode, recording: Any) -> None:
    columns = _columns(episode)
    for key in episode.keys():
        stream = episode[key]
        if stream.kind in ("pose", "angles", "vector"):
            _plot(recording, columns, "poses" if key == "pose" else key, stream[:], stream.names)
        late = np.where(stream.source_index < 0, np.nan, stream.dt_ns / 1e6)
        recording.send_columns(f"alignment/{key}", indexes=columns, columns=rr.Scalars.columns(scalars=late))
        recording.send_columns(f"valid/{key}", indexes=columns, columns=rr.Scalars.columns(scalars=stream.valid.astype(np.float64)))
    parts = episode._keys("action_dict")
    for part in parts:
        stream = episode[f"action_dict/{part}"]
        _plot(recording, columns, f"actions/{part}", _masked(stream), stream.names)
    if not parts and "actions" in episode:
        stream = episode["actions"]
        _plot(recording, columns, "actions/all", _masked(stream), stream.names)


def _masked(stream: Stream) -> Any:
    """Its values with NaN, of which nothing is drawn, in masked rows."""
    values = stream[:].astype(np.float64)
    values[~stream.valid] = np.nan
    return values


def _plot(recording: Any, columns: list[Any], path: str, values: Any, names: list[str]) -> None:
    values = values.reshape(len(values), -1).astype(np.float64)
    recording.log(path, rr.SeriesLines(names=names), static=True)
    if len(values):
        recording.send_columns(
            path, indexes=columns, columns=rr.Scalars.columns(scalars=values.reshape(-1)).partition([values.shape[1]] * len(values))
        )


# Words


def _log_events(episode: Episode, recording: Any) -> None:
    for row, step in episode.gaps:
        _set_time(episode, recording, int(row))
        recording.log("events", rr.TextLog(f"gap of {step / 1e6:.1f} ms after row {row}", level=rr.TextLogLevel.WARN))
    bits, names = episode.quality, episode.quality_bits
    for row in np.flatnonzero(bits):
        _set_time(episode, recording, int(row))
        words = ", ".join(name for bit, name in enumerate(names) if bits[row] >> bit & 1)
        recording.log("events", rr.TextLog(f"row {row}: {words}", level=rr.TextLogLevel.INFO))
    lines = [f"- **{finding.code}** ({finding.severity}): {finding.message}" for finding in episode.findings] or ["Nothing was found."]
    heading = f"# {episode.id}\n\n{episode.reader}, {len(episode)} rows, {episode.seconds:.2f} s, split: {episode.split or 'none'}\n\n"
    recording.log("findings", rr.TextDocument(heading + "\n".join(lines), media_type="text/markdown"), static=True)


def _blueprint(episode: Episode) -> Any:
    keys = episode.keys()
    frames = [
        rrb.Spatial2DView(origin=f"world/camera/{key}", name=key) for key in keys if episode[key].kind in ("image", "depth")
    ]
    plots = [
        rrb.TimeSeriesView(origin=key, name=key) for key in ("joints", "actions", "poses", "alignment", "valid")
        if key in ("alignment", "valid") or key in keys or (key == "poses" and "pose" in keys) or (key == "actions" and "actions" in episode)
    ]
    scene = [rrb.Spatial3DView(origin="world", name="scene")] if "pose" in keys else []
    words = rrb.Tabs(rrb.TextDocumentView(origin="findings", name="findings"), rrb.TextLogView(origin="events", name="events"))
    return rrb.Blueprint(rrb.Horizontal(rrb.Vertical(*scene, words), rrb.Vertical(*frames, rrb.Tabs(*plots))), collapse_panels=True)


# The command


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    from . import open as open_dataset

    parser = Parser(prog="python -m takeset.rerun", description="Show episodes in the Rerun viewer, or save them as .rrd files.", epilog=EXIT_CODES)
    parser.add_argument("dataset", help="a dataset directory, its dataset.h5, a shard or a packed file")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--episode", action="append", metavar="ID", help="an episode, by id; several may be given (default: the first)")
    which.add_argument("--all", action="store_true", help="all episodes")
    parser.add_argument("--save", metavar="PATH", help="write FILE.rrd, or with several episodes a directory of them, instead of showing them")
    parser.add_argument("--connect", metavar="URL", help="show them in the viewer at this URL instead of a new one")
    parser.add_argument("--replace", action="store_true", help="replace earlier files")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every n-th image and depth map (default: 1, all)")
    given = parser.parse_args(arguments)
    if given.every < 1:
        parser.error("--every: expected 1 or more")
    if given.save is not None and given.connect is not None:
        parser.error("--save and --connect exclude each other")

    def work() -> None:
        with open_dataset(given.dataset) as dataset:
            if not len(dataset):
                raise TakesetError(f"{given.dataset} has no episode", 65)
            try:
                episodes = list(dataset) if given.all else [dataset[id] for id in given.episode or [dataset[0].id]]
            except UnknownKey as error:
                raise TakesetError(str(error), 64) from error
            _put(episodes, given)

    return finish("takeset.rerun", work)


def _put(episodes: list[Episode], given: argparse.Namespace) -> None:
    if given.save is None:
        for episode in episodes:
            try:
                show(episode, given.connect, given.every)
            except (RuntimeError, ValueError) as error:  # of Rerun: a viewer that does not start or cannot be reached
                raise TakesetError(f"the viewer cannot show them: {str(error).strip().splitlines()[0]}; {_SAVE}", 1) from error
        return
    target = Path(given.save)
    is_file = len(episodes) == 1 and target.suffix == ".rrd"
    for episode in episodes:
        path = target if is_file else target / f"{episode.id}.rrd"
        if path.exists() and not given.replace:
            raise TakesetError(f"{path} already exists; --replace replaces it", 73)
        save(episode, path, given.every, given.replace)
        print(path)


if __name__ == "__main__":
    sys.exit(main())
