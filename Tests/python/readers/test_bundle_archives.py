"""Bundles in zip and tar archives, and uploads as they were received."""

import dataclasses
import hashlib
import json

import pytest
from bundle_checks import archived, contents, holds
from bundles import NAMES, SMALL, STORAGE, bundle, form_part, maps
from conversions import converted, failed_with, fails
from outputs import codes, demos, input_digest, manifest, record, take
from stack_sessions import tarred, zipped
from videos import box


LAYOUTS = {"uploaded": NAMES, "stored": STORAGE}
ROOTS = ["", "kitchen-7/", "exports/today/kitchen-7/"]


@pytest.fixture(scope="module")
def packed_bundles(takeset, tmp_path_factory):
    """The folder of a bundle in each layout, and archives of it, converted in one run that changes none of them."""
    root = tmp_path_factory.mktemp("packed")
    for layout, names in LAYOUTS.items():
        folder = bundle(checkpoints=(15,), **SMALL).write(root / "in" / layout, names)
        for kind in "zip", "tar":
            for number, top in enumerate(ROOTS):
                archived(kind, root / f"in/{layout}-{kind}-{number}.{kind}", top, contents(folder))
    before = contents(root / "in")
    takeset.convert(root / "in", output=root / "out")
    takeset("verify", root / "out", "--inputs", check=0)
    assert contents(root / "in") == before and len(manifest(root / "out")["record"]["takes"]) == 14
    return root


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_of_a_bundle_converts_as_its_folder(packed_bundles, kind, layout, root):
    name = f"{layout}-{kind}-{ROOTS.index(root)}"
    packed, plain = take(packed_bundles / "out", name), take(packed_bundles / "out", layout)
    data = (packed_bundles / f"in/{name}.{kind}").read_bytes()
    assert (packed["reader"], packed["outcome"]) == ("realitycam-bundle", "written")
    assert packed["output"]["content_sha256"] == plain["output"]["content_sha256"]
    for part in "variant", "findings", "streams", "alignment", "steps", "verification":
        assert packed[part] == plain[part], part
    assert packed["inputs"] == [{"path": f"{name}.{kind}", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "role": "archive"}]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_problems_of_a_bundle_are_the_same_in_its_archive(takeset, tmp_path, kind):
    parts = contents(bundle(count=6, **SMALL).write(tmp_path / "plain"))
    chain = json.loads(parts["hash_chain.json"])
    chain["final_hash"] = chain["frame_hashes"][1]
    damaged = {
        "broken": parts | {"hash_chain.json": json.dumps(chain).encode()}, "evil": parts | {"../evil": b"x"},
        "incomplete": {name: data for name, data in parts.items() if name != "depth.gz"}, "sound": parts,
    }
    for name, files in damaged.items():
        archived(kind, tmp_path / f"in/{name}.{kind}", "", files)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    invalid, evil, incomplete, intact = manifest(tmp_path / "out")["record"]["takes"]
    assert invalid["outcome"] == "rejected" and invalid["reason"].startswith("verify-hash-chain: ")
    failed_with(evil, "archive-hostile", "../evil")
    failed_with(incomplete, "part-missing", "depth")
    assert intact["outcome"] == "written" and not (tmp_path / "evil").exists()


def arrays(demo, meta):
    """The digest of every dataset of a take that has one."""
    found = {}
    for group in demo, meta:
        group.visititems(lambda name, item: found.update({f"{group.name}/{name}": item.attrs["sha256"]}) if "sha256" in item.attrs else None)
    return {name.split("/", 3)[-1]: digest for name, digest in found.items()}


@pytest.mark.parametrize("top", ["pour", ""])
@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_a_bundle_in_an_archive_is_what_its_folder_is(takeset, tmp_path, ending, top):
    intact = bundle(count=12)
    contents = {NAMES[part]: data for part, data in intact.parts().items()}
    intact.write(tmp_path / "folder/pour")
    archive = (zipped if ending == "zip" else tarred)(contents, top)
    if not top:
        archive = remade_without_top(contents, ending)
    (tmp_path / "archive").mkdir()
    (tmp_path / f"archive/pour.{ending}").write_bytes(archive)
    takeset.convert(tmp_path / "folder", output=tmp_path / "out1")
    takeset.convert(tmp_path / "archive", output=tmp_path / "out2")
    (one,), (other,) = demos(tmp_path / "out1").values(), demos(tmp_path / "out2").values()
    assert other[0].attrs["reader"] == "realitycam-bundle"
    expected = arrays(*one)
    assert len(expected) > 8 and any("camera_depth" in name for name in expected)
    assert {k: v for k, v in arrays(*other).items() if k != "statistics"} == {k: v for k, v in expected.items() if k != "statistics"}
    assert list(demos(tmp_path / "out2")) == ["pour"]


def remade_without_top(contents, ending):
    """An archive with its members at its root."""
    import io
    import tarfile
    import zipfile

    buffer = io.BytesIO()
    if ending == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in contents.items():
                archive.writestr(path, data)
    else:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, data in contents.items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


# Uploads

BODIES = {
    "as sent": lambda found: found.body(),
    "in another order": lambda found: found.body(order=("metadata", "hash_chain", "depth_data", "video")),
    "with a plain boundary": lambda found: found.body(boundary="x"),
    "with an unknown part": lambda found: form_part("b", "thumbnail", "t.jpg", "image/jpeg", b"\xff\xd8\xff") + found.body(boundary="b"),
    "with a part twice": lambda found: form_part("b", "metadata", "metadata.json", "application/json", b"{}") + found.body(boundary="b"),
    "with a boundary that almost stands in the data": lambda found: dataclasses.replace(
        found, video=found.video + box("free", b"\r\n--Bound\r\n--Boundar\r\nBoundary--")).body(boundary="Boundary"),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_upload_as_it_was_received_is_a_bundle(takeset, tmp_path, name):
    found = bundle(count=6)
    body = BODIES[name](found)
    (tmp_path / "0017-kitchen.multipart").write_bytes(body)
    entry, demo, meta = converted(takeset, tmp_path / "0017-kitchen.multipart")
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert entry["id"] == "0017-kitchen" and entry["reader"] == "realitycam-bundle" and entry["outcome"] == "written"
    (source,) = entry["inputs"]
    assert source["path"] == "0017-kitchen.multipart" and source["sha256"] == hashlib.sha256(body).hexdigest()
    parts = {p["name"]: p["sha256"] for p in entry["details"]["parts"]}
    assert parts["depth_data"] == hashlib.sha256(found.depth_data).hexdigest()
    assert entry["verification"]["chain"]["state"] == "sound"


@pytest.mark.parametrize("part", NAMES)
def test_an_upload_that_lacks_a_part(takeset, tmp_path, part):
    (tmp_path / "bad.multipart").write_bytes(bundle(count=6).body(order=[name for name in NAMES if name != part]))
    if part == "hash_chain":
        entry, _, _ = converted(takeset, tmp_path / "bad.multipart")
        assert "chain-absent" in codes(entry, "warning")
    else:
        fails(takeset, tmp_path / "bad.multipart", "part-missing", {"depth_data": "depth"}.get(part, part))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95, 1])
def test_an_interrupted_upload_is_not_a_take(takeset, tmp_path, share):
    body = bundle(count=6).body(end=False)
    (tmp_path / "bad.multipart").write_bytes(body[: int(len(body) * share) - 20])
    done = takeset.convert(tmp_path / "bad.multipart", output=tmp_path / "out", check=3)
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] != "internal", done.stderr


@pytest.mark.parametrize("stem", ["bundle", "upload", "body"])
def test_an_upload_of_no_name_is_called_by_its_digest(takeset, tmp_path, stem):
    body = bundle(count=6).body()
    (tmp_path / stem).write_bytes(body)
    entry, _, _ = converted(takeset, tmp_path / stem)
    assert entry["id"] == input_digest({stem: body})[:12]
