"""The Python package: datasets from somebody else. Nothing outside of the files of a dataset is opened, waited for or believed."""

import ast
import json
import os
import shutil
import signal
import socket
import zlib

import h5py
import numpy as np
import pytest
from command import ROOT
from package_datasets import small
from PIL import Image

import takeset as package
from takeset import TakesetError, _images, _manifest
from takeset._window_options import WindowOptions
from takeset._windows import WindowReader

SECRET = b"the key of somebody" * 4000
TAKE = "glove"


@pytest.fixture(scope="module")
def whole(takeset, tmp_path_factory):
    return small(takeset, tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def given(whole, tmp_path):
    """A copy, next to a file of the user that it must not show: as bytes, and as HDF5."""
    (tmp_path / "secret.txt").write_bytes(SECRET)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["bytes"], file["group/inner"] = np.frombuffer(SECRET, np.uint8), np.arange(12)
    return shutil.copytree(whole, tmp_path / "given")


@pytest.fixture(autouse=True)
def in_time():
    """No test waits for ever."""

    def end(*_):
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def shard(ds, take=TAKE):
    return h5py.File(ds / f"episodes/{take}.h5", "r+")


def replaced(ds, name, make):
    """Puts something in the place of a dataset of a shard, with its attributes where it can have any."""
    with shard(ds) as file:
        old, attributes = file[name], dict(file[name].attrs)
        shape, dtype = old.shape, old.dtype
        del file[name]
        make(file, name, shape, dtype)
        if isinstance(file.get(name, getlink=True), h5py.HardLink):
            file[name].attrs.update(attributes)


def refusals(path, take=TAKE):
    """What is said by everything that reads images, poses and times of a take; whatever else is raised fails."""
    said = []

    def attempt(read):
        try:
            found = read()
        except TakesetError as error:
            said.append(str(error))
        else:
            values = found if isinstance(found, (bytes, str)) else np.asarray(found[:] if isinstance(found, package.Stream) else found)
            assert b"somebody" not in (values if isinstance(values, bytes) else str(values).encode() if isinstance(values, str) else values.tobytes())

    with package.open(path) as ds:
        episode = ds[f"demo_00000{['glove', 'scan'].index(take)}"]
        for read in (
            lambda: episode["camera_image"], lambda: episode["camera_image"][2:5], lambda: episode["pose"], lambda: episode.times_ns,
            lambda: episode.source_index, lambda: episode["pose"].valid, lambda: episode.imu.accel if episode.imu else b"", episode._repr_html_,
            lambda: str(episode.to_pandas()), ds._repr_html_, lambda: list(episode.group), lambda: list(episode.meta),
            lambda: WindowReader(path, [episode.name], WindowOptions(2, 2))[0]["obs"]["camera_image"],
        ):  # fmt: skip
            attempt(read)
    return said


PLACES = "data/demo_0/obs/camera_image", "data/demo_0/obs/pose", "meta/demo_0/timestamp_ns", "meta/demo_0/streams/pose/valid"


# What a shard names


@pytest.mark.parametrize("name", PLACES)
def test_arrays_that_are_stored_in_another_file_are_refused(given, name):
    secret = given.parent / "secret.txt"

    def store(file, name, shape, dtype):
        file.create_dataset(name, shape, dtype, external=[(str(secret), 0, h5py.h5f.UNLIMITED)])

    replaced(given, name, store)
    said = refusals(given)
    assert any(f"{TAKE}.h5: /{name} is stored in another file, {secret}; " in one for one in said), said


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("target", ["secret.h5", "pipe", "here"])
def test_views_of_other_arrays_are_refused(given, name, target):
    os.mkfifo(given.parent / "pipe")

    def view(file, name, shape, dtype):
        count = int(np.prod(shape))
        source = h5py.VirtualSource("." if target == "here" else str(given.parent / target), "bytes", (count,), dtype=np.uint8)
        layout = h5py.VirtualLayout((count,), np.uint8)
        layout[:] = source
        file.create_virtual_dataset(name, layout)

    replaced(given, name, view)
    said = refusals(given)
    assert any(f"/{name} is a view of datasets in other files" in one for one in said), said


@pytest.mark.parametrize("name", [*PLACES, "data/demo_0/obs", "meta/demo_0", "data/demo_0", "meta"])
@pytest.mark.parametrize("target", ["secret.h5", "pipe", "/dev/zero", "nowhere.h5", None])
def test_links_out_of_a_shard_are_refused(given, name, target):
    os.mkfifo(given.parent / "pipe")
    with shard(given) as file:
        del file[name]
        file[name] = h5py.SoftLink("/data") if target is None else h5py.ExternalLink(os.path.join(given.parent, target), "/bytes")
    said = refusals(given)
    assert any(f"/{name} is a link to " in one for one in said), said
    assert any("a dataset has all its bytes in its own files" in one for one in said)


def test_a_link_anywhere_is_found_before_h5py_itself_is_given_to_the_user(given):
    with shard(given) as file:
        file["meta/demo_0/notes/deep"] = h5py.ExternalLink(str(given.parent / "secret.h5"), "/bytes")
    with package.open(given) as ds:
        assert ds[0]["pose"][:].shape == (12, 7) and list(ds[0].group)
        with pytest.raises(TakesetError, match=f"{TAKE}.h5: /meta/demo_0/notes/deep is a link to .*secret.h5:/bytes"):
            ds[0].meta


def test_groups_that_contain_themselves_are_refused(given):
    with shard(given) as file:
        file["data/demo_0/loop"] = file["data"]
    with h5py.File(given / "dataset.h5", "r+") as file:
        file["stats/pose/loop"] = file["stats"]
    with package.open(given) as ds:
        for read in (lambda: ds[0].group, lambda: ds.statistics):
            with pytest.raises(TakesetError, match="loop.* is a group within itself"):
                read()
        assert ds[0]["pose"][:].shape == (12, 7)


# What an index names


@pytest.mark.parametrize("target", [
    "../secret.h5", "{outside}/secret.h5", "episodes/../../secret.h5", "secret.h5", "episodes/pipe", "{outside}/pipe", "episodes/.h5", "episodes//glove.h5", ".",
    "episodes/sub/glove.h5", "/dev/zero", "episodes/gl\nove.h5",
])  # fmt: skip
def test_an_index_leads_to_nothing_but_its_shards(given, target):
    for pipe in given.parent / "pipe", given / "episodes/pipe":
        os.mkfifo(pipe)
    with h5py.File(given / "dataset.h5", "r+") as file:
        for section in "data", "meta":
            del file[section]["demo_000000"]
            file[section]["demo_000000"] = h5py.ExternalLink(target.format(outside=given.parent), "/group")
    with package.open(given) as ds:
        for read in (lambda: ds[0]["pose"], lambda: len(ds[0]), lambda: ds[0].group, lambda: ds[0].times_ns):
            with pytest.raises(TakesetError, match="/data/demo_000000 is a link to [^;]*:/group; links of a dataset lead to episodes/ID.h5"):
                read()
        assert ds[1]["pose"][:].shape[1] == 7 and "is a link to" in repr(ds[0]) and "is a link to" in ds._repr_html_()


@pytest.mark.parametrize("section", ["data", "meta", "mask", "stats"])
@pytest.mark.parametrize("kind", ["external", "soft"])
def test_the_groups_of_an_index_are_its_own(given, section, kind):
    os.mkfifo(given.parent / "pipe")
    with h5py.File(given / "dataset.h5", "r+") as file:
        del file[section]
        file[section] = h5py.SoftLink("/elsewhere") if kind == "soft" else h5py.ExternalLink(str(given.parent / "pipe"), "/")
    with pytest.raises(TakesetError, match=f"dataset.h5: /{section} is a link to"):
        with package.open(given) as ds:
            ds.splits, ds.statistics


def put(place, kind, monkeypatch):
    """Puts a file of this kind in a place."""
    match kind:
        case "pipe": os.mkfifo(place)
        case "folder": place.mkdir()
        case "socket":
            monkeypatch.chdir(place.parent)  # The paths of sockets are short.
            socket.socket(socket.AF_UNIX).bind(place.name)
        case _: place.symlink_to(kind)


@pytest.mark.parametrize("name, kind", [
    ("episodes", "link outside"), ("episodes", "link inside"),
    *((name, kind) for name in ("dataset.h5", "manifest.json", "episodes/glove.h5")
      for kind in ("link outside", "link inside", "pipe", "socket", "folder", "/dev/zero")),
])  # fmt: skip
def test_the_files_of_a_dataset_are_regular_files(given, name, kind, monkeypatch):
    place, aside = given / name, given / "aside"
    place.rename(aside if kind == "link inside" else given.parent / "aside")
    match kind:
        case "link outside": place.symlink_to(given.parent / "aside")
        case "link inside": place.symlink_to(aside)
        case _: put(place, kind, monkeypatch)
    what = {"pipe": "a pipe", "folder": "a directory", "socket": "a socket"}.get(kind, "a symbolic link, and links in a dataset are never followed")
    with pytest.raises(TakesetError, match=f"{name} is {what}"):
        with package.open(given) as ds:
            ds[0]["pose"]
            ds.takes


def test_what_is_opened_by_its_name_may_be_a_link(given, tmp_path):
    """Its user has made it, and no dataset names it."""
    for name, target in ("folder", given), ("index.h5", given / "dataset.h5"), ("shard.h5", given / f"episodes/{TAKE}.h5"):
        (tmp_path / name).symlink_to(target)
        with package.open(tmp_path / name) as ds:
            assert ds[0]["pose"][:].shape == (12, 7)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/null", "socket"])
def test_what_is_opened_by_its_name_is_a_regular_file(tmp_path, kind, monkeypatch):
    put(tmp_path / "a.h5", kind, monkeypatch)
    with pytest.raises(TakesetError, match="a.h5 is a (pipe|device|socket); a regular file was expected"):
        package.open(tmp_path / "a.h5")


# What a manifest says


def rewritten(ds, change):
    content = json.loads((ds / "manifest.json").read_text())
    change(content["record"])
    (ds / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["../../ESC", "a/b", "..", ".", "", ".hidden", "a\0b", "a\nb", "x" * 300, "/tmp/ESC", 5, None])
@pytest.mark.parametrize("large", [False, True])
def test_ids_of_takes_are_names_of_files(given, name, large, monkeypatch):
    rewritten(given, lambda record: record["takes"][0].update(id=name))
    if large:
        content = json.loads((given / "manifest.json").read_text())
        takes = ",\n".join(json.dumps(take) for take in content["record"].pop("takes"))
        rest = json.dumps(content["record"])[1:-1]
        (given / "manifest.json").write_text(f'{{"record":{{"takes":[\n{takes}\n],{rest}}},"record_sha256":"","run":null}}\n')
        monkeypatch.setattr(_manifest.Manifest, "IN_MEMORY", 10)
    with package.open(given) as ds:
        for read in (lambda: ds.takes, lambda: ds[0].take, lambda: ds.record, lambda: ds["scan"]):
            with pytest.raises(TakesetError, match="manifest.json is damaged: the id of a take is .*, which cannot be the name of a file"):
                read()


@pytest.mark.parametrize("name", ["../../ESC", "a/b", "..", "", "a\nb", "x" * 300])
def test_ids_of_episodes_are_names_of_files(given, name):
    (given / "manifest.json").unlink()
    with shard(given) as file:
        file["data/demo_0"].attrs["take_id"] = name
    with package.open(given) as ds, pytest.raises(TakesetError, match="the take_id of demo_000000 is .*, which cannot be the name of a file"):
        ds[0].id


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.h5", "", None, 5])
def test_shards_of_a_manifest_are_in_the_dataset(given, path):
    rewritten(given, lambda record: record["takes"][0]["output"].update(path=path))
    with package.open(given) as ds, pytest.raises(TakesetError, match="the shard of glove is not in the dataset"):
        ds.takes


def test_a_manifest_without_end_is_refused_before_it_is_read(given):
    os.truncate(given / "manifest.json", 1 << 40)
    with package.open(given) as ds, pytest.raises(TakesetError, match="manifest.json has 1048576 MiB, and such a file never has more"):
        ds.takes
    (given / "manifest.json").write_bytes(b"")
    os.truncate(given / "manifest.json", 1 << 33)  # of zeros, without an end of a line
    with package.open(given) as ds, pytest.raises(TakesetError, match="manifest.json cannot be read: a line has more than 64 MiB"):
        ds.takes


def test_a_list_of_an_export_is_not_read_without_end(tmp_path):
    os.mkfifo(tmp_path / "takeset-export.json")
    with pytest.raises(TakesetError, match=r"it is an export \(format unknown\)"):
        package.open(tmp_path)


# What a file claims


@pytest.mark.parametrize("options", [dict(chunks=(1, 24, 32, 3)), dict(chunks=(1, 24, 32, 3), compression=9), dict()])
@pytest.mark.parametrize("count", [13, 2**31, 2**40])
def test_rows_that_are_not_stored_are_refused(given, options, count):
    def claim(file, name, shape, dtype):
        file.create_dataset(name, (count, *shape[1:]), dtype, **options)

    replaced(given, "data/demo_0/obs/camera_image", claim)
    with package.open(given) as ds, pytest.raises(TakesetError, match="/obs/camera_image claims .* (rows|bytes).* stored"):
        ds[0]["camera_image"]


@pytest.mark.parametrize("count", [-1, 0, 11, 2**31, 2**40, 2**62])
def test_the_number_of_rows_is_that_of_the_times(given, count):
    with shard(given) as file:
        file["data/demo_0"].attrs["num_samples"] = count
    with package.open(given) as ds:
        for read in (lambda: len(ds[0]), lambda: ds[0]["pose"], lambda: ds[0].segments(), lambda: ds[0]["actions"].valid):
            with pytest.raises(TakesetError, match="num_samples|and its times are not as many"):
                read()


def test_rows_that_are_only_zeros_deflated_are_no_memory(given):
    """2 GiB of times in 2 MB of a file."""
    rows, chunk = 2**28, 2**23

    def inflate(file, name, shape, dtype):
        times = file.create_dataset(name, (rows,), np.int64, chunks=(chunk,), compression=9)
        zeros = zlib.compress(bytes(8 * chunk), 9)
        for first in range(0, rows, chunk):
            times.id.write_direct_chunk((first,), zeros)
        file["data/demo_0"].attrs["num_samples"] = rows

    replaced(given, "meta/demo_0/timestamp_ns", inflate)
    with package.open(given) as ds, pytest.raises(TakesetError, match="timestamp_ns has 2048 MiB, more than any column"):
        ds[0].times_ns


def test_every_stream_has_the_rows_of_its_episode(given):
    replaced(given, "data/demo_0/obs/pose", lambda file, name, shape, dtype: file.__setitem__(name, np.zeros((5, *shape[1:]), dtype)))
    with package.open(given) as ds, pytest.raises(TakesetError, match="/obs/pose has 5 rows, and its episode has 12"):
        ds[0]["pose"]


def test_columns_of_whole_numbers_have_no_fractions(given):
    for name in "timestamp_ns", "source_index", "quality", "streams/pose/dt_ns":
        replaced(given, f"meta/demo_0/{name}", lambda file, name, shape, dtype: file.__setitem__(name, np.full(shape, np.nan)))
    with package.open(given) as ds:
        for read in (lambda: ds[0].times_ns, lambda: ds[0].source_index, lambda: ds[0].quality, lambda: ds[0]["pose"].dt_ns):
            with pytest.raises(TakesetError, match="is of type float64; whole numbers were expected"):
                read()


def test_gaps_are_between_rows(given):
    for gaps in [[11, 5]], [[-1, 5]], [[5, 1], [3, 1]], [[2**40, 5]]:
        replaced(given, "meta/demo_0/gaps", lambda file, name, shape, dtype, gaps=gaps: file.__setitem__(name, np.array(gaps)))
        with package.open(given) as ds, pytest.raises(TakesetError, match="the rows of its gaps do not ascend, or are not rows of its 12"):
            ds[0].segments()


def test_a_picture_is_not_decoded_before_its_size_is_known(tmp_path):
    """A PNG file of 20 kB may hold a picture of gigabytes, and one of another format may start another program."""
    Image.new("1", (9000, 9000)).save(tmp_path / "a.png")
    out = np.zeros((3, 4, 3), np.uint8)
    with pytest.raises(TakesetError, match="the image is 9000x9000, and its dataset says 4x3"):
        _images.decode_into(out, (tmp_path / "a.png").read_bytes())
    Image.new("RGB", (4, 3)).save(tmp_path / "a.gif")
    with pytest.raises(TakesetError, match="the image cannot be decoded"):
        _images.decode_into(out, (tmp_path / "a.gif").read_bytes())


# One door


def test_only_one_module_knows_hdf5_and_one_opens_files():
    imports, opens = set(), set()
    for path in (ROOT / "python/takeset").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and "h5py" in ast.unparse(node):
                imports.add(path.stem)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "os.open", "json.load", "json.loads"):
                opens.add(path.stem)
    assert imports == {"_hdf5", "_fork_safety"}  # `_fork_safety` holds a lock of h5py.
    assert opens == {"_regular", "_recognition", "_convert"}  # `_recognition` opens what `_regular` has found, `_convert` writes a pipeline.
