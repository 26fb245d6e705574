"""Batches of takes of every kind, of which one in twenty is bad; and how far a run over one is."""

import functools
import json
import struct

import archives
import scans
import small_sessions
from bundles import SMALL, bundle
from small_sessions import put
from videos import box, changed as changed_boxes, flipped, made, patched, samples, unfinished, video_file

SIZE = (48, 36)
VIDEO = {"count": 5, "size": SIZE}


# Good takes: a function of a number each. The numbers make contents differ.


def numbered(video, number):
    """The same video with a box of its own."""
    return video + box("free", b"%d" % number)


def a_session(number, variant="v2"):
    return small_sessions.session(variant, count=3, seed=number, size=SIZE)


def a_bundle(number, codec="h264"):
    return bundle(5, video=numbered(video_file(**VIDEO, codec=codec), number), **SMALL)


def a_scan(number, times="time"):
    return scans.session(count=4, times=times, start=scans.START + number * 10**6, size=SIZE, depth_size=(8, 6)).files()


def folder(files):
    return lambda path, number: put(path, files(number))


def file(suffix, data):
    return lambda path, number: path.with_name(path.name + suffix).write_bytes(data(number))


GOOD = {
    "session-v1": folder(lambda n: a_session(n, "v1")),
    "session-v2": folder(a_session),
    "session-v3": folder(lambda n: a_session(n, "v3-scaled")),
    "session-slam": folder(lambda n: a_session(n, "v3-slam")),
    "session-zip": file(".zip", lambda n: archives.zip_of(a_session(n, "v1"))),
    "session-streamed": file(".zip", lambda n: archives.zip_of(a_session(n), streamed="signed")),
    "session-tar": file(".tar", lambda n: archives.tar_of(a_session(n))),
    "movie": file(".mov", lambda n: numbered(video_file(**VIDEO), n)),
    "movie-hevc": file(".mp4", lambda n: numbered(video_file(**VIDEO, codec="hevc", container="mp4"), n)),
    "bundle": lambda path, n: a_bundle(n).write(path),
    "bundle-upload": file(".multipart", lambda n: a_bundle(n).body()),
    "bundle-zip": file(".zip", lambda n: archives.zip_of(bundle_files(n), root="kitchen")),
    "scan": folder(a_scan),
    "scan-images": folder(lambda n: a_scan(n, None)),
    "scan-tar": file(".tar", lambda n: archives.tar_of(a_scan(n), root="scan")),
}


def bundle_files(number):
    names = {"video": "video.mov", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"}
    return {names[part]: data for part, data in a_bundle(number).parts().items()}


# Bad takes, each with the code of its failure


def without(files, *names):
    return {name: data for name, data in files.items() if name not in names}


def bad_bundle(number, **parts):
    found = a_bundle(number)
    for name, data in parts.items():
        setattr(found, name, data)
    return found


def lying_index(number):
    """A video whose index claims 2^31 samples."""
    return patched(numbered(video_file(**VIDEO), number), "moov/trak/mdia/minf/stbl/stsz", 8, struct.pack(">I", 2**31))


def elsewhere(number):
    """A video whose samples are in another file."""
    table = struct.pack(">II", 0, 1) + box("url ", struct.pack(">I", 0) + b"file:///etc/passwd\0")
    return changed_boxes(numbered(video_file(**VIDEO), number), "moov/trak/mdia/minf/dinf/dref", lambda _: table)


def cut_movie(number):
    """A video with its index first that ends within its third sample."""
    data = video_file(**VIDEO, extra=("-movflags", "+faststart"))
    offset, size = samples(data)[2]
    return data[: offset + size // 2 + number % 3]


@functools.cache
def sound():
    return made(".mp4", "-f", "lavfi", "-i", "sine=duration=0.2", "-c:a", "aac")


def other_size(number):
    return a_session(number) | {"rgb/000001.jpg": small_sessions.numbered_image(1, 96, 48)}


def cut_json(number):
    files = a_session(number)
    return files | {"poses.json": files["poses.json"][: 100 + number % 50]}


BAD = {
    "cut-json": ("json-invalid", folder(cut_json)),
    "json-type": ("json-type", folder(lambda n: a_session(n) | {"poses.json": b'{"%d": 1}' % n})),
    "no-poses": ("poses-missing", folder(lambda n: without(a_session(n), "poses.json"))),
    "sizes": ("image-size-changed", folder(other_size)),
    "few-images": ("too-few-images", folder(lambda n: without(a_session(n), "rgb/000001.jpg", "rgb/000002.jpg"))),
    "cut-movie": ("movie-truncated", file(".mov", cut_movie)),
    "no-index": ("movie-unfinished", file(".mov", lambda n: unfinished(0.5) + bytes(n % 7))),
    "corrupt": ("movie-corrupt", file(".mov", lambda n: numbered(flipped(video_file(), [20]), n))),
    "lying-index": ("limit", file(".mov", lying_index)),
    "elsewhere": ("movie-external-data", file(".mov", elsewhere)),
    "playlist": ("not-a-movie", file(".mp4", lambda n: b"#EXTM3U\n#EXTINF:10,\n%d.ts\n" % n)),
    "sound": ("no-video", file(".mp4", lambda n: numbered(sound(), n))),
    "empty": ("file-empty", file(".mov", lambda n: b"")),
    "escaping-zip": ("archive-hostile", file(".zip", lambda n: archives.zip_of(a_session(n) | {"../../evil": b"x"}))),
    "cut-zip": ("archive-unreadable", file(".zip", lambda n: archives.zip_of(a_session(n))[: -400 - n % 9])),
    "bomb-zip": ("limit", file(".zip", lambda n: archives.zipped(archives.members(a_session(n)) + [archives.bomb("session_X/imu.json", 600)]))),
    "cut-tar": ("archive-unreadable", file(".tar", lambda n: archives.tar_of(a_session(n))[: 3000 + n % 99])),
    "no-video": ("part-missing", lambda path, n: bad_bundle(n, video=None).write(path)),
    "depth-cut": ("depth-undecodable", lambda path, n: bad_bundle(n, depth_data=a_bundle(n).depth_data[:-9]).write(path)),
    "depth-bomb": ("limit", lambda path, n: bad_bundle(n, depth_data=depth_bomb()).write(path)),
    "cut-upload": ("body-damaged", file(".multipart", lambda n: a_bundle(n).body()[: -1500 - n])),
    "no-field": ("metadata-invalid", lambda path, n: bad_bundle(n, metadata=without(a_bundle(n).metadata, "started_at")).write(path)),
    "ragged": ("csv-invalid", folder(lambda n: a_scan(n) | {"odometry.csv": a_scan(n)["odometry.csv"].replace(b", 0.", b", zero ", 2)})),
    "cut-scan": ("movie-truncated", folder(lambda n: a_scan(n) | {"rgb.mp4": cut_movie(n)})),
    "gray": ("image-undecodable", folder(lambda n: a_session(n) | {f"rgb/00000{k}.jpg": a_session(n)["rgb/000000.jpg"][:400] for k in (1, 2)})),
}


@functools.cache
def depth_bomb():
    """A gzip member of half a gibibyte of zeros, which are no depth maps of any size."""
    packed, crc, size = archives.zeros(512)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packed + struct.pack("<II", crc, size & 0xFFFFFFFF)


def mixed(root, count):
    """A batch in folders of a hundred. The codes of the bad takes by their names; one in twenty is bad."""
    codes = {}
    for number in range(count):
        kinds, turn = (BAD, number // 20) if number % 20 == 11 else (GOOD, number)
        kind = [*kinds][turn % len(kinds)]
        name = f"{number:04}-{kind}"
        path = root / f"day-{number // 100:02}/{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if kinds is BAD:
            codes[name], write = BAD[kind]
        else:
            write = GOOD[kind]
        write(path, number)
    return codes


def failures(output):
    """The codes of the takes that failed, by their ids."""
    takes = json.loads((output / "manifest.json").read_text())["record"]["takes"]
    return {take["id"]: take["findings"][-1]["code"] for take in takes if take["outcome"] == "failed"}, takes
