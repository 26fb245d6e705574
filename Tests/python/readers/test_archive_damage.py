"""Archives that cannot be read, and members whose bytes are damaged."""

import gzip
import json

import numpy as np
import pytest
from archive_checks import DAMAGES, WHOLE, content, damaged, entries, noticed, searched
from archives import END, Member, entry, header, long_name, members, tar_entries, tar_of, zip_of, zipped
from conversions import failed_with
from outputs import demos, take
from PIL import Image
from small_sessions import jpeg, session


def whole_without_size(whole):
    """The sizes of the first member are those that stand for a field of 64 bits, which it lacks."""
    place = whole.index(b"PK\1\2") + 20
    return whole[:place] + b"\xff" * 8 + whole[place + 8:]


def unreadable():
    whole = zip_of(WHOLE)
    tar = tar_entries(WHOLE)
    most = {name: data for name, data in WHOLE.items() if name != "poses.json"}

    def poses(**lies):
        return zipped([*members(most), Member("session_X/poses.json", WHOLE["poses.json"], **lies)])

    def bad_sum(text):
        return header("session_X/x", checksum=text)

    more = entry("session_X/viz/x", bytes(5000))
    return {
        "empty.zip": b"", "text.zip": b"<html>not found</html>", "text-too.tar": b"<html>not found</html>",
        "gzip.tar": gzip.compress(tar + END, mtime=0),
        "cut-end.zip": whole[:-10], "cut-middle.zip": whole[: len(whole) // 2],
        "no-directory.zip": b"".join(one.written(0)[0] for one in members(WHOLE)),
        "encrypted.zip": poses(flags=1, packed=bytes(12) + WHOLE["poses.json"], method=0), "aes.zip": poses(flags=1, method=99),
        "ppmd.zip": poses(method=98), "shrunk.zip": poses(method=1),
        "sum-first.tar": bad_sum(b"0000000\0") + tar + END, "sum-last.tar": tar + bad_sum(b"0000000\0") + END,
        "sum-text.tar": tar + bad_sum(b"checksum") + END,
        "cut-member.tar": tar + more[:3000], "cut-header.tar": tar + more[:100], "cut-by-one.tar": tar + more[: 512 + 5000 - 1],
        "two.tar": tar + END + tar + END, "no-size.zip": whole_without_size(whole),
        "cut-name.tar": tar + long_name("x" * 2000)[:1024],
    }


@pytest.fixture(scope="module")
def unreadable_archives(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    searched(takeset, root, unreadable() | {"good.tar": tar_of(WHOLE)}, check=3)
    return root


def test_inspect_reports_the_same_of_archives_that_cannot_be_read(unreadable_archives, takeset):
    inspected = json.loads(takeset("inspect", unreadable_archives / "in", "--json", check=3).stdout)["takes"]
    reported = {one["id"]: (one["would_be"], one["findings"][-1]["code"]) for one in inspected if one["id"] != "good"}
    assert reported == {name.rpartition(".")[0]: ("failed", "archive-unreadable") for name in unreadable()}


@pytest.mark.parametrize("name", unreadable())
def test_an_archive_that_cannot_be_read_fails(unreadable_archives, name):
    failed = take(unreadable_archives / "out", name.rpartition(".")[0])
    failed_with(failed, "archive-unreadable")
    assert take(unreadable_archives / "out", "good")["outcome"] == "written"


def test_archives_of_other_things_are_skipped(takeset, tmp_path):
    holiday = {"IMG_0001.jpg": b"x", "album/IMG_0002.jpg": b"y"}
    others = {"photos.zip": zip_of(holiday, root=""), "letters.tar": tar_of(holiday, "letters"), "none.zip": zipped([]), "no.tar": END}
    found = searched(takeset, tmp_path, others | {"session_X": WHOLE})
    assert sorted(found) == ["session_X"]
    takeset.convert(*(tmp_path / "in" / name for name in ("session_X", *others)), output=tmp_path / "named", check=3)
    reported = [one for one in entries(tmp_path / "named").values() if one["outcome"] == "failed"]
    assert len(reported) == 4 and {one["findings"][0]["code"] for one in reported} == {"not-a-take"}


# Damaged members


JSON = ["metadata", "poses", "encoders", "imu"]


@pytest.fixture(scope="module")
def damages(takeset, tmp_path_factory):
    """Archives with images, a depth map or JSON damaged in every way: entries of a run, demos, and what inspect reports."""
    root, files, slam = tmp_path_factory.mktemp("damages"), session("v1", count=12), session("v3-slam")
    found, bad = {"plain": files, "good.zip": zip_of(slam)}, ["rgb/000002.jpg", "rgb/000007.jpg"]
    for kind in DAMAGES:
        found |= {f"two-{kind}.zip": damaged(files, *bad, kind=kind), f"three-{kind}.zip": damaged(files, *bad, "rgb/000009.jpg", kind=kind)}
        found[f"depth-{kind}.zip"] = damaged(files, "depth/000002.bin", kind=kind)
        found |= {f"{name}-{kind}.zip": damaged(slam, f"{name}.json", kind=kind) for name in JSON}
    entries = searched(takeset, root, found, check=3)
    assert entries["good"]["outcome"] == "written"
    inspected = json.loads(takeset("inspect", root / "in", "--json", check=3).stdout)["takes"]
    return entries, demos(root / "out"), {one["id"]: one for one in inspected}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_image_is_a_masked_row(damages, kind):
    entries, written, inspected = damages
    (finding,) = [f for f in entries[f"two-{kind}"]["findings"] if f["code"] == "image-undecodable"]
    assert (finding["severity"], finding["count"]) == ("warning", 2) and "rgb/000002.jpg" in finding["file"]
    (demo, meta), (plain, _) = written[f"two-{kind}"], written["plain"]
    valid = meta["streams/camera_image/valid"][:] == 1
    assert np.flatnonzero(~valid).tolist() == [2, 7] and not demo["obs/camera_image"][:][~valid].any()
    assert (demo["obs/camera_image"][:][valid] == plain["obs/camera_image"][:][valid]).all()
    assert (demo["obs/pose"][:] == plain["obs/pose"][:]).all()
    failed_with(entries[f"three-{kind}"], "image-undecodable", "fifth")
    assert [inspected[name]["would_be"] for name in ("plain", f"three-{kind}", f"two-{kind}")] == ["written", "failed", "written"]
    assert [f["count"] for f in inspected[f"two-{kind}"]["findings"] if f["code"] == "image-undecodable"] == [2]


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_depth_map_is_masked(damages, kind):
    entries, written, _ = damages
    (finding,) = [f for f in entries[f"depth-{kind}"]["findings"] if f["code"] == "depth-undecodable"]
    assert finding["severity"] == "warning" and finding["count"] == 1 and "depth/000002.bin" in finding["file"]
    (demo, meta), (plain, _) = written[f"depth-{kind}"], written["plain"]
    stream = meta["streams/camera_depth"]
    valid = stream["valid"][:] == 1
    assert set(stream["source_index"][:][~valid]) <= {2, -1} and 2 not in stream["source_index"][:][valid]
    assert not valid[4] and not demo["obs/camera_depth"][4].any() and not demo["obs/camera_depth_valid"][4].any()
    assert valid.sum() >= 9 and (demo["obs/camera_depth"][:2] == plain["obs/camera_depth"][:2]).all()


@pytest.mark.parametrize("name", JSON)
def test_damaged_json_fails_the_take(damages, name):
    for kind in DAMAGES:
        failed_with(damages[0][f"{name}-{kind}"], "archive-damaged", f"{name}.json")


def test_damage_in_what_is_ignored_does_no_harm(takeset, tmp_path):
    junk = {"viz/a.png": b"picture" * 50, ".DS_Store": b"x" * 50}
    found = searched(takeset, tmp_path, {"a.zip": damaged(WHOLE | junk, *junk), "plain": WHOLE})
    assert noticed(found["a"]) == noticed(found["plain"]) and content(tmp_path / "out", "a") == content(tmp_path / "out", "plain")


def test_images_of_an_archive_that_are_no_images(takeset, tmp_path):
    files = session("v2", count=12) | {"rgb/000003.jpg": b"", "rgb/000005.jpg": b"<html>"}
    wide = session("v2", count=12) | {"rgb/000003.jpg": jpeg(Image.new("RGB", (40, 30)))}
    found = searched(takeset, tmp_path, {"a.zip": zip_of(files), "b.tar": tar_of(files), "c.zip": zip_of(wide)}, check=3)
    for name in "a", "b":
        assert [f["count"] for f in found[name]["findings"] if f["code"] == "image-undecodable"] == [2]
    failed_with(found["c"], "image-size-changed", "40x30")
