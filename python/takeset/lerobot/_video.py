"""Videos of cameras: AV1 in MP4 at a constant rate, with a key frame every two frames, so that any frame is decoded quickly."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import TakesetError
from ._parquet import MEGABYTE, VIDEO_PATH, FilePlace

KEY_FRAME_EVERY = 2
# LeRobot compares times within a file as float32 and allows 0.1 ms, and float32's step from 1024 s on is larger. Only the times of the
# first episode of a file are the same on both sides, so it may be longer.
_LONGEST_FILE_S = 1000


@dataclass(frozen=True)
class Codec:
    """An encoder of FFmpeg, with LeRobot's settings.

    name     as FFmpeg calls the format: av1 or h264
    encoder  as FFmpeg calls the encoder
    """

    name: str
    encoder: str
    quality: int
    preset: int | str
    options: tuple[tuple[str, str], ...]

    @property
    def settings(self) -> dict[str, str]:
        """Options of FFmpeg's encoder."""
        return {"g": str(KEY_FRAME_EVERY), "crf": str(self.quality), "preset": str(self.preset), **dict(self.options)}

    def info(self, height: int, width: int, fps: int) -> dict[str, Any]:
        """`info` of a video feature."""
        return {
            "video.height": height,
            "video.width": width,
            "video.codec": self.name,
            "video.pix_fmt": "yuv420p",
            "video.fps": fps,
            "video.channels": 3,
            "has_audio": False,
            "video.g": KEY_FRAME_EVERY,
            "video.crf": self.quality,
            "video.preset": self.preset,
            "video.fast_decode": 0,
            "video.video_backend": "pyav",
            "video.extra_options": {},
            "is_depth_map": False,
        }


CODECS = {
    "av1": Codec("av1", "libsvtav1", 30, 12, (("svtav1-params", "fast-decode=0"),)),
    # Without B frames the first frame is at 0, whatever the player thinks of edit lists.
    "h264": Codec("h264", "libx264", 23, "medium", (("bf", "0"),)),
}


def codec(name: str | None) -> Codec:
    """A codec by its name; by default AV1, or H.264 where PyAV has no encoder of AV1. Raises `TakesetError` where there is no encoder."""
    av = _av()
    found = [CODECS[one] for one in ([name] if name else CODECS) if CODECS[one].encoder in av.codecs_available]
    if not found:
        wanted = " or ".join(CODECS[one].encoder for one in ([name] if name else CODECS))
        raise TakesetError(f"PyAV {av.__version__} has no encoder {wanted}; install PyAV from PyPI, or store images instead of video", 65)
    return found[0]


class VideoFiles:
    """The videos of one camera. Episodes follow each other in a file; a new file begins whenever one is full.

    limit_mb  size in MiB at which the next episode goes into a new file
    """

    def __init__(self, root: str, key: str, codec: Codec, fps: int, limit_mb: float, files_per_chunk: int) -> None:
        self.codec, self.fps = codec, fps
        self._root, self._key = root, key
        self._limit, self._files_per_chunk = limit_mb * MEGABYTE, files_per_chunk
        self._place = FilePlace()
        self._output: Any = None
        self._stream: Any = None
        self._size, self._frames = 0, 0

    def add(self, frames: Iterable[NDArray[np.uint8]], title: str) -> dict[str, Any]:
        """Encodes the frames (H, W, 3) u1 of an episode. Returns where they are, as columns of the episode."""
        part = os.path.join(self._root, f".{self._key}.mp4")
        try:
            count = self._encode(frames, part, title)
            size = os.stat(part).st_size
            is_too_long = self._frames + count > _LONGEST_FILE_S * self.fps
            if self._frames and (is_too_long or self._size + size >= self._limit):
                self.close()
                self._place = self._place.after(self._files_per_chunk)
            first = self._frames / self.fps
            self._append(part)
            self._size, self._frames = self._size + size, self._frames + count
        finally:
            if os.path.exists(part):
                os.unlink(part)
        values = {"chunk_index": self._place.chunk, "file_index": self._place.file}
        times = {"from_timestamp": first, "to_timestamp": self._frames / self.fps}
        return {f"videos/{self._key}/{name}": value for name, value in (values | times).items()}

    def close(self) -> None:
        """Completes the file; the next episode begins another."""
        if self._output is not None:
            self._output.close()
        self._output, self._stream, self._size, self._frames = None, None, 0, 0

    def _encode(self, frames: Iterable[NDArray[np.uint8]], path: str, title: str) -> int:
        av, count, stream = _av(), 0, None
        try:
            with av.open(path, "w", format="mp4") as output:
                for frame in frames:
                    if stream is None:
                        stream = output.add_stream(self.codec.encoder, rate=self.fps, options=self.codec.settings)
                        stream.height, stream.width, stream.pix_fmt = frame.shape[0], frame.shape[1], "yuv420p"
                    output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
                    count += 1
                output.mux(stream.encode(None) if stream is not None else [])
        except av.error.FFmpegError as error:
            if isinstance(error, OSError):  # Such as a full disk.
                raise
            raise TakesetError(f"{title}: FFmpeg cannot encode the video with {self.codec.encoder}: {error}", 65) from error
        return count

    def _append(self, path: str) -> None:
        """Copies the packets of a video to the end of the file."""
        av = _av()
        with av.open(path) as video:
            source = video.streams.video[0]
            if self._output is None:
                relative = VIDEO_PATH.format(video_key=self._key, chunk_index=self._place.chunk, file_index=self._place.file)
                whole = os.path.join(self._root, relative)
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                self._output = av.open(whole, "w", format="mp4", options={"movflags": "faststart"})
                self._stream = self._output.add_stream_from_template(source, opaque=True)
                self._stream.time_base = source.time_base
            # A frame lasts a whole number of ticks: MP4's are multiples of the rate.
            offset = round(self._frames / (self.fps * source.time_base))
            for packet in video.demux(source):
                if packet.dts is not None:
                    packet.stream, packet.pts, packet.dts = self._stream, packet.pts + offset, packet.dts + offset
                    self._output.mux(packet)


def _av() -> Any:
    # The AV1 encoder prints its settings for every video, unless told not to before its library is loaded.
    os.environ.setdefault("SVT_LOG", "1")
    try:
        import av
    except ImportError:
        raise TakesetError("videos need PyAV: pip install 'takeset[lerobot]'", 65) from None
    return av
