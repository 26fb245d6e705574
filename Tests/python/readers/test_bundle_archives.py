"""Bundles in zip and tar archives, and uploads as they were received."""

import dataclasses
import hashlib
import json

import pytest
from bundle_checks import archived, contents, holds
from bundles import NAMES, SMALL, STORAGE, bundle, form_part, maps
from conversions import Together, failed_with, together
from outputs import codes, input_digest, manifest, take
from videos import box


LAYOUTS = {"uploaded": NAMES, "stored": STORAGE}
ROOTS = ["", "kitchen-7", "exports/today/kitchen-7"]


@pytest.fixture(scope="module")
def packed_bundles(takeset, tmp_path_factory):
    """The folder of a bundle in each layout, and archives of it, converted in one run that changes none of them."""
    root = tmp_path_factory.mktemp("packed")
    for layout, names in LAYOUTS.items():
        # Only with metadata is the number of maps without a header known.
        folder = bundle(count=15, checkpoints=(15,), **(SMALL if layout == "stored" else {})).write(root / "in" / layout, names)
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
CUTS = [0.05, 0.3, 0.6, 0.95, 1]


@pytest.fixture(scope="module")
def uploads(takeset, tmp_path_factory):
    """Uploads with these bodies, of which a part is missing, and that were interrupted, converted in one run with a good bundle."""
    found = {f"{name}.multipart": make(bundle(count=6)) for name, make in BODIES.items()}
    found |= {f"no {part}.multipart": bundle(count=6).body(order=[name for name in NAMES if name != part]) for part in NAMES}
    body = bundle(count=6).body(end=False)
    found |= {f"cut at {share}.multipart": body[: int(len(body) * share) - 20] for share in CUTS}
    return Together(takeset, tmp_path_factory.mktemp("uploads"), found | {"good": bundle(count=6)}, check=3)


@pytest.mark.parametrize("name", BODIES)
def test_an_upload_as_it_was_received_is_a_bundle(uploads, name):
    entry, demo, meta = uploads[f"{name}.multipart"]
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert entry["id"] == name and entry["reader"] == "realitycam-bundle" and entry["outcome"] == "written"
    (source,) = entry["inputs"]
    body = BODIES[name](bundle(count=6))
    assert source["path"] == f"{name}.multipart" and source["sha256"] == hashlib.sha256(body).hexdigest()
    parts = {p["name"]: p["sha256"] for p in entry["details"]["parts"]}
    assert parts["depth_data"] == hashlib.sha256(bundle(count=6).depth_data).hexdigest()
    assert entry["verification"]["chain"]["state"] == "sound"


@pytest.mark.parametrize("part", NAMES)
def test_an_upload_that_lacks_a_part(uploads, part):
    entry, _, _ = uploads[f"no {part}.multipart"]
    if part == "hash_chain":
        assert entry["outcome"] == "written" and "chain-absent" in codes(entry, "warning")
    else:
        failed_with(entry, "part-missing", {"depth_data": "depth"}.get(part, part))


@pytest.mark.parametrize("share", CUTS)
def test_an_interrupted_upload_is_not_a_take(uploads, share):
    entry, _, _ = uploads[f"cut at {share}.multipart"]
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] != "internal"
    assert uploads["good"][0]["outcome"] == "written"


def test_an_upload_of_no_name_is_called_by_its_digest(takeset, tmp_path):
    body = bundle(count=6).body()
    stems = ["bundle", "upload", "body"]
    assert {*together(takeset, tmp_path, dict.fromkeys(stems, body))} == {input_digest({stem: body})[:12] for stem in stems}
