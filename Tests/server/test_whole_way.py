"""The whole way, with real programs only: from a recording over a bad connection into a dataset and onto a page."""

import json
import subprocess

import h5py
import numpy as np
import requests
import uploads
from conftest import TAKESET
from devices import add_key
from pages import browser, view  # noqa: F401 (fixtures)
from proxies import RandomCuts
from queued import manifest, merged
from test_upload_server import captures, detail

APP = "TAKESET001.org.example.capture"


def episodes(dataset):
    """The episodes of a dataset: the groups below /data of all its shards."""
    found = [h5py.File(path) for path in sorted((dataset / "episodes").rglob("*.h5"))]
    return [group for shard in found for group in shard["data"].values()]


def test_a_phone_records_is_interrupted_and_cut_off_and_its_take_is_verified(start, view):  # noqa: F811
    server = start("--app-id", APP, conversions=1)
    line = RandomCuts(server.port, b"POST /api/v1/captures/video ", 3, 15)
    phone = [TAKESET, "simulate", "device", "--to", line.url, "--key", add_key(server), "--partial", "--seconds", 6, "--size", "320x240"]
    done = subprocess.run(
        [*map(str, phone), "--first-pause", "0.05", "--wait", "--json"], capture_output=True, text=True, timeout=300)
    line.close()
    assert done.returncode == 0, done.stderr
    assert len(line.cuts) == 3 and len({cut for cut, _ in line.cuts}) == 3, line.cuts
    assert done.stderr.count("; attempt ") == 3, done.stderr
    sent = json.loads(done.stdout)
    assert (sent["state"], sent["status"]) == ("uploaded", "complete")

    # The server has it once, as it was sent.
    (item,) = captures(server)
    capture = item["capture_id"]
    assert capture == sent["capture_id"] and item["is_verified"] is True and item["signature"] == "s2"
    files = {file["name"]: file["sha256"] for file in detail(server, capture)["files"]}
    stored = {path.name: uploads.digest(path.read_bytes()) for path in (server.data / "captures" / capture).iterdir()}
    assert stored == files and {"video.mp4", "depth.gz", "hash_chain.json", "metadata.json"} < set(files)

    # The dataset has the take: `merged` runs `takeset verify`.
    dataset = merged(server, capture)
    (take,) = manifest(dataset)["record"]["takes"]
    assert take["verification"]["levels"] == ["bytes-sealed-at-ingest", "chain-structure-ok", "assertion-ok"]
    assert take["verification"]["assertion"]["key"] == sent["device_id"]
    assert take["verification"]["partial"]["state"] == "partial"
    assert [finding["message"] for finding in take["findings"]] == ["verified 5.0 s of 6.0 s recorded"]
    assert {part["sha256"] for part in take["inputs"]} < set(files.values())
    (episode,) = episodes(dataset)
    images, depth, valid = (episode["obs"][name] for name in ("camera_image", "camera_depth", "camera_depth_valid"))
    assert images.shape == (180, 240, 320, 3) and images[0].std() > 10
    assert np.any(images[0] != images[90]), "the camera moves"
    # Every third frame has depth; the last one is farther from its nearest than the 50 ms that count.
    assert depth.shape == (180, 192, 256, 1) and valid[:].any(axis=(1, 2, 3)).tolist() == [True] * 179 + [False]
    near, far = np.percentile(depth[0][valid[0] == 1], [1, 99])
    assert 0.5 < near < far < 6, "metres"
    times = episode.file[f"meta/{episode.name.split('/')[-1]}/timestamp_ns"][:]
    assert len(times) == 180 and np.all(abs(np.diff(times) - 1e9 / 30) < 2e6)

    # The page says so, to programs and to people.
    address = server.get(f"/api/v1/captures/{capture}").json()["data"]["verification_url"]
    text = requests.get(address, timeout=300).text
    assert "Verified: 5.0 s of 6.0 s recorded" in text and "assertion-ok" in text
    page = view.open(address)
    assert page.locator(".badge").all_inner_texts() == ["complete", "Verified: 5.0 s of 6.0 s recorded"]
    levels = [level.split("\n")[0] for level in page.locator(".levels li").all_inner_texts()]
    assert levels == ["\u2713 Sealed at arrival", "\u2713 Hash chain complete", "\u2713 Signed by a registered phone"]
    assert "what was recorded after the checkpoint that the device signed" in page.inner_text("main")
    shown = page.evaluate("[...document.images].map((image) => image.complete && image.naturalWidth)")
    assert len(shown) == 2 and all(shown), "the thumbnail and the depth overlay"
