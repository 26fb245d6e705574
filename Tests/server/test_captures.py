"""The list of captures, one capture, and its removal."""

import datetime
import json
import uuid

import conftest
import pytest
import requests
from devices import add_key
from phone import Phone, capture, database, error, rows
from system import processor_seconds

NAMES = (
    "id", "type", "status", "reason", "project", "device", "name", "receivedAt", "bytes", "contentDigest", "requestDigest",
    "idempotencyKey", "answer", "signature", "isVerified", "evidence", "rows",
)


def fill(server, count, **same):
    """Captures of known ages, the newest last. Their ids in that order."""
    found = []
    for number in range(count):
        values = {
            "id": str(uuid.UUID(int=number, version=4)), "type": "video", "status": "complete", "project": "default", "name": f"n{number}",
            "receivedAt": 1_764_239_420_123 + 1000 * number, "bytes": number, "signature": "s2", "isVerified": 1,
        }
        found.append({**dict.fromkeys(NAMES), **values, **{name: value(number) if callable(value) else value for name, value in same.items()}})
    with database(server) as connection:
        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO capture ({', '.join(NAMES)}) VALUES ({', '.join(':' + name for name in NAMES)})", found)
        connection.execute("COMMIT")
    return [row["id"] for row in found]


def listed(server, query="", **options):
    answer = server.get(f"/api/v1/captures{query}", **options)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"data", "meta"} and set(body["meta"]) == {"next", "request_id", "timestamp"}
    return [found["capture_id"] for found in body["data"]], body["meta"]["next"]


def test_a_capture_in_the_list(server):
    assert listed(server) == ([], None)
    ids = fill(server, 1, device="d", rows=12, reason='a "reason" \x01 \\ ü', status="rejected")
    time = datetime.datetime.fromtimestamp(1_764_239_420.123, datetime.UTC)
    assert server.get("/api/v1/captures").json()["data"] == [{
        "capture_id": ids[0], "type": "video", "status": "rejected", "reason": 'a "reason" \x01 \\ ü', "device_id": "d", "name": "n0",
        "project": "default", "received_at": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "bytes": 0, "rows": 12,
        "signature": "s2", "is_verified": True, "verification_url": f"{server.url}/verify/{ids[0]}",
    }]


def test_pages(server):
    """Newest first; all captures once, also those of the same millisecond."""
    ids = fill(server, 20, receivedAt=lambda number: 1_764_239_420_000 + number // 4)
    for limit in (1, 3, 7, 20):
        found, cursor = [], ""
        while cursor is not None:
            page, cursor = listed(server, f"?limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
            assert len(page) == limit or cursor is None
            found += page
        assert found == sorted(ids, reverse=True) == ids[::-1], limit


def test_captures_that_come_meanwhile_do_not_shift_pages(server):
    ids = fill(server, 6)
    first, cursor = listed(server, "?limit=3")
    newer = str(uuid.uuid4())
    rows(server, f"INSERT INTO capture ({', '.join(NAMES)}) SELECT ?, {', '.join(NAMES[1:])} FROM capture LIMIT 1", newer)
    rows(server, "UPDATE capture SET receivedAt = receivedAt + 1000000 WHERE id = ?", newer)
    second, end = listed(server, f"?limit=3&cursor={cursor}")
    assert first + second == ids[::-1] and end is None


def test_filters(server):
    types, states = ["video", "session", "movie", "stream"], ["processing", "complete", "failed", "rejected", "quarantined"]
    ids = fill(server, 40, type=lambda number: types[number % 4], status=lambda number: states[number % 5])
    for index, kind in enumerate(types):
        assert listed(server, f"?type={kind}")[0] == ids[index::4][::-1]
    for index, status in enumerate(states):
        assert listed(server, f"?status={status}")[0] == ids[index::5][::-1]
    assert listed(server, "?type=session&status=failed") == ([ids[37], ids[17]], None)
    page, cursor = listed(server, "?type=video&limit=4")
    assert page + listed(server, f"?type=video&limit=50&cursor={cursor}")[0] == ids[0::4][::-1]


def test_filters_by_device_and_project(server):
    phones = ["550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"]
    ids = fill(server, 12, device=lambda number: phones[number % 2], project=lambda number: ["hall", "kitchen", "a&b"][number % 3])
    assert listed(server, f"?device={phones[1]}") == (ids[1::2][::-1], None)
    assert listed(server, f"?device={phones[0].upper()}&project=kitchen")[0] == [ids[10], ids[4]]
    assert listed(server, "?project=a%26b")[0] == ids[2::3][::-1] and listed(server, "?project=cellar") == ([], None)
    page, cursor = listed(server, "?project=hall&limit=3")
    assert page + listed(server, f"?project=hall&cursor={cursor}")[0] == ids[0::3][::-1]


@pytest.mark.parametrize("query", [
    "device=x", "device=", "limit=0", "limit=-1", "limit=x", "limit=", "limit=10001", "limit=99999999999999999999", "type=photo", "status=", "cursor=x", "cursor=1_2",
    "cursor=%00", "cursor=1_550e8400-e29b-41d4-a716-446655440000_1", "status=complete'%20OR%201=1--",
])
def test_queries_that_make_no_sense(common, query):
    assert error(common.get(f"/api/v1/captures?{query}")) == (400, "VALIDATION_ERROR")


@pytest.fixture(scope="class")
def many(tmp_path_factory):
    """Servers that have a thousand and ten thousand captures, with evidence as long as a genuine one's."""
    servers = []
    types, states = ["video", "session", "movie", "stream"], ["processing", "complete", "failed", "rejected", "quarantined"]
    for count in (1000, 10_000):
        servers.append(conftest.Server(tmp_path_factory.mktemp("many") / "data").start())
        fill(servers[-1], count, device=lambda number: f"550e8400-e29b-41d4-a716-44665544{number % 50:04}", evidence=json.dumps({"chain": "x" * 3000}),
             answer="x" * 300, type=lambda number: types[number % 4], status=lambda number: states[number % 5], project=lambda number: f"p{number % 10}")
    yield servers
    for server in servers:
        server.kill()


class TestTenThousand:
    """Time of the processor, which does not depend on what else this machine does, in seconds."""

    def used(self, server, *queries):
        with requests.Session() as session:
            def get(query):
                answer = session.get(f"{server.url}/api/v1/captures?{query}")
                assert answer.status_code == 200
                return answer.json()

            pages = [get(query) for query in queries]
            before, rounds = processor_seconds(server.process.pid), 0
            while (spent := processor_seconds(server.process.pid) - before) < 0.2:
                for query in queries:
                    get(query)
                rounds += 1
            return pages, spent / rounds

    def test_all_of_them(self, many):
        (page,), seconds = self.used(many[1], "limit=10000")
        _, tenth = self.used(many[1], "limit=1000")
        assert len(page["data"]) == 10_000 and page["meta"]["next"] is None and seconds < 25 * tenth  # what is linear is 10

    @pytest.mark.parametrize("query", [
        "", "status=failed", "type=movie", "type=movie&status=failed", "project=p3", "project=p3&status=rejected", "status=processing&type=stream",
        "device=550e8400-e29b-41d4-a716-446655440007",
    ])
    def test_a_page_costs_as_much_among_more_captures(self, many, query):
        cursor = f"{1_764_239_420_123 + 1000 * 600}_{uuid.UUID(int=600, version=4)}"
        queries = [f"{query}&limit=20", f"{query}&limit=20&cursor={cursor}"]
        (_, little), (pages, much) = (self.used(server, *queries) for server in many)
        assert all(page["data"] for page in pages) and much < 3 * little

    def test_lists_are_read_from_indexes_alone(self, many):
        """The rows of the table are long: they have evidence and answers."""
        for condition in ("", "WHERE project = 'p3'", "WHERE (receivedAt, id) < (1, 'a')"):
            sql = f"SELECT bytes, id, device, isVerified, name, project, reason, receivedAt, rows, signature, status, type FROM capture {condition}"
            plan = rows(many[1], f"EXPLAIN QUERY PLAN {sql} ORDER BY receivedAt DESC, id DESC")
            assert len(plan) == 1 and "COVERING INDEX" in plan[0][3], plan


class TestOne:
    def test_with_files_and_evidence(self, server):
        phone, found = Phone(server), capture()
        accepted = phone.send(found, "s1").json()["data"]
        id = accepted["capture_id"]
        body = server.get(f"/api/v1/captures/{id.upper()}").json()
        assert set(body["meta"]) == {"request_id", "timestamp"}
        data = body["data"]
        assert {name: data[name] for name in accepted} == accepted
        assert data["evidence"] is None and data["reason"] is None and data["is_verified"] is True and data["device_id"] == phone.id.lower()
        assert [entry["name"] for entry in data["files"]] == ["depth.gz", "hash_chain.json", "metadata.json", "received.json", "video.mp4"]
        assert data["files"] == [
            {"name": name, "bytes": size, "sha256": digest}
            for name, size, digest in rows(server, "SELECT name, bytes, sha256 FROM file ORDER BY name")
        ]
        evidence = {"chain": {"state": "sound", "frames": 6}, "levels": ["bytes-sealed-at-ingest"], "depth": {"depth_consistency": 0.99566}}
        rows(server, "UPDATE capture SET evidence = ?, status = 'rejected', reason = 'the chain is broken'", json.dumps(evidence))
        data = server.get(f"/api/v1/captures/{id}").json()["data"]
        assert (data["evidence"], data["status"], data["reason"]) == (evidence, "rejected", "the chain is broken")

    @pytest.mark.parametrize("id", ["550e8400-e29b-41d4-a716-446655440000", "x", "..%2f..", "%00", "x" * 5000])
    def test_that_is_not_there(self, common, id):
        assert error(common.get(f"/api/v1/captures/{id}")) == (404, "CAPTURE_NOT_FOUND")
        assert error(requests.delete(f"{common.url}/api/v1/captures/{id}", timeout=300)) == (404, "CAPTURE_NOT_FOUND")


class TestRemoval:
    def test_of_row_and_files(self, server):
        phone = Phone(server)
        kept, removed = (phone.send(capture(number), "s1").json()["data"]["capture_id"] for number in (1, 2))
        answer = requests.delete(f"{server.url}/api/v1/captures/{removed}", timeout=300)
        assert answer.status_code == 204 and answer.content == b""
        assert server.get(f"/api/v1/captures/{removed}").status_code == 404
        assert requests.delete(f"{server.url}/api/v1/captures/{removed}", timeout=300).status_code == 404
        assert [path.name for path in (server.data / "captures").iterdir()] == [kept]
        for table, column in (("capture", "id"), ("file", "capture"), ("conversion", "capture")):
            assert rows(server, f"SELECT DISTINCT {column} FROM {table}") == [(kept,)]
        # Its parts can be sent again.
        assert phone.send(capture(2), "s1").json()["data"]["capture_id"] != removed

    def test_not_while_it_is_converted(self, server):
        id = Phone(server).send(capture(), "s1").json()["data"]["capture_id"]
        rows(server, "UPDATE conversion SET state = 'running'")
        answer = requests.delete(f"{server.url}/api/v1/captures/{id}", timeout=300)
        assert error(answer) == (409, "CAPTURE_BUSY") and int(answer.headers["Retry-After"]) > 0
        assert (server.data / "captures" / id / "video.mp4").exists() and rows(server, "SELECT id FROM capture") == [(id,)]
        rows(server, "UPDATE conversion SET state = 'done'")
        assert requests.delete(f"{server.url}/api/v1/captures/{id}", timeout=300).status_code == 204


def test_keys_show_only_their_project(start):
    server = start("--require-key")
    ids = fill(server, 6, project=lambda number: ["hall", "kitchen"][number % 2])
    hall, kitchen = ({"Authorization": f"Bearer {add_key(server, '--project', project)}"} for project in ("hall", "kitchen"))
    assert listed(server, headers=hall)[0] == ids[4::-2] and listed(server, headers=kitchen)[0] == ids[5::-2]
    assert listed(server, "?project=kitchen", headers=hall) == ([], None) and listed(server, "?project=hall", headers=hall)[0] == ids[4::-2]
    url = f"{server.url}/api/v1/captures/{ids[0]}"
    for method in ("GET", "DELETE"):
        assert error(requests.request(method, url, timeout=300)) == (401, "KEY_REQUIRED")
        assert error(requests.request(method, url, headers=kitchen, timeout=300)) == (404, "CAPTURE_NOT_FOUND")
    assert requests.get(url, headers=hall, timeout=300).status_code == 200
    assert requests.delete(url, headers=hall, timeout=300).status_code == 204
