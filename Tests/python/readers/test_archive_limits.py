"""Archives: limits, decompression bombs, and fields that claim too much."""

import json
import struct

import numpy as np
import pytest
from archive_checks import WHOLE, entries, placed, reader
from archives import (
    END, MOST16, MOST32, MOST64, Member, base256, bomb, entry, header, members, overlapping, pax, tar_entries, tar_of, zip_of, zipped,
)
from command import BINARY, little_memory, measured
from conversions import failed_with
from outputs import codes, demos, take
from small_sessions import changed, put, session


def poor(takeset, root, found, check=3, arguments=()):
    """The entries of a run that may use 1 GiB of addresses, and that writes a good take next to these."""
    placed(root / "in", found | {"good.zip": zip_of(WHOLE)})
    command = ["run", root / "in", "--output", root / "out", "--progress", "plain", *arguments]
    takeset(*command, check=check, preexec_fn=little_memory)
    found = entries(root / "out")
    assert found.pop("good")["outcome"] == "written"
    return found


def test_steps_lists_the_limits(takeset):
    (reported,) = json.loads(takeset("steps", "stack-session", "--json", check=0).stdout)
    defaults = {one["name"]: one["default"] for one in reported["options"]}
    assert [defaults[f"max-archive-{name}"] for name in ("entries", "gibibytes", "ratio")] == [200_000, 64, 200]


@pytest.mark.parametrize("kind, option", [
    ("zip", "max-archive-entries"), ("tar", "max-archive-entries"), ("zip", "max-archive-gibibytes"), ("tar", "max-archive-gibibytes"),
    ("zip", "max-archive-ratio"),
])
def test_caps_hold_exactly(takeset, tmp_path, kind, option):
    files = changed(WHOLE, "metadata.json", extra="." * 20_000)
    archive = zip_of(files) if kind == "zip" else tar_of(files)
    size = sum(map(len, files.values()))
    enough, little = {
        "max-archive-entries": (len(files), len(files) - 1),
        "max-archive-gibibytes": (size * 1.001 / 2**30, size * 0.999 / 2**30),
        "max-archive-ratio": (size // len(archive) + 1, size // len(archive)),
    }[option]
    put(tmp_path, {f"session_X.{kind}": archive})
    for name, value, code in ("enough", enough, 0), ("little", little, 3):
        options = reader(tmp_path, **{option: value})
        takeset.convert(tmp_path / f"session_X.{kind}", output=tmp_path / name, check=code, arguments=options)
    assert take(tmp_path / "enough", "session_X")["outcome"] == "written"
    failed_with(take(tmp_path / "little", "session_X"), "limit", option)


def test_bombs_are_refused_by_their_ratio(takeset, tmp_path):
    files = members(WHOLE)
    found = poor(takeset, tmp_path, {
        "poses.zip": zipped([*members({k: v for k, v in WHOLE.items() if k != "poses.json"}), bomb("session_X/poses.json", 1024)]),
        "picture.zip": zipped([*files, bomb("session_X/rgb/000008.jpg", 1024)]),
        "ignorable.zip": zipped([*files, bomb("session_X/viz/x.png", 1024)]),
        "streamed.zip": zipped([*files, bomb("session_X/viz/x.png", 1024, streamed="signed")]),
    })
    for one in found.values():
        failed_with(one, "limit", "max-archive-ratio")


def test_members_that_share_their_bytes_are_refused(takeset, tmp_path):
    found = poor(takeset, tmp_path, {"a.zip": overlapping("session_X/rgb/00000", 1000, 16)})
    assert found["a"]["outcome"] == "failed" and found["a"]["findings"][-1]["code"] in ("limit", "archive-hostile", "archive-unreadable")


def test_archives_in_archives_are_not_opened(takeset, tmp_path):
    inner = zipped([bomb("session_Y/poses.json", 1024), *members(WHOLE, "session_Y")])
    with_inner = zip_of(WHOLE | {"inner.zip": inner, "rgb/inner.zip": inner})
    found = poor(takeset, tmp_path, {"a.zip": with_inner, "only.zip": zip_of({"inner.zip": inner}, root="")}, check=0)
    assert sorted(found) == ["a"] and found["a"]["outcome"] == "written"
    assert {path.removeprefix("session_X/") for path in found["a"]["details"]["ignored"]} == {"inner.zip", "rgb/inner.zip"}


def test_bombs_that_lie_about_their_size_are_damaged_members(takeset, tmp_path):
    v1 = session("v1")

    def without(name, lie):
        return zipped([*members({k: v for k, v in v1.items() if k != name}), bomb(f"session_X/{name}", 1024, size=lie)])

    paths = {"poses": "poses.json", "metadata": "metadata.json", "picture": "rgb/000002.jpg", "depth": "depth/000001.bin"}
    lies = 100, 100_000
    found = poor(takeset, tmp_path, {f"{name}-{lie}.zip": without(path, lie) for name, path in paths.items() for lie in lies})
    for lie in lies:
        failed_with(found[f"poses-{lie}"], "archive-damaged", "poses.json")
        failed_with(found[f"metadata-{lie}"], "archive-damaged", "metadata.json")
        for name, code in ("picture", "image-undecodable"), ("depth", "depth-undecodable"):
            assert found[f"{name}-{lie}"]["outcome"] == "written" and code in codes(found[f"{name}-{lie}"])
        _, meta = demos(tmp_path / "out")[f"picture-{lie}"]
        assert np.flatnonzero(meta["streams/camera_image/valid"][:] == 0).tolist() == [2]


def test_with_a_higher_ratio_other_limits_apply(takeset, tmp_path):
    v1 = session("v1")

    def inflated(name):
        return zipped([*members({k: v for k, v in v1.items() if k != name}), bomb(f"session_X/{name}", 1024)])

    paths = {"poses": "poses.json", "picture": "rgb/000002.jpg", "depth": "depth/000001.bin"}
    placed(tmp_path / "in", {f"{name}.zip": inflated(path) for name, path in paths.items()})
    options = reader(tmp_path, **{"max-archive-ratio": 10_000})
    code, peak, _ = measured(BINARY, "run", tmp_path / "in", "--output", tmp_path / "out", *options)
    assert code == 3 and peak < 400 << 20, (code, peak)
    found = entries(tmp_path / "out")
    failed_with(found["poses"], "input-too-large", "poses.json")
    for name, stream in ("picture", "camera_image"), ("depth", "camera_depth"):
        if found[name]["outcome"] == "written":
            assert 0 in demos(tmp_path / "out")[name][1][f"streams/{stream}/valid"][:]


@pytest.mark.slow
def test_more_members_than_the_cap_are_refused(takeset, tmp_path):
    many = [Member(f"session_X/viz/{k}", method=0) for k in range(200_001 - len(WHOLE))]
    found = poor(takeset, tmp_path, {"most.zip": zipped(members(WHOLE) + many[1:]), "more.zip": zipped(members(WHOLE) + many)})
    assert found["most"]["outcome"] == "written" and found["most"]["details"]["archive"]["members"] == 200_000
    failed_with(found["more"], "limit", "max-archive-entries")


def test_ends_of_zips_that_claim_too_much_are_refused(takeset, tmp_path):
    files = members(WHOLE)
    claims = [{"count": number} for number in (2**40, MOST64, MOST16, len(files) + 1)] + [{"count": 2**40, "zip64": True}]
    claims += [{field: number} for field in ("length", "start") for number in (2**31, 2**62, MOST64)] + [{"length": 2**62, "start": 2**62}]
    found = poor(takeset, tmp_path, {f"claim-{number}.zip": zipped(files, **claim) for number, claim in enumerate(claims)})
    assert len(found) == len(claims)
    for one in found.values():
        assert one["outcome"] == "failed" and one["findings"][-1]["code"] in ("archive-unreadable", "limit"), one


def test_sizes_in_tars_that_cannot_be_are_refused(takeset, tmp_path):
    whole, data = tar_entries(WHOLE), bytes(512)
    fields = [base256(number) for number in (2**63 - 1, 2**63, 2**62, 2**94, -1, -512, -(2**63))]
    fields += [b"77777777777\0", b"7" * 12, b"-0000000001\0"]
    claims = {f"field-{number}": header("session_X/x", field=field) + data for number, field in enumerate(fields)}
    claims |= {f"name-{number}": header("././@LongLink", kind=b"L", field=field) + data for number, field in enumerate(fields)}
    claims |= {f"pax-{number}": header("PaxHeaders/x", kind=b"x", field=field) + data for number, field in enumerate(fields)}
    claims |= {f"record-{size}": pax({"size": size}) + header("session_X/x", 512) + data for size in (-1, 2**63 - 1, 2**63, 10**30, "1e3")}
    claims |= {f"length-{length}": entry("PaxHeaders/x", b"%d path=x\n" % length, kind=b"x") for length in (0, 5, 10**6, 2**64, -12)}
    first = {f"{name}-first.tar": claim + whole + END for name, claim in claims.items()}
    last = {f"{name}-last.tar": whole + claim + END for name, claim in claims.items()}
    found = poor(takeset, tmp_path, first | last)
    assert len(found) == 2 * len(claims)
    for name, one in found.items():
        assert one["outcome"] == "failed" and one["findings"][-1]["code"] in ("archive-unreadable", "limit"), (name, one)


def test_a_zip_of_more_than_4_gib_without_zip64_is_named(takeset, tmp_path):
    """Places and sizes modulo 2^32, as macOS's Archive Utility writes them; the file is sparse."""
    gap = (4 << 30) + 4096
    with open(tmp_path / "large.zip", "wb") as file:
        directory = []
        for name, data in [*WHOLE.items(), ("z.bin", b"")]:
            local, entry = Member(f"take/{name}", data, method=0, at=file.tell() & MOST32).written(0)
            file.write(local)
            directory.append(entry)
        file.seek(gap, 1)
        at = file.tell()
        file.write(b"".join(directory))
        count, size = len(directory), sum(map(len, directory))
        file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, size, at & MOST32, 0))
    takeset("run", tmp_path / "large.zip", "--output", tmp_path / "out", check=3)
    (found,) = entries(tmp_path / "out").values()
    failed_with(found, "archive-unreadable", "4 GiB")
