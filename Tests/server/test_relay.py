"""The live relay between cameras and viewers."""

import asyncio
import json
import time
from types import SimpleNamespace

import pytest
import websockets
from conftest import free_port
from devices import add_key
from live import QUIET, SECONDS_TO_2001, counts, frame, jpeg, live, next_binary, next_text, socket
from test_keys import keys, listed


@live
async def test_frames_reach_all_viewers_unchanged(server):
    async with socket(server, "/camera") as camera, socket(server, "/viewer") as first, socket(server, "/x/viewer/y?z=1") as second:
        await counts(server, 1, 2)
        for n, data in enumerate([jpeg(1), frame(time.time(), 2), frame(time.time() - SECONDS_TO_2001, 3), b"\xff\xd8" + bytes(5000), bytes(1001), b"\x00" * 3_000_000]):
            await camera.send(data)
            assert (await next_binary(first))[0] == data, n
            assert (await next_binary(second))[0] == data, n
        # One that comes in fragments arrives whole.
        await camera.send([data[:500], data[500:1], data[500:1500], data[1500:]])
        assert (await next_binary(first))[0] == data


@live
async def test_what_is_no_frame_and_no_command(server):
    before = time.time() * 1000
    async with socket(server, "/camera") as camera, socket(server, "/camera") as other, socket(server, "/viewer") as viewer:
        status = await counts(server, 2, 1)
        assert before - 1 <= status["timestamp"] <= time.time() * 1000 + 1 and isinstance(status["timestamp"], int)
        # Viewers send no frames, and cameras no commands.
        await viewer.send(frame(1.0))
        await camera.send('{"command":"start"}')
        await camera.send(bytes(1000))
        await camera.send(b"no frame")
        await camera.send(json.dumps({"type": "other", "padding": "x" * 2000}).encode())
        await camera.send("text that is no JSON " * 100)
        await camera.send(frame(2.0))
        data, texts = await next_binary(viewer)
        assert data == frame(2.0) and all(text["type"] == "camera_status" for text in texts)
        await viewer.send('{"command":"stop"}')
        assert await next_text(other) == {"command": "stop"}


@live
async def test_the_status_of_a_camera_reaches_viewers_with_its_id(server):
    began = int(time.time() * 1000)
    async with socket(server, "/viewer") as viewer, socket(server, "/camera") as camera:
        await counts(server, 1, 1)
        await camera.send(json.dumps({"type": "status", "status": "recording", "timestamp": time.time()}))
        text = await next_text(viewer)
        assert text == {"type": "camera_status", "cameraId": text["cameraId"], "status": "recording"}
        assert began - 1 <= text["cameraId"] <= time.time() * 1000 + 1
        # Also when it is sent as bytes, as some senders do.
        await camera.send(json.dumps({"type": "status", "status": "uploading"}).encode())
        assert (await next_text(viewer))["status"] == "uploading"
        async with socket(server, "/viewer") as late:
            assert await next_text(late) == {**text, "status": "uploading"}
        await camera.close()
        assert await next_text(viewer) == {**text, "status": "disconnected"}


@live
async def test_signaling_is_relayed_as_it_is_understood(server):
    async with socket(server, "/camera") as camera, socket(server, "/viewer") as viewer:
        await counts(server, 1, 1)
        texts = ['{"type":"offer", "sdp":"v=0\\r\\n"}', '{ "candidate" : {"candidate":"c","sdpMLineIndex":0,"sdpMid":"0"},"type":"ice" }']
        await next_text(viewer)
        for text in texts:
            await camera.send(text)
            assert json.loads(await viewer.recv()) == json.loads(text)
        for text in ['{"type":"answer","sdp":"v=0"}', texts[1]]:
            await viewer.send(text)
            assert json.loads(await camera.recv()) == json.loads(text)
        # No command is signaling, whatever it is.
        for text in ('{"type":"ice","command":null}', '{"type":"answer","command":["start"]}', '{"type":"ice","command":"format"}'):
            await viewer.send(text)
            await camera.send(text)
        await viewer.send('{"type":"ice","type":"answer","sdp":"v=1"}')
        text = await camera.recv()
        assert text.count("type") == 1 and json.loads(text)["sdp"] == "v=1"
        await camera.send('{"type":"offer","sdp":"v=2"}')
        assert json.loads(await viewer.recv())["sdp"] == "v=2"


@live
async def test_who_may_only_look_talks_to_no_camera(start):
    server = start("--require-key")
    key, reading = add_key(server), add_key(server, "--power", "read")
    async with socket(server, f"/camera?key={key}") as camera, socket(server, f"/viewer?key={reading}") as viewer, socket(server, f"/viewer?key={key}") as other:
        await counts(server, 1, 2, key)
        for kind in ("answer", "ice"):
            await viewer.send(json.dumps({"type": kind, "sdp": "theirs"}))
        # A parser takes one of two equal members, and another parser the other.
        await viewer.send('{"type":"ice","command":"start","command":null}')
        await viewer.send('{"type":"record","on":true}')
        await next_text(viewer), await next_text(viewer)
        await other.send('{"type":"answer","sdp":"ours"}')
        assert await next_text(camera) == {"type": "answer", "sdp": "ours"}
    assert server.log.read_text().count("/viewer signaling: refused") == 2
    assert server.get(f"/camera?key={reading}").status_code == 403
    assert server.get(f"/camera?key={add_key(server, '--power', 'upload')}").status_code == 426


@live
async def test_commands_of_viewers_and_scripts_reach_all_cameras(server):
    async with socket(server, "/camera") as first, socket(server, "/camera") as second, socket(server, "/viewer") as viewer:
        await counts(server, 2, 1)
        for sent, expected in [
            ({"command": "start"}, {"command": "start"}),
            ({"command": "stop", "extra": 1}, {"command": "stop"}),
            ({"type": "reconnect_request", "reason": "lag"}, {"command": "reconnect"}),
        ]:
            await viewer.send(json.dumps({"command": "format"}))
            await viewer.send(json.dumps(sent))
            assert await next_text(first) == expected and await next_text(second) == expected
        for command in ["start", "stop"]:
            answer = await asyncio.to_thread(server.post, f"/control/{command}")
            assert answer.status_code == 200 and answer.json()["success"] is True and answer.json()["message"]
            assert await next_text(first) == {"command": command} and await next_text(second) == {"command": command}


@live
async def test_pings_are_answered_and_endings_follow_the_protocol(server):
    async with socket(server, "/viewer") as viewer:
        await asyncio.wait_for(await viewer.ping(b"hello"), 300)
        await viewer.close(1000)
        assert viewer.close_code == 1000
    async with socket(server, "/camera", ping_interval=None) as camera:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await camera.send(bytes((16 << 20) + 1))
            await camera.recv()
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    await counts(server, 0, 0)


@live
async def test_the_server_pings_every_15_seconds(server):
    began = time.monotonic()
    async with socket(server, "/viewer") as viewer:
        pings = []
        original = viewer.protocol.receive_data

        def receive(data):
            if data[:2] == b"\x89\x00":
                pings.append(time.monotonic())
            original(data)

        viewer.protocol.receive_data = receive
        while not pings:
            await asyncio.sleep(0.1)
            assert time.monotonic() - began < 300
        assert 15 <= pings[0] - began < 45


@live
async def test_slow_viewers_slow_nobody_and_get_the_newest_frame(server):
    size, count = 40_000, 100
    data = [n.to_bytes(8, "little") + bytes(size) for n in range(count)]
    async with socket(server, "/camera") as camera:
        # They stop reading: with a small window the server soon has to wait for them.
        dead = [await websockets.connect(f"ws://127.0.0.1:{server.port}/viewer", max_size=None, max_queue=1, **QUIET) for _ in range(10)]
        quick = [await websockets.connect(f"ws://127.0.0.1:{server.port}/viewer", max_size=None, **QUIET) for _ in range(30)]
        await counts(server, 1, 40)
        before = server.memory()
        seen, moved = {viewer: [] for viewer in quick}, asyncio.Condition()

        async def watch(viewer):
            while not seen[viewer] or seen[viewer][-1] != count - 1:
                message = await viewer.recv()
                if isinstance(message, bytes):
                    seen[viewer].append(int.from_bytes(message[:8], "little"))
                    async with moved:
                        moved.notify_all()

        tasks = [asyncio.create_task(watch(viewer)) for viewer in quick]
        for n, message in enumerate(data):
            await camera.send(message)
            async with moved:  # the next one goes when all that read have this one; ten that do not must not hinder it
                await moved.wait_for(lambda: all(found and found[-1] >= n for found in seen.values()))
        await asyncio.gather(*tasks)
        assert all(found == list(range(count)) for found in seen.values())
        grown = server.memory() - before
        assert grown < 60e6, grown
        # When it reads again, an idle viewer skips to the newest after what was under way.
        seen = []
        while not seen or seen[-1] != count - 1:
            message = await asyncio.wait_for(dead[0].recv(), 300)
            if isinstance(message, bytes):
                seen.append(int.from_bytes(message[:8], "little"))
        assert len(seen) < count / 2 and seen == sorted(seen)
        for viewer in dead + quick:
            viewer.transport.abort()
    await counts(server, 0, 0)


@live
async def test_a_viewer_that_reads_no_texts_is_dropped_after_a_megabyte(server):
    offer = json.dumps({"type": "offer", "sdp": "x" * 200_000})
    async with socket(server, "/camera") as camera, socket(server, "/viewer") as quick:
        dead = [await websockets.connect(f"ws://127.0.0.1:{server.port}/viewer", max_size=None, max_queue=1, ping_interval=None) for _ in range(20)]
        await counts(server, 1, 21)
        before = server.memory()
        for _ in range(200):
            await camera.send(offer)
            while (await next_text(quick))["type"] != "offer":
                pass
        await counts(server, 1, 1)
        grown = server.memory() - before
        assert grown < 60e6, grown
        for viewer in dead:
            viewer.transport.abort()


@live
async def test_texts_that_are_too_long_are_lost(server):
    async with socket(server, "/viewer") as viewer, socket(server, "/camera") as camera:
        await counts(server, 1, 1)
        for text in [{"type": "status", "status": "x" * 900_000}, {"type": "status", "status": "x" * 257}, {"type": "offer", "sdp": "x" * 300_000}]:
            await camera.send(json.dumps(text))
        await camera.send(json.dumps({"type": "status", "status": "recording"}))
        assert (await next_text(viewer))["status"] == "recording"
        async with socket(server, "/viewer") as late:
            assert (await next_text(late))["status"] == "recording"


@live
async def test_a_key_is_asked_for_where_one_is_needed(start):
    server = start("--require-key")
    key = add_key(server)
    for path in ["/camera", "/viewer?key=wrong", "/k/wrong/camera"]:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with socket(server, path):
                pass
        assert refused.value.response.status_code == 401
    async with socket(server, f"/camera?key={key}") as camera, socket(server, f"/k/{key}/viewer") as viewer:
        await counts(server, 1, 1, key)
        await camera.send(frame(1.0))
        assert (await next_binary(viewer))[0] == frame(1.0)
    async with socket(server, "/viewer", additional_headers={"Authorization": f"Bearer {key}"}):
        pass


@live
async def test_what_viewers_command_is_in_the_log(start):
    server = start("--require-key", "--trusted-proxy", "127.0.0.1")
    everything, reading = add_key(server, "--power", "all"), add_key(server, "--power", "read")
    ids = [entry[0] for entry in listed(server.data)]
    proxy = {"additional_headers": {"X-Forwarded-For": "203.0.113.9"}}
    async with socket(server, f"/viewer?key={everything}", **proxy) as one, socket(server, f"/viewer?key={reading}") as other:
        await one.send('{"command":"start"}')
        await one.send('{"type":"record","on":true}')
        assert await next_text(one) == {"type": "keeping", "on": True}
        await one.send('{"type":"record","on":false}')
        assert await next_text(one) == {"type": "keeping", "on": False}
        # One who may only look is told that nothing is kept.
        await other.send('{"command":"stop"}')
        await other.send('{"type":"record","on":true}')
        assert await next_text(other) == {"type": "keeping", "on": False, "problem": "The API key is for reading only."}
    log = server.log.read_text()
    for words in (f"start: done, key {ids[0]}, 203.0.113.9", f"record: done, key {ids[0]}", f"record no more: done, key {ids[0]}",
                  f"stop: refused, key {ids[1]}, 127.0.0.1", f"record: refused, key {ids[1]}"):
        assert f"/viewer {words}" in log


@live
async def test_a_key_shows_and_tells_only_the_cameras_of_its_project(start):
    server = start("--require-key")
    kitchen, garage = add_key(server, "--project", "kitchen"), add_key(server, "--project", "garage")
    async with socket(server, f"/camera?key={kitchen}") as own, socket(server, f"/camera?key={garage}") as other, \
            socket(server, f"/viewer?key={kitchen}") as viewer:
        await counts(server, 1, 1, kitchen)
        await counts(server, 1, 0, garage)
        await other.send('{"type":"offer","sdp":"v=0"}')
        await other.send(frame(2.0))
        await other.close()
        await counts(server, 0, 0, garage)
        await own.send(frame(1.0))
        data, texts = await next_binary(viewer)
        assert data == frame(1.0) and len({text["cameraId"] for text in texts}) == 1
        async with socket(server, f"/camera?key={garage}") as other:
            await counts(server, 1, 0, garage)
            await viewer.send('{"type":"record","on":true}')
            for command in ("start", "stop"):
                await viewer.send(json.dumps({"command": command}))
                assert await next_text(own) == {"command": command}
                answer = await asyncio.to_thread(server.post, f"/control/{command}?key={kitchen}")
                assert answer.json()["message"] == f"Sent {command} to 1 camera" and await next_text(own) == {"command": command}
            await other.send(frame(3.0))
            # It has been relayed to nobody and kept by nobody.
            assert await asyncio.to_thread(server.post, f"/control/start?key={garage}") and await next_text(other) == {"command": "start"}
            assert (await counts(server, 1, 0, garage))["recordings"] == 0


@live
async def test_a_revoked_key_ends_its_sockets(start):
    server = start("--require-key")
    key, other = add_key(server, "--name", "viewer"), add_key(server)
    (identity,) = [entry[0] for entry in listed(server.data) if "viewer" in entry]
    async with socket(server, f"/viewer?key={key}") as viewer, socket(server, f"/camera?key={other}") as camera:
        await counts(server, 1, 1, other)
        assert keys(server.data, "revoke", identity).returncode == 0
        with pytest.raises(websockets.ConnectionClosed) as closed:
            while True:
                await viewer.recv()
        assert closed.value.rcvd.code == 1008
        await camera.send(frame(1.0))
        await counts(server, 1, 0, other)


@live
async def test_pages_of_other_sites_may_not_watch(server):
    for origin in ["https://evil.example", "null", "http://127.0.0.1.evil.example"]:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with socket(server, "/viewer", origin=origin):
                pass
        assert refused.value.response.status_code == 403
    async with socket(server, "/viewer", origin=server.url):
        pass


def test_what_is_no_handshake_is_told_so_and_other_paths_have_no_sockets(server):
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
    old = {**upgrade, "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "8"}
    for headers in ({}, upgrade, old, {"Upgrade": "h2c", "Connection": "Upgrade"}):
        assert server.get("/camera", headers=headers).status_code == 426
    handshake = {**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    assert server.get("/health", headers=handshake).status_code == 200
    assert server.get("/nothing", headers=handshake).status_code == 404


@live
async def test_the_end_of_the_server_ends_sockets(server):
    async with socket(server, "/camera") as camera, socket(server, "/viewer") as viewer:
        await counts(server, 1, 1)
        server.process.terminate()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            while True:
                await viewer.recv()
        assert closed.value.rcvd.code == 1001
        with pytest.raises(websockets.ConnectionClosed):
            await camera.recv()
    assert await asyncio.to_thread(server.process.wait, 300) == 0


@live
async def test_the_live_view_also_listens_elsewhere(start):
    elsewhere = SimpleNamespace(port=free_port())
    server = start("--camera-listen", f"127.0.0.1:{elsewhere.port}")
    async with socket(elsewhere, "/camera") as camera, socket(server, "/viewer") as viewer:
        await counts(server, 1, 1)
        await camera.send(frame(1.0))
        assert (await next_binary(viewer))[0] == frame(1.0)
    assert server.stop() == 0
