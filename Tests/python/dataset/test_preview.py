"""`takeset preview`: images, depth maps and trajectories against h5py and Pillow, and datasets that cannot be shown."""

import json
import re

import numpy as np
import pytest
from outputs import demos
from PIL import Image
from report_pages import dataset  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def preview(takeset, dataset, tmp_path_factory):
    output = tmp_path_factory.mktemp("preview") / "out"
    takeset("preview", dataset, "--output", output, check=0)
    return output


def episodes(preview):
    contents = json.loads((preview / "preview.json").read_text())
    assert contents["preview_version"] == 1
    return {episode["id"]: episode for episode in contents["episodes"]}


def cells(preview, sheet):
    """The images of a sheet."""
    pixels = np.asarray(Image.open(preview / sheet["file"])).astype(int)
    width, height, columns = sheet["width"], sheet["height"], sheet["columns"]
    assert pixels.shape[1] == width * columns and pixels.shape[0] == height * -(-len(sheet["seconds"]) // columns)
    return [pixels[n // columns * height:][:height, n % columns * width:][:, :width] for n in range(len(sheet["seconds"]))]


def row_at(demo, seconds):
    times = demo[1]["timestamp_ns"][:] / 1e9
    row = np.abs(times - seconds).argmin()
    assert times[row] == pytest.approx(seconds, abs=1e-6)
    return row


def test_every_written_episode_has_what_it_can_show(preview, dataset):
    found, stored = episodes(preview), demos(dataset)
    assert list(found) == list(stored)
    for take, episode in found.items():
        obs, meta = stored[take]
        times = meta["timestamp_ns"][:]
        assert episode["rows"] == len(times) and episode["seconds"] == pytest.approx(times[-1] / 1e9, abs=1e-9)
        assert episode["first_source_index"] == meta["source_index"][0]
        kinds = {"images": "obs/camera_image", "depth": "obs/camera_depth", "trajectory": "obs/pose"}
        assert {kind for kind in kinds if kind in episode} == {kind for kind, key in kinds.items() if key in obs}, take
    files = {sheet["file"] for episode in found.values() for sheet in episode.values() if isinstance(sheet, dict) and "file" in sheet}
    assert {path.name for path in preview.iterdir()} == files | {"preview.json"}


def test_images_are_those_of_the_rows_at_their_times(preview, dataset):
    for take, episode in episodes(preview).items():
        demo = demos(dataset)[take]
        sheet = episode["images"]
        shown = cells(preview, sheet)
        # Evenly spaced from the first row to the last.
        count = min(120, episode["rows"])
        assert len(shown) == count and sheet["seconds"][0] == 0 and sheet["seconds"][-1] == pytest.approx(episode["seconds"])
        for seconds, cell in zip(sheet["seconds"], shown, strict=True):
            expected = Image.fromarray(demo[0]["obs/camera_image"][row_at(demo, seconds)]).resize((sheet["width"], sheet["height"]), Image.BOX)
            assert np.abs(cell - np.asarray(expected)).mean() < 8, (take, seconds)
        (poster,) = cells(preview, episode["poster"])
        assert row_at(demo, episode["poster"]["seconds"][0]) == episode["rows"] // 2 and poster.std() > 5


def test_depth_has_the_colors_of_its_distances(preview, dataset):
    take = "v1"
    demo, sheet = demos(dataset)[take], episodes(preview)[take]["depth"]
    compared = 0
    for seconds, cell in zip(sheet["seconds"], cells(preview, sheet), strict=True):
        row = row_at(demo, seconds)
        if not demo[0]["obs/camera_depth_valid"][row].all():
            continue  # holes have a color of their own
        meters = demo[0]["obs/camera_depth"][row].squeeze()
        # Cyan at 0.5 m to magenta at 5 m: green falls with the distance.
        share = np.clip((meters - 0.5) / 4.5, 0, 1)
        expected = np.asarray(Image.fromarray((255 * (1 - share)).astype("u1")).resize((sheet["width"], sheet["height"]), Image.BILINEAR))
        assert np.abs(cell[:, :, 1] - expected.astype(int)).mean() < 6, seconds
        compared += 1
    assert compared > 5


def test_the_track_follows_the_poses(preview, dataset):
    for take, episode in episodes(preview).items():
        if "trajectory" not in episode:
            continue
        drawing, demo = episode["trajectory"], demos(dataset)[take]
        track = np.array(drawing["track"])
        positions = demo[0]["obs/pose"][:][[row_at(demo, seconds) for seconds in track[:, 0]], :3]
        # From above, in one scale for both axes; a world without an up is seen in the plane of its largest extent.
        axes = np.eye(3)[[0, 2]] if take != "slam" else np.linalg.svd(positions - positions.mean(0))[2][:2]
        axes *= np.sign(axes[range(2), np.abs(axes).argmax(1)])[:, None]
        plane = (positions - positions[0]) @ axes.T
        drawn = track[:, 1:] - track[0, 1:]
        scale = (drawn * plane).sum() / (plane * plane).sum()
        assert scale > 0 and np.abs(drawn - scale * plane).max() < 0.15, take
        assert ((track[:, 1:] >= 0) & (track[:, 1:] <= [drawing["width"], drawing["height"]])).all()
        assert drawing["svg"].startswith("<svg") and "<script" not in drawing["svg"] and drawing["title"] in drawing["svg"]
        # The scale bar is as long as its label says.
        (words,) = [text for x, _, text, anchor in drawing["labels"] if (x, anchor) == (6, "start")]
        assert float(re.search(r"h([0-9.]+)", drawing["scale_bar"]).group(1)) == pytest.approx(float(words.split()[0]) * scale, abs=0.3), take
        assert {"start", "end"} <= {text for _, _, text, _ in drawing["labels"]}


def test_it_is_the_same_each_time_and_fewer_on_request(takeset, preview, dataset, tmp_path):
    takeset("preview", dataset, "--output", tmp_path / "again", check=0)
    for path in preview.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    takeset("preview", dataset, "--output", tmp_path / "few", "--images", 3, "--first", 1, check=0)
    (episode,) = episodes(tmp_path / "few").values()
    assert len(episode["images"]["seconds"]) == 3 and len(episode["trajectory"]["track"] if "trajectory" in episode else [1, 2, 3]) == 3


def test_mistakes(takeset, dataset, preview, tmp_path):
    before = {path.name for path in preview.iterdir()}
    assert "already exists" in takeset("preview", dataset, "--output", preview, check=73).stderr
    assert {path.name for path in preview.iterdir()} == before
    assert "not a Takeset dataset" in takeset("preview", tmp_path, "--output", tmp_path / "out", check=64).stderr
    assert "inside one another" in takeset("preview", dataset, "--output", dataset / "out", check=64).stderr
    for option, value in ("--images", 0), ("--images", 601), ("--first", 0):
        assert option in takeset("preview", dataset, "--output", tmp_path / "out", option, value, check=64).stderr
    assert list(tmp_path.iterdir()) == []


def test_an_episode_that_cannot_be_read_is_named_and_the_others_are_shown(takeset, takes, tmp_path):
    takeset.convert(takes, output=tmp_path / "set")
    shards = sorted((tmp_path / "set/episodes").iterdir())
    shards[0].write_bytes(shards[0].read_bytes()[:5000])
    done = takeset("preview", tmp_path / "set", "--output", tmp_path / "out", check=0)
    assert done.stderr.startswith(f"{shards[0].stem}: ") and "3 episodes" in done.stdout
    assert list(episodes(tmp_path / "out")) == [shard.stem for shard in shards[1:]]
    for shard in shards:
        shard.unlink(missing_ok=True)
    done = takeset("preview", tmp_path / "set", "--output", tmp_path / "none", check=1)
    assert len(done.stderr.splitlines()) == 4 and episodes(tmp_path / "none") == {}
