"""`takeset report`: what the page says of a dataset, against h5py, NumPy and Pillow, and what it is made of."""

import base64
import json
import re

import numpy as np
import pytest
from command import ROOT
from outputs import demos, manifest
from PIL import Image
from report_pages import HOSTILE, cells, csp_digest, dataset, distance, page, paths, polylines, report  # noqa: F401 (fixtures)


# What the page says


def test_every_entry_of_the_manifest_is_on_the_page(page, dataset):
    record = manifest(dataset)["record"]
    assert set(page.rows) == {t["id"] for t in record["takes"]} and len(page.rows) == len(record["takes"]) == 8
    parts = {take: part for part in ("train", "valid", "test") for take in record["splits"][part]}
    for take in record["takes"]:
        row, details = page.rows[take["id"]], page.details(take["id"])
        assert (row["outcome"], row.get("reason"), row.get("reader")) == (take["outcome"], take["reason"], take["reader"])
        assert details["findings"] == take["findings"] and row.get("split") == parts.get(take["id"])
        assert {f["code"] for f in take["findings"]} <= set(row["codes"]) <= set(page.data["codes"])
        if take["output"]:
            assert (row["bytes"], row["frames"]) == (take["output"]["bytes"], take["output"]["samples"])
    assert page.rows[HOSTILE]["outcome"] == "rejected" and page.rows["failed"]["outcome"] == "failed"
    assert "min-frames" in page.rows[HOSTILE]["codes"]
    # Worst first.
    assert page.order[:2] == ["failed", HOSTILE]


def test_findings_have_the_words_of_explain(page, takeset):
    # The rules of `verify --for` have codes too, which are no findings of takes.
    outcomes = {"written", "dataset", "failed", "rejected"}
    pages = {p["code"]: p for p in json.loads(takeset("explain", "--json", check=0).stdout) if p["outcome"] in outcomes}
    assert {"metadata-invalid", "min-frames", "joint-dead"} & set(page.data["codes"])
    for code, words in page.data["codes"].items():
        assert words == {"meaning": pages[code]["meaning"], "advice": pages[code]["advice"]}
    shown = page.section("Findings").text.replace("\n", " ")
    for code in page.data["codes"]:
        assert code in shown and pages[code]["meaning"].replace("`", "") in shown


def test_the_head_of_the_page_sums_the_dataset_up(page, dataset):
    record = manifest(dataset)["record"]
    names = [e.text for e in page.tree.one("dl", class_="figures").all("dt")]
    values = [e.text for e in page.tree.one("dl", class_="figures").all("dd") if "class" not in e.attributes]
    found = dict(zip(names, values))
    assert found["Takes"] == "8" and found["Episodes"] == "6"
    assert int(found["Frames"].replace(",", "")) == record["totals"]["frames_out"]
    seconds = sum(meta["timestamp_ns"][-1] for _, meta in demos(dataset).values()) / 1e9
    assert float(found["Duration"].split()[0]) == pytest.approx(seconds, rel=0.005)
    for part, episodes, frames, _, _ in page.cells("Split"):
        members = [t for t in record["takes"] if t["id"] in record["splits"][part]]
        assert (int(episodes), int(frames)) == (len(members), sum(t["output"]["samples"] for t in members))
    text = page.section("Provenance").text
    assert manifest(dataset)["record_sha256"] in text and record["pipeline_sha256"] in text and record["tool"]["version"] in text
    for step in record["pipeline"]["transforms"]:
        assert next(iter(step)) in page.section("Pipeline").text


def test_times_gaps_and_alignment_errors_are_those_of_the_file(page, dataset):
    for take, (demo, meta) in demos(dataset).items():
        row = page.rows[take]
        times, gaps = meta["timestamp_ns"][:], meta["gaps"][:]
        assert row["seconds"] == pytest.approx(times[-1] / 1e9, abs=1e-6) and row["gaps"] == len(gaps)
        period = np.median(np.diff(times))
        assert row["frames_missing"] == sum(round(step / period) - 1 for _, step in gaps)
        streams = {s["name"]: s for s in page.details(take)["streams"]}
        assert set(streams) == set(meta["streams"])
        for name, group in meta["streams"].items():
            has_sample = group["source_index"][:] >= 0
            delays, stream = group["dt_ns"][:][has_sample] / 1e6, streams[name]
            assert stream["rows"] == len(times) and stream["valid"] <= has_sample.sum()
            if len(delays):
                assert stream["max_ms"] == pytest.approx(np.abs(delays).max(), abs=1e-3)
                assert stream["median_ms"] == pytest.approx(np.quantile(delays, 0.5, method="lower"), abs=1e-3)
                assert stream["p95_ms"] == pytest.approx(np.quantile(np.abs(delays), 0.95, method="higher"), abs=1e-3)
    assert page.rows["v1"]["gaps"] > 0 and page.rows["v1"]["frames_missing"] > 0


def test_trajectories_are_the_positions_seen_from_above(page, dataset):
    for take, axes in ("v1", (0, 2)), ("v2", (0, 2)):
        positions = demos(dataset)[take][0]["obs/pose"][:, axes]
        drawing = page.details(take)["trajectory"]
        parts = paths(drawing, "curve")
        points = np.concatenate(parts)
        # One scale for both axes; the line covers the positions.
        extent = np.ptp(positions, axis=0)
        scale = np.ptp(points, axis=0)[extent.argmax()] / extent.max()
        placed = (positions - positions.min(axis=0)) * scale + points.min(axis=0)
        whole = [np.array(p) for p in parts]
        assert max(min(distance(p, line) for line in whole) for p in placed) < 1, take
        assert np.allclose(parts[0][0], placed[0], atol=0.3) and np.allclose(parts[-1][-1], placed[-1], atol=0.3)
        assert {"start", "end"} <= {label[2] for label in drawing["labels"]}
        # The scale bar is as long as it says.
        (bar,) = [p for p in paths(drawing, "axis")]
        length = next(label[2] for label in drawing["labels"] if re.fullmatch(r"[\d.]+ m", label[2]))
        assert np.ptp(bar[:, 0]) == pytest.approx(float(length.split()[0]) * scale, rel=0.02, abs=0.2)
    words = [label[2] for label in page.details("slam")["trajectory"]["labels"]]
    assert any("arbitrary unit" in w for w in words) and "plane of the largest extent" in words


def test_the_plot_of_the_readme_is_the_track_of_the_page(page, dataset, tmp_path, monkeypatch):
    """As matplotlib draws the README's block, in pixels from the top left."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S) if "pyplot" in code]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset").symlink_to(dataset)
    assert block.count("dataset[0]") == 1
    names = {}
    exec(block.replace("dataset[0]", 'dataset["v1"]'), names)
    (line,) = names["right"].get_lines()
    shown = names["right"].transData.transform(line.get_xydata()) * [1, -1]
    pyplot.close("all")
    drawing = page.details("v1")["trajectory"]
    track = np.concatenate(paths(drawing, "curve"))
    # One is the other, moved and made larger: neither turned nor mirrored, and with one scale.
    scale = np.ptp(track[:, 0]) / np.ptp(shown[:, 0])
    placed = (shown - shown.min(axis=0)) * scale + track.min(axis=0)
    assert "x right, z down" in " ".join(label[2] for label in drawing["labels"])
    assert max(distance(p, track) for p in placed) < 1 and np.allclose(placed[[0, -1]], track[[0, -1]], atol=0.5)


def test_joints_have_a_curve_each_and_a_dead_one_has_none(page, dataset):
    (curves,) = [c["drawing"] for c in page.details("v2")["curves"] if c["name"].startswith("joints")]
    names = demos(dataset)["v2"][0]["obs/joints"].attrs["order"].split()
    texts = [label[2] for label in curves["labels"]]
    assert [t for t in texts if t in names] == names
    dead = [name for name in names if np.isnan(demos(dataset)["v2"][0]["obs/joints"][:, names.index(name)]).all()]
    assert len(dead) == texts.count("no value") == 1


def test_histograms_and_the_time_line_cover_all_rows(page, dataset):
    details = page.details("v1")
    delays = demos(dataset)["v1"][1]["streams/camera_depth/dt_ns"][:]
    # A frame has the map of the frame before, its own, or that of the frame after.
    counts = np.unique((delays / 1e7).round(), return_counts=True)[1]
    heights = np.array([np.ptp(box[:, 1]) for box in paths(details["histograms"]["camera_depth"], "bar")])
    assert len(counts) > 1 and heights / heights.max() == pytest.approx(counts / counts.max(), abs=0.03)
    timeline = details["timeline"]
    assert len(paths(timeline, "gap")) == page.rows["v1"]["gaps"]
    lanes = [label[2] for label in timeline["labels"] if label[3] == "end" and not label[2].endswith(" s")]
    assert lanes[:3] == ["frames", "camera_depth", "camera_image"] and "missing" in timeline["title"]
    assert details["gaps"] and "missing" in details["gaps"][0]


def test_each_column_of_actions_has_a_histogram(page, dataset):
    groups = {}
    for demo, _ in demos(dataset).values():
        if "actions" in demo:
            units = demo["action_dict/relative_position"].attrs["unit"]
            valid = demo["actions"][:][demo["actions_valid"][:] == 1]
            groups.setdefault((units, demo["actions"].attrs["camera_axes"]), []).append(valid)
    section = page.section("Actions")
    notes = [e.text for e in section.all("p", class_="note") if e.text.startswith("Valid actions")]
    assert sorted(notes) == sorted(
        f"Valid actions of {len(g)} episode{'s' * (len(g) > 1)}; camera axes {axes}; rotations by columns." for (_, axes), g in groups.items())
    figures = list(section.all("figure"))
    assert len(groups) > 1 and len(figures) == 9 * len(groups)
    names = [f"relative_position[{i}]" for i in range(3)] + [f"relative_rotation_6d[{i}]" for i in range(6)]
    for (unit, axes), parts in groups.items():
        start = next(i for i, f in enumerate(figures) if i % 9 == 0 and next(f.all("figcaption")).text == f"{names[0]} ({unit})")
        for column, values in enumerate(np.concatenate(parts).astype("f8").T):
            figure = figures[start + column]
            assert next(figure.all("figcaption")).text.split(" ")[0] == names[column]
            # The narrowest power of two that needs no more than 40 bins.
            width = next(2.0**e for e in range(-30, 30) if np.ptp(np.floor(values[[values.argmin(), values.argmax()]] / 2.0**e)) < 40)
            counts = np.unique(np.floor(values / width), return_counts=True)[1]
            assert f"histogram of {len(values)} rows" in figure.one("svg").attributes["aria-label"]
            bars = polylines(figure.one("path", class_="bar").attributes["d"])
            heights = np.array([np.ptp(box[:, 1]) for box in bars])
            # A bar has at least a pixel of 58.
            assert heights == pytest.approx(np.maximum(counts / counts.max() * 58, 1), abs=0.11), (unit, names[column])


def test_images_are_those_of_the_file(page, dataset):
    demo = demos(dataset)["v1"][0]
    images = demo["obs/camera_image"]
    strip = page.details("v1")["strips"][0]
    assert strip["key"] == "camera_image" and not strip["depth"] and strip["missing"] == 0
    rows = [k * (len(images) - 1) // 5 for k in range(6)]
    for cell, row in zip(cells(strip), rows):
        expected = Image.fromarray(images[row]).resize((strip["w"], strip["h"]), Image.Resampling.BOX)
        assert np.abs(cell - np.asarray(expected).astype(int)).mean() < 12


def test_depth_is_painted_and_holes_are_seen(page, dataset):
    """From cyan at 0.5 m to magenta at 5 m, orange where there is none."""
    demo = demos(dataset)["v1"][0]
    depth, images = demo["obs/camera_depth"], demo["obs/camera_image"]
    strip = page.details("v1")["strips"][1]
    assert strip["depth"] and strip["key"] == "camera_depth" and len(strip["times"]) == 3
    rows = [k * (len(images) - 1) // 5 for k in (0, 2, 4)]
    for cell, row in zip(cells(strip), rows):
        d = depth[row, :, :, 0].astype(float)
        t = np.clip((d - 0.5) / 4.5, 0, 1)[..., None]
        painted = np.where(d[..., None] > 0, np.concatenate([t, 1 - t, np.ones_like(t)], axis=-1), [0.9, 0.55, 0.1]) * 255
        painted = Image.fromarray(painted.round().astype(np.uint8))
        expected = np.asarray(painted.resize((strip["w"], strip["h"]), Image.Resampling.BILINEAR)).astype(int)
        assert (d > 0).any() and np.abs(cell - expected).mean() < 16
    assert "no depth" in page.html


def test_bundles_have_a_badge(page, dataset):
    entries = {t["id"]: t for t in manifest(dataset)["record"]["takes"]}
    for take, state in ("partial", "partial"), ("signed", "complete"):
        found = entries[take]["verification"]["partial"]
        text = f"Verified: {found['verified_seconds']:.1f} s of {found['recorded_seconds']:.1f} s recorded"
        assert page.rows[take]["verified"] == {"state": state, "text": text}
        details = page.details(take)["verification"]
        for key in "levels", "not_verified":
            assert details[key] == entries[take]["verification"][key]
    assert page.rows["unsigned"]["verified"] == {"state": "none", "text": "Not verified: not signed"}
    assert "verified" not in page.rows["v1"]
    assert not re.search(r"frames?\s+(are|were|is)?\s*verified|verified\s+frames?\b", page.html, re.I)


# What the page is made of


def test_the_page_needs_nothing_else_and_its_policy_allows_nothing_else(page):
    tree = page.tree
    (style,), scripts = list(tree.all("style")), [s for s in tree.all("script") if "type" not in s.attributes]
    assert len(scripts) == 1
    policy = page.policy
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'" and policy["img-src"] == "data:"
    assert policy["style-src"] == csp_digest(style.text) and policy["script-src"] == csp_digest(scripts[0].text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", scripts[0].text)
    for element in tree.all():
        assert not any(key.startswith("on") or key in ("style", "src", "action") for key in element.attributes), element.attributes
        assert element.name not in ("link", "iframe", "object", "embed", "base")
        assert element.attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import", style.text)
    assert set(re.findall(r"https?://[^\s\"'`)]+", page.html)) == {"http://www.w3.org/2000/svg"}
    assert not list(tree.all("meta", **{"http-equiv": "refresh"}))


def test_the_page_has_landmarks_headings_and_labels(page):
    tree = page.tree
    assert tree.one("html").attributes["lang"] == "en" and len(list(tree.all("h1"))) == 1
    for name in "header", "main", "footer":
        assert len(list(tree.all(name))) == 1
    ids = [e.attributes["id"] for e in tree.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for section in tree.one("main").all("section"):
        assert section.attributes["aria-labelledby"] in ids
    for control in [*tree.all("input"), *tree.all("select")]:
        assert control.parent.name == "label" and control.parent.text.strip()
    for head in tree.one("table", id="table").one("thead").all("th"):
        assert head.attributes["scope"] == "col" and head.one("button").text
    for svg in tree.all("svg"):
        # What is in an image is hidden from screen readers, and links are not.
        assert svg.attributes["role"] == ("group" if any(svg.all("a")) else "img") and svg.attributes["aria-label"]
        assert all(link.attributes["aria-label"] for link in svg.all("a"))
    assert tree.one(id="count").attributes["role"] == "status" and tree.one("a", class_="skip").attributes["href"] == "#takes"
    drawings = [d for take in page.order for d in page.details(take).values() if isinstance(d, dict) and "lines" in d]
    assert len(drawings) > 5 and all(d["title"] for d in drawings)


def test_base64_is_that_of_jpeg_files(page):
    strips = [s for take in page.order for s in page.details(take).get("strips", [])]
    assert len(strips) >= 6 and all(s["jpeg"].startswith(base64.b64encode(b"\xff\xd8\xff").decode()) for s in strips)
