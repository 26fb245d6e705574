"""Videos in which something changes on the way, and videos that other programs write in odd ways."""

import functools
import re
import struct

from videos import box, boxes, changed, remade, samples, video_file

CABAC = ("-x264-params", "cabac=1:ref=1")
CAVLC = ("-x264-params", "cabac=0:ref=3:chroma-qp-offset=6")


def spliced(*videos, once=False):
    """One video of the images of several H.264 videos, with parameter sets before every keyframe, or before the first one of each only."""
    streams = [remade(data, "-f", "h264", suffix=".mp4") for data in videos]
    return remade(b"".join(map(with_sets_once, streams) if once else streams), before=("-r", 30, "-f", "h264"))


def with_sets_once(stream):
    units = re.split(rb"\x00?\x00\x00\x01", stream)[1:]
    kept = [unit for n, unit in enumerate(units) if unit[0] & 31 not in (7, 8) or n < 4]
    return b"".join(b"\0\0\0\1" + unit for unit in kept)


def table(form, rows):
    return struct.pack(">II", 0, len(rows)) + b"".join(struct.pack(form, *row) for row in rows)


def described_twice(one, other):
    """A video of two others with a sample description for each; all have a keyframe every 15 images."""
    contents = [[data[at : at + size] for at, size in samples(data)] for data in (one, other)]
    entries = [dict(boxes(stbl(data)))["stsd"][8:] for data in (one, other)]
    parts, count = [b"".join(part) for part in contents], sum(map(len, contents))
    head = box("ftyp", b"isom\0\0\2\0isomavc1")
    keyframes = [first + n + 1 for first, part in ((0, contents[0]), (len(contents[0]), contents[1])) for n in range(0, len(part), 15)]
    tables = {
        "stsd": struct.pack(">II", 0, 2) + b"".join(entries),
        "stts": table(">II", [(count, 20)]),
        "stss": table(">I", [(n,) for n in keyframes]),
        "stsc": table(">III", [(n + 1, len(part), n + 1) for n, part in enumerate(contents)]),
        "stsz": struct.pack(">III", 0, 0, count) + b"".join(struct.pack(">I", len(sample)) for part in contents for sample in part),
        "stco": table(">I", [(len(head) + 8,), (len(head) + 8 + len(parts[0]),)]),
    }
    index = box("moov", dict(boxes(one))["moov"])
    index = changed(index, "moov/trak/edts", lambda payload: None)
    index = changed(index, "moov/trak/mdia/minf/stbl", lambda payload: b"".join(box(kind, data) for kind, data in tables.items()))
    return head + box("mdat", b"".join(parts)) + index


def stbl(data):
    for kind in "moov", "trak", "mdia", "minf", "stbl":
        data = dict(boxes(data))[kind]
    return data


@functools.cache
def changing(count=40):
    """Videos in which parameter sets, descriptions, sizes or colors change, by their name."""
    one, other = (video_file(count=count, container="mp4", extra=extra) for extra in (CABAC, CAVLC))
    small = video_file(count=count, container="mp4", size=(96, 72))
    return {
        "two descriptions.mp4": described_twice(one, other),
        "other sets.mp4": spliced(one, other),
        "other sets once.mp4": spliced(one, other, once=True),
        "another size.mp4": spliced(one, small),
        "another size in a description.mp4": described_twice(one, small),
        "other colors.mp4": spliced(one, video_file(count=count, container="mp4", color=("-color_range", "pc"))),
    }
