"""Statistics: those of the train split, per unit and size."""

import json

import h5py
import numpy as np
import pytest
from outputs import demos, manifest
from stack_sessions import v1, write


def arrays(demo):
    """What has statistics: the streams, the actions and their parts."""
    found = {name: demo["obs"][name] for name in demo["obs"] if not name.endswith("_valid")}
    return found | {"actions": demo["actions"]} | {f"action_dict/{name}": part for name, part in demo["action_dict"].items()}


def valid_rows(demo, meta, key):
    """The rows of an array that count, an element that is masked being NaN."""
    rows = arrays(demo)[key][:].astype("f8")
    if key == "camera_depth":
        rows[rows == 0] = np.nan
    if key.startswith("action"):
        own = key + "_valid"
        rows[(meta[own] if own in meta else demo["actions_valid"])[:] == 0] = np.nan
    return rows


def test_statistics_are_those_of_the_train_split(dataset):
    with h5py.File(dataset / "dataset.h5") as f:
        train = [n.decode() for n in f["mask/train"][:]]
        groups = [*(key for key in f["stats"] if key != "action_dict"), *(f"action_dict/{part}" for part in f["stats/action_dict"])]
        assert set(groups) == {key for name in train for key in arrays(f["data"][name])}
        assert {"actions", "action_dict/joints", "action_dict/relative_rotation_6d"} < set(groups)
        for key in groups:
            stats = f["stats"][key]
            assert set(stats) == {"count", "mean", "std", "min", "max", "q01", "q99"}
            assert dict(stats.attrs) == {"unit": arrays(f["data"][train[0]])[key].attrs["unit"]}
            rows = np.concatenate([valid_rows(f["data"][name], f["meta"][name], key) for name in train])
            per_channel = rows.reshape(-1, rows.shape[-1])
            for channel, values in enumerate(per_channel.T):
                values = values[np.isfinite(values)]
                assert stats["count"][channel] == len(values)
                assert stats["mean"][channel] == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
                assert stats["std"][channel] == pytest.approx(values.std(), rel=1e-6, abs=1e-6)
                assert stats["min"][channel] == values.min() and stats["max"][channel] == values.max()
                for q, name in (0.01, "q01"), (0.99, "q99"):
                    # Exact of few values, and else within the buckets of 12 significant bits.
                    close = {"rel": 2**-11, "abs": 1e-6} if key.startswith("camera") else {"rel": 1e-14, "abs": 0}
                    assert stats[name][channel] == pytest.approx(np.quantile(values, q), **close), (key, name)


def test_shards_keep_their_statistics_to_be_merged(dataset):
    for path in sorted((dataset / "episodes").iterdir()):
        with h5py.File(path) as f:
            assert sorted(f) == ["data", "meta"]  # statistics of a dataset are the index's
            own = f["meta/demo_0/statistics"]
            assert (own.dtype.str, own.ndim, own.attrs["unit"]) == ("|u1", 1, "JSON")
            named = [one["name"] for one in json.loads(own[:].tobytes())]
            assert sorted(named) == sorted(arrays(f["data/demo_0"]))


# Takes that mean different things by one key


def test_takes_of_other_units_and_sizes_are_reported_and_never_merged(takeset, tmp_path):
    from scans import session as scan

    takeset.simulate(tmp_path / "in/metres", "--seconds", 0.3, "--size", "64x48", "--depth-size", "16x12")
    scan(times="time").write(tmp_path / "in/millimetres")
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align]\n")
    done = takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    findings = manifest(tmp_path / "out")["record"]["findings"]
    assert {f["code"] for f in findings} == {"mixed-units", "mixed-sizes"} and {f["severity"] for f in findings} == {"warning"}
    units = next(f["message"] for f in findings if f["code"] == "mixed-units" and "camera_depth" in f["message"])
    sizes = next(f["message"] for f in findings if f["code"] == "mixed-sizes" and "camera_image" in f["message"])
    assert "metres" in units and "millimetres" in units and "48x64" in sizes and "120x160" in sizes
    assert all(f["message"] in done.stdout + done.stderr for f in findings)
    with h5py.File(tmp_path / "out/dataset.h5") as f:
        depth = {key: stats for key, stats in f["stats"].items() if key.split("@")[0] == "camera_depth"}
        assert set(depth) == {"camera_depth@m", "camera_depth@mm"}
        found = demos(tmp_path / "out")
        for unit, name in ("m", "metres"), ("mm", "millimetres"):
            values = found[name][0]["obs/camera_depth"][:].astype("f8")
            stats = depth[f"camera_depth@{unit}"]
            assert stats.attrs["unit"] == unit and stats["count"][0] == (values > 0).sum()
            assert stats["mean"][0] == pytest.approx(values[values > 0].mean(), rel=1e-6) and stats["max"][0] == values.max()
    takeset("verify", tmp_path / "out", check=0)


def test_the_mean_of_no_values_is_unknown(takeset, tmp_path):
    """Of one row there is no action: neither the manifest nor the index invents a number."""
    session = v1()
    session.poses, session.rgb = session.poses[:1], {0: session.rgb[0]}
    write(tmp_path / "short", session.contents())
    takeset.convert(tmp_path / "short", output=tmp_path / "out")
    found = manifest(tmp_path / "out")["record"]["statistics"]["actions"]
    assert found["count"] == [0] * 9 and found["mean"] == found["min"] == [None] * 9
    takeset("verify", tmp_path / "out", check=0)
