"""`/metrics` in Prometheus' text format."""

import math
import os

import requests
from pages import insert
from phone import rows
from prometheus_client.parser import text_string_to_metric_families
from test_keys import add, bearer


def families(server, **options):
    """What the parser that Prometheus publishes finds on the page."""
    answer = server.get("/metrics", **options)
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("\n")
    found = list(text_string_to_metric_families(answer.text))
    assert len({family.name for family in found}) == len(found)
    for family in found:
        assert family.type in ("counter", "gauge", "histogram") and family.documentation.endswith("."), family
        if family.type == "histogram":
            check_histogram(family)
    # Each family begins with its two lines; the parser would read samples without them as well.
    lines = answer.text.splitlines()
    assert sum(line.startswith("# HELP ") for line in lines) == sum(line.startswith("# TYPE ") for line in lines) == len(found)
    return found


def metrics(server, **options):
    """Values by name and labels."""
    found = {}
    for family in families(server, **options):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found and math.isfinite(sample.value), sample
            found[key] = sample.value
    return found


def check_histogram(family):
    series = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        entry = series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
        if sample.name.endswith("_bucket"):
            entry["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            entry[sample.name.removeprefix(family.name)] = sample.value
    assert series
    for entry in series.values():
        bounds, counts = zip(*entry["buckets"])
        assert list(bounds) == sorted(bounds) and bounds[-1] == math.inf and list(counts) == sorted(counts)
        assert counts[-1] == entry["_count"] and entry["_sum"] >= 0


def test_requests_by_status(server):
    """A request is counted after it was answered."""

    def counted(route, *statuses):
        return sum(value for (name, labels), value in metrics(server).items() if name == "hb_requests_total"
                   and dict(labels).get("http_route") == route and dict(labels)["http_response_status_code"] in statuses)

    server.until(lambda: counted("/health", "200") > 0)  # whoever started it has asked
    first = counted("/health", "200")
    for _ in range(5):
        assert server.get("/health").ok
    for _ in range(3):
        assert server.get("/verify/nothing").status_code == 404
    assert requests.post(f"{server.url}/api/v1/captures/video", data=b"x", timeout=300).status_code in (400, 401)
    server.until(lambda: (counted("/health", "200") - first, counted("/verify/{id}", "404"), counted("/api/v1/captures/video", "400", "401")) == (5, 3, 1))
    took = [value for (name, labels), value in metrics(server).items()
            if name == "http_server_request_duration_seconds_count" and dict(labels)["http_route"] == "/health"]
    assert took and took[0] >= 5
    buckets = {frozenset(dict(labels)) for name, labels in metrics(server) if name == "http_server_request_duration_seconds_bucket"}
    assert buckets == {frozenset({"http_route", "http_request_method", "http_response_status_code", "le"})}


def test_captures_conversions_and_free_bytes(server):
    for status, number in (("complete", 3), ("rejected", 2), ("processing", 1)):
        for _ in range(number):
            capture = insert(server, status=status, bytes=1000)
    rows(server, "INSERT INTO conversion (capture, state, attempts, notBefore) VALUES (?, 'waiting', 0, 0)", capture)

    def values(name):
        return {labels[0][1]: value for (found, labels), value in metrics(server).items() if found == name}

    assert values("takeset_captures") == {"complete": 3, "rejected": 2, "processing": 1, "failed": 0, "quarantined": 0}
    assert values("takeset_capture_bytes") == {"complete": 3000, "rejected": 2000, "processing": 1000, "failed": 0, "quarantined": 0}
    assert values("takeset_conversions") == {"waiting": 1, "running": 0, "done": 0}
    disk = os.statvfs(server.data)
    assert abs(metrics(server)["takeset_free_bytes", ()] / (disk.f_bavail * disk.f_frsize) - 1) < 0.1
    rows(server, "DELETE FROM capture WHERE status = 'rejected'")
    rows(server, "UPDATE conversion SET state = 'done'")
    assert values("takeset_captures")["rejected"] == 0 and values("takeset_conversions") == {"waiting": 0, "running": 0, "done": 1}


def test_a_key_sees_the_figures_of_its_project_and_a_monitors_those_of_the_server(start):
    server = start("--require-key", "--project-quota", 10**12)
    for project, status, number in ("kitchen", "complete", 2), ("lab", "complete", 1), ("lab", "processing", 1):
        for _ in range(number):
            capture = insert(server, project=project, status=status, bytes=1000)
    rows(server, "INSERT INTO conversion (capture, state, attempts, notBefore) VALUES (?, 'waiting', 0, 0)", capture)
    rows(server, "INSERT INTO upload (id, length, offset, metadata, project, createdAt, expiresAt) VALUES ('u', 500, 0, '', 'kitchen', 0, 4000000000000)")
    server.until(lambda: any(name == "hb_requests_total" for name, _ in metrics(server, headers=bearer(add(server.data, "--power", "monitor")))))
    seen = {}
    for name, options in {"kitchen": ["--project", "kitchen"], "reader": ["--project", "kitchen", "--power", "read"], "all": ["--power", "monitor"]}.items():
        seen[name] = metrics(server, headers=bearer(add(server.data, "--name", name, *options)))
    assert seen["kitchen"] == seen["reader"]
    assert {name for name, _ in seen["kitchen"]} == {
        "takeset_captures", "takeset_capture_bytes", "takeset_conversions", "takeset_project_bytes", "takeset_project_quota_bytes"}
    figures = {
        ("takeset_captures", "status", "complete"): (2, 3), ("takeset_captures", "status", "processing"): (0, 1),
        ("takeset_conversions", "state", "waiting"): (0, 1), ("takeset_project_bytes", "project", "kitchen"): (2500, 2500),
        ("takeset_project_bytes", "project", "lab"): (None, 2000)}
    for (name, label, value), expected in figures.items():
        assert tuple(seen[who].get((name, ((label, value),))) for who in ("kitchen", "all")) == expected, name
    assert seen["all"]["takeset_project_quota_bytes", ()] == 10**12 and {"takeset_free_bytes", "hb_requests_total"} <= {name for name, _ in seen["all"]}
    monitor = bearer(add(server.data, "--power", "monitor"))
    for path in "/", "/jobs", "/api/v1/captures", f"/api/v1/captures/{capture}", "/datasets", "/live":
        assert server.get(path, headers=monitor).status_code == 403, path
    assert server.get("/metrics", headers=bearer(add(server.data, "--power", "upload"))).status_code == 403


def test_strange_paths_make_no_new_series(server):
    """Whoever asks for many addresses does not fill the memory."""
    metrics(server)
    server.get("/nothing/0")
    server.get("/verify/0")

    def settled():
        """How many there are once the requests so far are counted, which happens after their answers."""
        found = metrics(server)
        counted = {dict(labels).get("http_route") for name, labels in found if name == "hb_requests_total"}
        return {"NotFound", "/verify/{id}", "/metrics"} <= counted and len(found)

    known = server.until(settled)
    for number in range(50):
        server.get(f"/nothing/{number}\"\\\n")
        server.get(f"/verify/{number}")
    assert len(metrics(server)) == known
