"""The Python package: random windows, encoded images, processes and threads, many files, files that change."""

import fcntl
import io
import multiprocessing
import os
import pickle
import resource
import shutil
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest
from command import ROOT
from package_datasets import ARM, SCAN, STACK, convert
from PIL import Image

import takeset as package
from takeset import TakesetError, _frames, _images, _lru_cache


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory, takeset):
    return convert(takeset, source, tmp_path_factory.mktemp("reading"), "whole")


@pytest.fixture(scope="module")
def encoded(source, tmp_path_factory, takeset):
    """The same takes with their images as PNG and as JPEG files."""
    root = tmp_path_factory.mktemp("reading")
    return {image: convert(takeset, source, root, image, image=image) for image in ("png", "jpeg")}


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def sums(dataset):
    """Numbers of each episode that depend on all its images, depth maps and poses."""
    keys = ("camera_image", "camera_depth", "pose")
    return [(e.id, [int(e[key][:].astype(np.float64).sum() * 1000) for key in keys if key in e], int(e.times_ns.sum())) for e in dataset]


def send_sums(dataset, queue):
    try:
        queue.put(sums(dataset))
    except BaseException as error:
        queue.put(repr(error))
        raise


# Frames by their place in the file


@pytest.mark.slow
def test_random_windows_are_the_same_as_h5pys(whole, tmp_path, takeset):
    takeset("pack", whole, "--output", tmp_path / "packed.h5", check=0)
    chance = np.random.default_rng(1)
    for path in whole, tmp_path / "packed.h5":
        with package.open(path) as ds, h5py.File(ds.path) as file:
            streams = [(episode[key], file["data"][episode.name]["obs"][key]) for episode in ds for key in episode]
            whole_streams = [stored[:] for _, stored in streams]
            for _ in range(300):
                number = chance.integers(len(streams))
                stream, stored = streams[number]
                first = chance.integers(len(stored) - 16)
                np.testing.assert_array_equal(stream[first : first + 16], stored[first : first + 16])
                rows = chance.integers(0, len(stored), 9)
                np.testing.assert_array_equal(stream[rows], whole_streams[number][rows])


def test_uncompressed_images_are_read_without_hdf5_and_compressed_depth_by_it(whole, monkeypatch):
    with package.open(whole) as ds:
        image, depth = ds[STACK]["camera_image"], ds[STACK]["camera_depth"]
        assert _frames.frame_places(image.dataset).size == 72 * 96 * 3 and _frames.frame_places(depth.dataset) is None
        expected = image[3:9]
        monkeypatch.setattr(h5py.Dataset, "__getitem__", None)
        monkeypatch.setattr(h5py.Dataset, "read_direct", None)
        np.testing.assert_array_equal(image[3:9], expected)
        with pytest.raises(TakesetError, match="camera_depth, rows 3 to 8, cannot be read"):
            depth[3:9]


def test_places_of_frames_are_those_hdf5_has(whole):
    with h5py.File(whole / "dataset.h5") as file:
        stored = file["data/demo_000001/obs/camera_image"]
        places = _frames.frame_places(stored)
        expected = [stored.id.get_chunk_info_by_coord((row, 0, 0, 0)).byte_offset for row in range(len(stored))]
    assert places.offsets.tolist() == expected


@pytest.mark.parametrize("storage", ["gzip", "shuffled", "parts", "two rows", "big-endian", "holes", "user block", "contiguous"])
def test_frames_that_are_stored_in_another_way_are_left_to_hdf5(storage, tmp_path):
    values = np.random.default_rng(0).integers(0, 9999, (6, 8, 9, 3)).astype(">u2" if storage == "big-endian" else "<u2")
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512 if storage == "user block" else 0) as file:
        options = {
            "gzip": {"chunks": (1, 8, 9, 3), "compression": 1}, "shuffled": {"chunks": (1, 8, 9, 3), "shuffle": True},
            "parts": {"chunks": (1, 4, 9, 3)}, "two rows": {"chunks": (2, 8, 9, 3)}, "contiguous": {},
        }.get(storage, {"chunks": (1, 8, 9, 3)})  # fmt: skip
        stored = file.create_dataset("a", values.shape, values.dtype, **options)
        stored[: 3 if storage == "holes" else 6] = values[: 3 if storage == "holes" else 6]
    with h5py.File(tmp_path / "a.h5") as file:
        assert _frames.frame_places(file["a"]) is None


def test_without_preadv_hdf5_reads_everything(whole, monkeypatch):
    monkeypatch.delattr(os, "preadv")
    with package.open(whole) as ds, h5py.File(ds.path) as file:
        assert _frames.frame_places(ds[1]["camera_image"].dataset) is None
        stored = file["data/demo_000001/obs/camera_image"]
        for rows in slice(5, 21), [7, 2, 2], slice(9, 2, -2):
            np.testing.assert_array_equal(ds[1]["camera_image"][rows], stored[:][rows])


def test_a_read_that_is_cut_short_goes_on(whole, monkeypatch):
    whole_read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, buffers, offset: whole_read(file, [buffers[0][: len(buffers[0]) // 3 + 1]], offset))
    with package.open(whole) as ds, h5py.File(ds.path) as file:
        np.testing.assert_array_equal(ds[1]["camera_image"][5:21], file["data/demo_000001/obs/camera_image"][5:21])


def test_a_file_that_was_cut_short_is_an_error_and_not_garbage(copy):
    with package.open(copy) as ds:
        stream = ds[ARM]["camera_image"]
        stream[0]
        os.truncate(copy / f"episodes/{ARM}.h5", int(stream._places.offsets[40]) + 100)
        with pytest.raises(TakesetError, match="ends in the middle of a frame"):
            stream[39:42]


def test_longer_columns_are_read_by_slices(whole, monkeypatch):
    from takeset import _stream

    monkeypatch.setattr(_stream, "_SMALL", 64)
    with package.open(whole) as ds, h5py.File(ds.path) as file:
        stored = file["data/demo_000001"]
        for key, values in ("pose", stored["obs/pose"]), ("action_chunk", stored["action_chunk"]), ("rewards", stored["rewards"]):
            for rows in slice(5, 21), [7, 2, 2], slice(9, 2, -2), 4:
                np.testing.assert_array_equal(ds[1][key][rows], values[:][rows])


# Images as files


@pytest.mark.slow
def test_images_as_files_are_decoded(encoded, whole):
    with package.open(whole) as raw:
        for image, directory in encoded.items():
            with package.open(directory) as ds, h5py.File(ds.path) as file:
                for episode in ds:
                    stream, stored = episode["camera_image"], file["data"][episode.name]["obs/camera_image"]
                    assert (stream.encoding, stream.shape, stream.dtype) == (image, (60, 72, 96, 3), np.uint8)
                    rows = [row for row in range(60) if len(stored[row])]
                    expected = np.zeros(stream.shape, np.uint8)
                    for row in rows:
                        expected[row] = np.asarray(Image.open(io.BytesIO(stored[row].tobytes())))
                    np.testing.assert_array_equal(stream[:], expected)
                    np.testing.assert_array_equal(stream[[30, 3, 20]], expected[[30, 3, 20]])
                    np.testing.assert_array_equal(stream[-1], expected[-1])
                    if image == "png":
                        np.testing.assert_array_equal(stream[:], raw[episode.id]["camera_image"][:])
                    assert stream.encoded(5) == stored[5].tobytes() and stream.encoded(-1) == (stored[59].tobytes() or None)


def test_an_absent_image_is_0_and_has_no_file(encoded, whole):
    with package.open(encoded["jpeg"]) as ds, package.open(whole) as raw:
        stream = ds[ARM]["camera_image"]
        (absent,) = np.nonzero(~stream.valid)
        assert absent.tolist() == [20, 21, 59] and stream.encoded(20) is None and not stream[20:22].any() and stream[19].any()
        assert raw[ARM]["camera_image"].encoded(5) is None
        with pytest.raises(IndexError):
            stream.encoded(60)


def test_without_pillow_the_error_says_what_to_install(encoded, whole):
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "import takeset\n"
        f"print(takeset.open({str(whole)!r})[0]['camera_image'][0].shape)\n"
        f"episode = takeset.open({str(encoded['png'])!r})[0]\n"
        "assert episode['camera_image'].encoded(0)[1:4] == b'PNG'\n"
        "assert 'takeset[images]' in episode._repr_html_()\n"
        "try: episode['camera_image'][0]\n"
        "except takeset.TakesetError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"(72, 96, 3)\ndemo_000000 ({SCAN}): camera_image, row 0: "
        "the images are stored as JPEG or PNG files, which Pillow decodes: pip install 'takeset[images]'\n"
    )


def decoded(file, height, width):
    out = np.empty((height, width, 3), np.uint8)
    _images.decode_into(out, file)
    return out


def test_an_image_that_cannot_be_decoded_is_named(encoded, tmp_path):
    damaged = shutil.copytree(encoded["png"], tmp_path / "damaged")
    with h5py.File(damaged / f"episodes/{SCAN}.h5", "r+") as file:
        file["data/demo_0/obs/camera_image"][40] = np.frombuffer(b"\x89PNG", np.uint8)
    with package.open(damaged) as ds:
        images = ds[0]["camera_image"]
        for rows in 40, slice(None), [3, 40], slice(45, 35, -1):
            with pytest.raises(TakesetError, match=rf"demo_000000 \({SCAN}\): camera_image, row 40: the image cannot be decoded: "):
                images[rows]
        assert images[:40].any() and images[41:].any()


def test_gray_images_are_decoded_as_rgb():
    gray = io.BytesIO()
    Image.fromarray(np.arange(32, dtype=np.uint8).reshape(4, 8)).save(gray, "png")
    np.testing.assert_array_equal(decoded(gray.getvalue(), 4, 8), np.arange(32).reshape(4, 8, 1).repeat(3, axis=2))


def jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "jpeg", **options)
    return file.getvalue()


@pytest.mark.parametrize("installed", [True, False])
def test_jpegs_have_the_same_pixels_with_and_without_simplejpeg(installed, monkeypatch):
    if not installed:
        monkeypatch.setitem(sys.modules, "simplejpeg", None)
    image = Image.fromarray(np.random.default_rng(4).integers(0, 255, (45, 61, 3), np.uint8))
    files = [jpeg(image, subsampling=number) for number in range(3)]
    files += [jpeg(image, progressive=True), jpeg(image, keep_rgb=True), jpeg(image.convert("L")), jpeg(image.convert("CMYK"))]
    for file in files:
        np.testing.assert_array_equal(decoded(file, 45, 61), np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))
    # Pillow says what is wrong, in both cases.
    with pytest.raises(TakesetError, match="the image is 61x45, and its dataset says 60x45"):
        decoded(files[0], 45, 60)
    for length in 2, 100, len(files[0]) // 2:
        with pytest.raises(TakesetError, match="the image cannot be decoded"):
            decoded(files[0][:length], 45, 61)


def test_simplejpeg_decodes_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(_images, "_pillow", None)
    file = jpeg(Image.new("RGB", (8, 4), (200, 0, 0)))
    np.testing.assert_allclose(decoded(file, 4, 8)[0, 0], [200, 0, 0], atol=2)


# Processes and threads


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_read_a_dataset_that_is_open_here(whole, method):
    with package.open(whole) as ds:
        expected = sums(ds)
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        processes = [context.Process(target=send_sums, args=(ds, queue)) for _ in range(2)]
        for process in processes:
            process.start()
        assert sums(ds) == expected
        assert [queue.get(timeout=240) for _ in processes] == [expected] * 2
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0] and sums(ds) == expected


def test_a_forked_child_opens_the_files_by_itself(whole):
    def child(ds, queue):
        file = ds[STACK]._file
        queue.put((id(file), os.fstat(file.descriptor).st_ino, bool(inherited.h5.id), file.descriptor != inherited._descriptor))

    with package.open(whole) as ds:
        ds[STACK]["camera_image"][0]
        inherited = ds[STACK]._file
        queue = multiprocessing.get_context("fork").Queue()
        process = multiprocessing.get_context("fork").Process(target=child, args=(ds, queue))
        process.start()
        number, inode, is_open, differs = queue.get(timeout=240)
        process.join()
        assert number != id(inherited) and inode == os.stat(inherited.path).st_ino and differs
        assert not is_open and bool(inherited.h5.id)  # The parent's file is closed in the child, and only there.


def test_a_child_that_is_forked_while_threads_read_does_not_hang(whole):
    with package.open(whole) as ds:
        expected, done, wrong = sums(ds), threading.Event(), []

        def read():
            while not done.is_set():
                wrong.extend(found for found in [sums(ds)] if found != expected)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        context = multiprocessing.get_context("fork")
        for _ in range(5):
            queue = context.Queue()
            process = context.Process(target=send_sums, args=(ds, queue))
            process.start()
            assert queue.get(timeout=240) == expected
            process.join()
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_datasets_episodes_and_streams_are_pickled_without_their_data(whole):
    with package.open(whole) as ds:
        ds[STACK]["camera_image"][:]
        content = pickle.dumps((ds, ds[STACK], ds[STACK]["camera_image"]))
        assert len(content) < 2000
        other, episode, stream = pickle.loads(content)
        assert other is not ds and other[STACK] is episode and stream.episode is episode
        np.testing.assert_array_equal(stream[3], ds[STACK]["camera_image"][3])
    assert other[0].id == SCAN  # with files of its own
    error = pickle.loads(pickle.dumps(TakesetError("a sentence", 64)))
    assert (str(error), error.exit_code) == ("a sentence", 64)


# Many files


def test_few_files_stay_open_and_many_are_read(whole, tmp_path):
    shards = sorted((whole / "episodes").iterdir())
    (tmp_path / "episodes").mkdir()
    with h5py.File(tmp_path / "dataset.h5", "w") as file:
        for name, value in h5py.File(whole / "dataset.h5").attrs.items():
            file.attrs[name] = value
        for number in range(400):
            copy = tmp_path / f"episodes/{number}.h5"
            os.link(shards[number % 4], copy)
            for section in "data", "meta":
                file.require_group(section)[f"demo_{number}"] = h5py.ExternalLink(f"episodes/{copy.name}", f"/{section}/demo_0")
    code = (
        "import resource, takeset\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
        f"ds = takeset.open({str(tmp_path)!r})\n"
        "assert [episode.name for episode in ds] == [f'demo_{number}' for number in range(400)]\n"
        "for _ in range(2): total = sum(int(episode['camera_image'][30].sum()) + len(episode) for episode in ds)\n"
        "print(total)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with package.open(whole) as ds:
        assert int(done.stdout) == 100 * sum(int(episode["camera_image"][30].sum()) + 60 for episode in ds)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 200


def test_the_values_used_last_are_kept_up_to_a_size():
    recent = _lru_cache.LRUCache(10)
    for key, size in ("a", 4), ("b", 4), ("a", 5):
        recent.put(key, key.upper(), size)
    assert recent.size == 9 and recent.get("b") == "B"
    recent.put("c", "C", 3)  # a was not used since
    assert recent.get("a") is None and recent.size == 7 and recent.get("c") == "C"
    recent.put("large", 1, 50)
    assert recent.get("large") == 1 and recent.get("b") is None and recent.size == 50
    assert recent.clear() == [1] and recent.size == 0


def test_arrays_that_were_dropped_are_read_again(whole):
    with package.open(whole) as ds:
        ds._store.cache.limit = 3000
        for _ in range(2):
            assert sums(ds) == sums(package.open(whole))
        assert ds._store.cache.size <= max(3000, *(episode["pose"].dataset.nbytes + 256 for episode in ds))


# Files that change, and closed ones


def test_a_shard_that_was_replaced_is_noticed(copy, whole):
    with package.open(copy) as ds:
        kept = ds[STACK]["camera_image"][5]
        for path in (copy / "episodes").iterdir():
            shutil.copy(path, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)
        np.testing.assert_array_equal(ds[STACK]["camera_image"][5], kept)  # still open
        ds._store.files._open.clear()  # as if others had been used since
        with pytest.raises(TakesetError, match="was replaced while the dataset was open; open the dataset again"):
            ds[STACK]["camera_image"][5]
    with package.open(copy) as ds:
        np.testing.assert_array_equal(ds[STACK]["camera_image"][5], kept)


def test_a_closed_dataset_reads_no_more(whole):
    with package.open(whole) as ds:
        episode, stream, pose = ds[STACK], ds[STACK]["camera_image"], ds[STACK]["pose"]
        values = pose[:]
    for read in (lambda: stream[0], lambda: pose[0], lambda: episode["depth"], lambda: ds[0].times_ns, lambda: ds.statistics):
        with pytest.raises(TakesetError, match="cannot be read: the dataset was closed"):
            read()
    assert values.shape == (60, 7) and "camera_image" in repr(stream) and "closed" in repr(episode) and len(ds) == 4
    ds.close()


def test_a_file_that_others_have_locked_is_read_all_the_same(copy):
    with open(copy / "dataset.h5") as index, open(copy / f"episodes/{SCAN}.h5") as shard:
        for file in index, shard:
            fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="unable to lock file"):
            h5py.File(copy / "dataset.h5")
        with package.open(copy) as ds:
            assert ds[0]["pose"][:].shape == (60, 7)
