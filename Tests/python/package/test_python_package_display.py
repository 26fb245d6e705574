"""The Python package: tables for pandas, and pages for notebooks."""

import base64
import io
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from command import ROOT
from package_datasets import ARM, FAILED, SCAN, STACK, convert
from PIL import Image

import takeset as package
from takeset import _html, _png


@pytest.fixture(scope="module")
def directory(source, tmp_path_factory, takeset):
    return convert(takeset, source, tmp_path_factory.mktemp("display"), "split", split_at=0.5)


@pytest.fixture
def ds(directory):
    with package.open(directory) as dataset:
        yield dataset


class Page(HTMLParser):
    """The tags, texts, cells and pictures of a page. Fails where a tag is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts, self.rows, self.pictures = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        if tag == "img":
            self.pictures.append(dict(attributes))
        elif tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" not in self.open:
            self.texts.append(text)
        if "td" in self.open:
            self.rows[-1][-1] += text


def pixels(picture):
    kind, _, data = picture["src"].partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


# pandas


def test_a_dataset_is_a_table_of_its_episodes(ds):
    pytest.importorskip("pandas")
    table = ds.to_pandas()
    assert len(table) == 9 and table["id"].tolist() == [episode.id for episode in ds] and table.index.tolist() == list(range(9))
    row = table.set_index("id").loc[f"{STACK}.1"]
    episode = ds[f"{STACK}.1"]
    assert (row.take_id, row.part, row.split, row.reader, row.rows) == (STACK, 1, episode.split, "stack-session", len(episode))
    assert row.seconds == episode.seconds and row.rate_hz == episode.rate_hz and row.gaps == len(episode.gaps)
    assert row.start.value == episode.unix_ns[0] and str(table["start"].dtype) == "datetime64[ns, UTC]"
    assert (row.findings, row.warnings) == (4, 3)
    has = ["image", "depth", "pose", "joints", "actions", "imu", "intrinsics"]
    assert row[has].tolist() == [True, True, True, False, True, False, False]
    assert table.set_index("id").loc[f"{SCAN}.0"][has].tolist() == [True, True, True, False, True, True, True]
    assert table.set_index("id").loc[f"{ARM}.0"][has].tolist() == [True, False, True, True, True, False, False]
    assert table["start"].isna().tolist() == [episode.unix_ns is None for episode in ds] and table["part"].dtype == "Int64"


def test_an_episode_is_a_table_of_its_rows(ds):
    pandas = pytest.importorskip("pandas")
    episode = next(episode for episode in ds if "joints" in episode and (episode["joints"].source_index < 0).any())
    table = episode.to_pandas()
    assert len(table) == len(episode) and table.index.name == "row"
    np.testing.assert_array_equal(table["time_s"], episode.times_ns / 1e9)
    assert table["time"].astype("int64").tolist() == episode.unix_ns.tolist() and table["time"].dt.tz is not None
    np.testing.assert_array_equal(table["source_index"], episode.source_index)
    np.testing.assert_array_equal(table["quality"], episode.quality)
    np.testing.assert_array_equal(table[[f"pose.{name}" for name in ("x", "y", "z", "qx", "qy", "qz", "qw")]], episode["pose"][:])
    joints = episode["joints"].names
    np.testing.assert_array_equal(table[[f"joints.{name}" for name in joints]], episode["joints"][:])
    np.testing.assert_array_equal(table[[f"action_dict.joints.{name}" for name in joints]], episode["action_dict/joints"][:])
    np.testing.assert_array_equal(table[[f"actions.{name}" for name in episode["actions"].names]], episode["actions"][:])
    np.testing.assert_array_equal(table["depth_point"], episode["depth_point"][:][:, 0])
    for key in episode:
        np.testing.assert_array_equal(table[f"{key}.valid"], episode[key].valid)
        known = episode[key].source_index >= 0
        np.testing.assert_array_equal(table[f"{key}.dt_ms"][known], episode[key].dt_ns[known] / 1e6)
        assert table[f"{key}.dt_ms"][~known].isna().all() and (known.all() or key == "joints")
    assert table["joints.dt_ms"].isna().any()
    assert table["dones"].tolist() == [0] * (len(table) - 1) + [1]
    assert not [column for column in table if "relative_position" in column and column.startswith("action_dict")]
    assert isinstance(table, pandas.DataFrame) and all(table[column].dtype != object for column in table)


def test_an_empty_dataset_is_an_empty_table_and_page(tmp_path, directory):
    import h5py

    with h5py.File(tmp_path / "dataset.h5", "w") as file, h5py.File(directory / "dataset.h5") as full:
        file.attrs.update(full.attrs)
        for section in "data", "meta":
            file.create_group(section)
    with package.open(tmp_path) as ds:
        assert (len(ds), ds.rows, list(ds), repr(ds)[-21:]) == (0, 0, [], ": 0 episodes, 0 rows>")
        assert "0 episodes, 0 rows" in ds._repr_html_()
        pytest.importorskip("pandas")
        assert len(ds.to_pandas()) == 0 and "rate_hz" in ds.to_pandas()


def test_without_pandas_the_error_says_what_to_install(directory):
    code = f"import sys; sys.modules['pandas'] = None; import takeset; takeset.open({str(directory)!r}).to_pandas()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("TakesetError: to_pandas needs pandas: pip install 'takeset[pandas]'")


# Pages


def test_the_page_of_a_dataset_has_a_row_with_frames_for_each_episode(ds):
    page = Page(ds._repr_html_())
    episodes = [row for row in page.rows if len(row) == 9]
    assert [row[1] for row in episodes] == [episode.id for episode in ds]
    assert [(row[2], row[3], int(row[4])) for row in episodes] == [(e.split, e.reader, len(e)) for e in ds]
    assert all("pose" in row[6] for row in episodes) and "frames-dropped" in episodes[2][7]
    assert len(page.pictures) == sum(min(len(episode), 6) for episode in ds)
    (failed,) = [row for row in page.rows if len(row) == 3]
    assert failed[:2] == [FAILED, "failed"] and "no poses.json" in failed[2]
    assert f"9 episodes, 240 rows; train {len(ds.splits['train'])}, valid {len(ds.splits['valid'])}" in page.texts


def test_pictures_are_the_frames(ds):
    episode = ds[f"{STACK}.0"]
    pictures = Page(episode._repr_html_()).pictures
    rows = np.unique(np.linspace(0, len(episode) - 1, 6).round().astype(int))
    images, depths = pictures[: len(rows)], pictures[len(rows) :]
    for picture, row in zip(images, rows, strict=True):
        assert picture["alt"] == picture["title"] == f"camera_image, row {row}, {episode.times_ns[row] / 1e9:.2f} s"
        np.testing.assert_array_equal(pixels(picture), episode["camera_image"][row])  # 72 high, so not shrunk
        assert (int(picture["width"]), int(picture["height"])) == (96, 72)
    for picture, row in zip(depths, rows, strict=True):
        gray, depth = pixels(picture), episode["camera_depth"][row][..., 0]
        assert gray.shape == (24, 32, 3)
        if episode["camera_depth"].valid[row]:
            near, far = depth < np.percentile(depth, 20), depth > np.percentile(depth, 80)
            assert gray[near].mean() > gray[far].mean() + 40
        else:
            assert (gray == (20, 20, 60)).all()


def test_the_page_of_an_episode_has_a_row_for_each_stream(ds):
    episode = ds[f"{ARM}.0"]
    page = Page(episode._repr_html_())
    rows = {row[0]: row[1:] for row in page.rows if row}
    parts = [f"action_dict/{part}" for part in episode.group["action_dict"]]
    assert set(rows) == {*episode, "actions", "action_chunk", "rewards", "dones", *parts}
    assert rows["pose"][:4] == ["pose", f"{len(episode)} x 7", "float32", "m"]
    assert rows["camera_image"][4] == f"{episode['camera_image'].valid.mean():.1%}"
    joints = episode["joints"]
    assert rows["joints"][5] == f"{np.abs(joints.dt_ns[joints.valid]).max(initial=0) / 1e6:.1f} ms" or not joints.valid.any()
    assert episode.id in page.texts


def test_pages_need_no_network_and_no_script_and_set_no_colors(ds):
    for text in ds._repr_html_(), ds[0]._repr_html_():
        page = Page(text)
        assert not {"script", "link", "iframe", "object"} & set(page.tags) and "://" not in text and "url(" not in text
        # Text has the color of the notebook, on its background; lines are half-transparent gray.
        style = text[text.index("<style>") : text.index("</style>")]
        assert set(re.findall(r"(?:color|background): (\w+)", style)) == {"inherit", "none"} and "#" not in style
        assert re.findall(r"rgb\S*\(.*?\)", style) == ["rgba(128, 128, 128, 0.35)"]


def test_text_from_files_is_escaped(directory, tmp_path):
    hostile = "<s>&'\""
    shutil.copytree(directory, tmp_path / hostile)
    with package.open(tmp_path / hostile) as ds:
        ds.record["findings"] = [{"code": hostile, "severity": "warning", "message": hostile}]
        for take in ds.takes:
            take["findings"] = [{"code": hostile, "severity": "warning", "message": f"'><script>{hostile}"}]
            take["reason"] = hostile if take["outcome"] == "failed" else None
        whole, episode = Page(ds._repr_html_()), Page(ds[0]._repr_html_())
    for page in whole, episode:
        assert not {"script", "s"} & set(page.tags)
    assert f" {tmp_path}/{hostile}/dataset.h5" in whole.texts and f"warning {hostile}: {hostile}" in whole.texts
    assert whole.rows[1][7] == hostile and whole.rows[-1] == [FAILED, "failed", hostile]
    assert f"warning {hostile}: '><script>{hostile}" in episode.texts


def test_a_missing_shard_is_a_sentence_in_the_page(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    (copy / f"episodes/{SCAN}.0.h5").unlink()
    with package.open(copy) as ds:
        page = Page(ds._repr_html_())
        assert len(page.pictures) == sum(min(len(episode), 6) for episode in ds.episodes[1:])
    assert any("the shard of demo_000000 is missing" in text for text in page.texts)


def test_pages_stay_small(ds, monkeypatch):
    assert len(ds._repr_html_()) < 80_000 * 8
    monkeypatch.setattr(_html, "_EPISODES", 3)
    page = Page(ds._repr_html_())
    assert len(page.pictures) == 18 and "and 6 more episodes" in page.texts


# Pictures


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (48, 64), (33, 17)])
def test_png_files_hold_the_pixels(shape):
    chance = np.random.default_rng(3)
    smooth = np.add.outer(np.arange(shape[0]), np.arange(shape[1]))[..., None] * np.array([1, 2, 3]) % 256
    for image in chance.integers(0, 256, (*shape, 3)).astype(np.uint8), smooth.astype(np.uint8), np.zeros((*shape, 3), np.uint8):
        found = Image.open(io.BytesIO(_png.png(image)))
        assert found.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(found), image)
        assert pixels({"src": _png.data_uri(image)}).shape == (*shape, 3)


def test_shrinking_averages_blocks():
    image = np.random.default_rng(4).integers(0, 256, (97, 130, 3)).astype(np.uint8)
    small = _png.shrunk(image, 24)
    expected = image[:96, :128].reshape(24, 4, 32, 4, 3).astype(float).mean(axis=(1, 3))
    assert small.dtype == np.uint8 and small.shape == (24, 32, 3) and np.abs(small - expected).max() <= 0.5
    np.testing.assert_array_equal(_png.shrunk(image, 97), image)
    assert _png.shrunk(image[:, :2], 10).shape[1] == 1 and _png.shrunk(image[:1], 10).shape == (1, 130, 3)


def test_depth_without_any_value_has_one_color():
    nothing = _png.shaded(np.zeros((2, 3, 1), np.float32), np.zeros((2, 3, 1), bool))
    assert (nothing == (20, 20, 60)).all() and nothing.shape == (2, 3, 3)
    flat = _png.shaded(np.ones((2, 3, 1), np.uint16), np.ones((2, 3, 1), bool))
    assert (flat == 235).all()
