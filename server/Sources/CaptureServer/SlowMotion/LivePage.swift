import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// `GET /live`: the live view, with the stream's true age and rate, the phone's controls, and the recorded movies. One document without
/// anything to load or to build.
enum LivePage {
  static let response = Response(
    status: .ok,
    headers: [
      .contentType: "text/html; charset=utf-8", .cacheControl: "no-cache", .contentTypeOptions: "nosniff",
      .contentSecurityPolicy: policy,
    ], body: ResponseBody(byteBuffer: ByteBuffer(string: document)))

  /// Only this script runs, and it talks to this server only; `ws:` and `wss:` are for browsers that do not count sockets as `'self'`.
  private static let policy = """
    default-src 'none'; style-src 'unsafe-inline'; img-src blob:; media-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; script-src 'sha256-\(Data(SHA256.hash(data: Data(script.utf8))).base64EncodedString())'
    """

  private static let document = """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Live view - Takeset</title>
    <style>\(style)</style>
    </head>
    <body>
    <nav aria-label="Pages"><a href="/">Captures</a><a href="/datasets">Datasets</a><a href="/devices">Devices and keys</a><a href="/live" aria-current="page">Live</a></nav>
    <main>
    <h1>Live view</h1>
    <noscript><p class="note">The live view needs JavaScript. The recorded movies are listed at <a href="/videos">/videos</a>.</p></noscript>
    <p id="connection" role="status">Connecting.</p>
    <div class="stage"><img id="frame" alt="The camera's live image" hidden><p id="nothing">No camera is sending.</p></div>
    <dl class="figures">
    <div><dt>Age of the image</dt><dd id="age">-</dd></div>
    <div><dt>Frames per second</dt><dd id="rate">-</dd></div>
    <div><dt>Size</dt><dd id="size">-</dd></div>
    <div><dt>Cameras</dt><dd id="cameras">-</dd></div>
    </dl>
    <div class="buttons">
    <button id="start" type="button">Start recording on the phone</button>
    <button id="stop" type="button">Stop recording on the phone</button>
    <button id="keep" type="button" aria-pressed="false">Keep the live stream</button>
    </div>
    <p id="said" role="status"></p>
    <h2>Recorded movies</h2>
    <p id="none">There are none yet.</p>
    <ul id="movies"></ul>
    <section id="player" hidden aria-label="Player"><h3 id="title"></h3><video id="video" controls playsinline></video></section>
    </main>
    <script>\(script)</script>
    </body>
    </html>

    """

  private static let style = """
    :root { color-scheme: light dark; --ink: #1d2125; --soft: #59636e; --paper: #ffffff; --panel: #f5f7f9; --line: #d4dae0; --accent: #0b61a4; }
    @media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a2abb4; --paper: #15181b; --panel: #1e2226; --line: #3a4148; --accent: #7fbcf0; } }
    body { margin: 0 auto; max-width: 1100px; padding: 0 16px 48px; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
    nav { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 14px 0; border-bottom: 1px solid var(--line); }
    nav a[aria-current] { color: var(--ink); font-weight: 650; text-decoration: none; }
    a { color: var(--accent); }
    h1 { font-size: 22px; margin: 20px 0 6px; } h2 { font-size: 16px; margin: 26px 0 8px; } h3 { font-size: 15px; overflow-wrap: anywhere; }
    .stage { display: grid; place-items: center; min-height: 240px; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
    .stage img, video { max-width: 100%; max-height: 70vh; border-radius: 6px; }
    .stage p { color: var(--soft); }
    [hidden] { display: none !important; }
    .figures { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 12px 0; }
    dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-variant-numeric: tabular-nums; font-weight: 600; }
    .buttons { display: flex; flex-wrap: wrap; gap: 8px; }
    button { font: inherit; padding: 6px 12px; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 4px; cursor: pointer; }
    button[aria-pressed="true"] { border-color: var(--accent); color: var(--accent); font-weight: 650; }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
    ul { list-style: none; padding: 0; margin: 0; }
    li { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; padding: 7px 0; border-bottom: 1px solid var(--line); }
    li span { color: var(--soft); } #said { min-height: 1.5em; }
    """

  private static let script = """
    'use strict';
    const at = id => document.getElementById(id);
    const key = new URLSearchParams(location.search).get('key');
    const link = path => path + (key ? '?key=' + encodeURIComponent(key) : '');
    const call = (path, options) => fetch(link(path), options);

    // Times below this count from 2001, as the iOS app writes them; the others from 1970.
    const unixTime = seconds => seconds < 1.2e9 ? seconds + 978307200 : seconds;
    // Milliseconds by which the server's clock is ahead of ours.
    let ahead = 0;
    let socket, wait = 1000, isShowing = false, waiting = null, arrivals = [], ages = [];
    const cameras = new Map();

    function connect() {
      socket = new WebSocket((location.protocol === 'https:' ? 'wss://' : 'ws://') + location.host + link('/viewer'));
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => { wait = 1000; at('connection').textContent = 'Connected.'; cameras.clear(); setKeeping(false); };
      socket.onclose = () => {
        at('connection').textContent = 'Not connected. Trying again.';
        setTimeout(connect, wait);
        wait = Math.min(wait * 2, 10000);
      };
      socket.onmessage = event => typeof event.data === 'string' ? hear(event.data) : receive(event.data);
    }

    function hear(text) {
      let message;
      try { message = JSON.parse(text); } catch { return; }
      if (message.type !== 'camera_status') return;
      if (message.status === 'disconnected') cameras.delete(message.cameraId); else cameras.set(message.cameraId, message.status);
      if (message.status === 'waiting') list();
    }

    function receive(data) {
      const bytes = new Uint8Array(data);
      const isJPEG = at => bytes[at] === 0xFF && bytes[at + 1] === 0xD8 && bytes[at + 2] === 0xFF;
      const hasTime = isJPEG(8);
      if (!hasTime && !isJPEG(0)) return;
      const now = performance.now();
      arrivals.push(now);
      const frame = { jpeg: hasTime ? bytes.subarray(8) : bytes, time: hasTime ? unixTime(new DataView(data).getFloat64(0, true)) : null };
      // A browser that is slower than the camera shows the newest.
      if (isShowing) waiting = frame; else show(frame);
    }

    function show(frame) {
      isShowing = true;
      const url = URL.createObjectURL(new Blob([frame.jpeg], { type: 'image/jpeg' }));
      const image = at('frame');
      image.onload = image.onerror = event => {
        URL.revokeObjectURL(url);
        if (event.type === 'load') {
          image.hidden = false;
          at('nothing').hidden = true;
          at('size').textContent = image.naturalWidth + ' x ' + image.naturalHeight;
          ages.push(frame.time === null ? null : (Date.now() + ahead) / 1000 - frame.time);
        }
        isShowing = false;
        const next = waiting;
        waiting = null;
        if (next) show(next);
      };
      image.src = url;
    }

    function age() {
      const known = ages.filter(age => age !== null).sort((a, b) => a - b);
      if (!ages.length) return '-';
      if (!known.length) return 'unknown: the camera sends no times';
      const middle = known[Math.floor(known.length / 2)];
      if (middle < -1 || middle > 3600) return 'unknown: the clocks differ by ' + Math.abs(Math.round(middle)) + ' s';
      return Math.max(0, Math.round(middle * 1000)) + ' ms';
    }

    setInterval(() => {
      const now = performance.now();
      arrivals = arrivals.filter(time => now - time < 3000);
      const span = arrivals.length > 1 ? arrivals[arrivals.length - 1] - arrivals[0] : 0;
      at('rate').textContent = span > 0 ? ((arrivals.length - 1) * 1000 / span).toFixed(1) : '-';
      at('age').textContent = arrivals.length ? age() : '-';
      ages = [];
      at('cameras').textContent = cameras.size ? [...cameras.values()].join(', ') : 'none';
      if (!arrivals.length) { at('frame').hidden = true; at('nothing').hidden = false; at('size').textContent = '-'; }
    }, 1000);

    async function ask() {
      try {
        const sent = Date.now();
        const status = await (await call('/status')).json();
        ahead = status.timestamp - (sent + Date.now()) / 2;
      } catch { /* The next try may succeed. */ }
    }

    async function list() {
      let videos;
      try { videos = (await (await call('/videos')).json()).videos; } catch { return; }
      if (!videos) return;
      at('none').hidden = videos.length > 0;
      at('movies').replaceChildren(...videos.slice(0, 200).map(video => {
        const item = document.createElement('li');
        const play = document.createElement('button');
        play.type = 'button';
        play.textContent = 'Play';
        play.setAttribute('aria-label', 'Play ' + video.filename);
        play.onclick = () => {
          at('player').hidden = false;
          at('title').textContent = video.filename;
          at('video').src = link('/uploads/' + encodeURIComponent(video.filename));
          at('video').play().catch(() => {});
          at('video').focus();
        };
        const name = document.createElement('a');
        name.href = link('/uploads/' + encodeURIComponent(video.filename));
        name.textContent = video.filename;
        const facts = document.createElement('span');
        facts.textContent = (video.size / 1e6).toFixed(1) + ' MB, ' + new Date(video.created).toLocaleString();
        item.append(play, name, facts);
        return item;
      }));
    }

    async function control(command) {
      try {
        const answer = await (await call('/control/' + command, { method: 'POST' })).json();
        at('said').textContent = answer.message || 'That did not work.';
      } catch { at('said').textContent = 'The server cannot be reached.'; }
    }

    function setKeeping(isOn) {
      at('keep').setAttribute('aria-pressed', String(isOn));
      at('keep').textContent = isOn ? 'Keeping the live stream: stop' : 'Keep the live stream';
    }

    at('start').onclick = () => control('start');
    at('stop').onclick = () => control('stop');
    at('keep').onclick = () => {
      if (socket.readyState !== WebSocket.OPEN) return;
      const isOn = at('keep').getAttribute('aria-pressed') !== 'true';
      socket.send(JSON.stringify({ type: 'record', on: isOn }));
      setKeeping(isOn);
      at('said').textContent = isOn ? 'The live stream is kept as a capture.' : 'The live stream is no longer kept.';
    };
    ask(); list(); connect();
    setInterval(ask, 30000); setInterval(list, 10000);
    """
}
