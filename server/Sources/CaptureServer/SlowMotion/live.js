'use strict';
const at = id => document.getElementById(id);
const key = new URLSearchParams(location.search).get('key');
const link = (path, query = {}) => {
  const all = new URLSearchParams(key ? { ...query, key } : query).toString();
  return all ? path + '?' + all : path;
};

// Milliseconds by which the server's clock is ahead of ours, and those of the round trip that has shown it.
let ahead = 0, trip = Infinity;
let socket, pause = 1000, isKeeping = false;
// The command whose effect no phone has reported yet, the camera whose report of it is shown, and what each camera said that it does.
let asked = null, answering = null;
const cameras = new Map();

function connect() {
  socket = new WebSocket((location.protocol === 'https:' ? 'wss://' : 'ws://') + location.host + link('/viewer'));
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => {
    pause = 1000;
    at('connection').textContent = 'Connected to the server.';
    cameras.clear();
    // A server that was restarted does not know what it kept before.
    if (isKeeping) keep(true);
    // The first trip is seldom the shortest.
    for (const later of [0, 500, 1000, 1500]) setTimeout(ask, later);
    list();
  };
  socket.onclose = () => {
    at('connection').textContent = 'Not connected. Trying again.';
    cameras.clear();
    setTimeout(connect, pause);
    pause = Math.min(pause * 2, 10000);
  };
  socket.onmessage = event => typeof event.data === 'string' ? hear(event.data) : receive(event.data);
}

function hear(text) {
  let message;
  try { message = JSON.parse(text); } catch { return; }
  if (message.type === 'keeping') kept(message);
  if (message.type !== 'camera_status') return;
  if (message.status === 'disconnected') cameras.delete(message.cameraId);
  else {
    // Those that are known already are told again to each page that connects.
    if (asked && cameras.has(message.cameraId)) {
      answering = message.cameraId;
      asked = null;
    }
    if (answering === message.cameraId) said('The phone says: ' + message.status + '.');
    cameras.set(message.cameraId, message.status);
  }
  // A camera waits again after it has sent its movie.
  if (message.status === 'waiting') list();
}

async function ask() {
  try {
    const sent = Date.now();
    const status = await (await fetch(link('/status'))).json();
    const heard = Date.now();
    // The shorter the trip, the smaller the error. What was found long ago counts less, because clocks drift.
    trip = 1.1 * trip + 1;
    if (heard - sent <= trip) {
      trip = heard - sent;
      ahead = status.timestamp - (sent + heard) / 2;
    }
    at('recordings').textContent = status.recordings;
  } catch { at('recordings').textContent = '-'; }
}

// Times below this count from 2001, as the iOS app writes them; the others from 1970.
const unixTime = seconds => seconds < 1.2e9 ? seconds + 978307200 : seconds;
let isShowing = false, waiting = null;
// When frames arrived, and the ages of those that were shown, over the last seconds.
let arrivals = [], ages = [];

function receive(data) {
  const bytes = new Uint8Array(data);
  const isJPEG = at => bytes[at] === 0xFF && bytes[at + 1] === 0xD8 && bytes[at + 2] === 0xFF;
  const hasTime = isJPEG(8);
  if (!hasTime && !isJPEG(0)) return;
  arrivals.push(performance.now());
  const time = hasTime ? unixTime(new DataView(data).getFloat64(0, true)) : null;
  const frame = { jpeg: hasTime ? bytes.subarray(8) : bytes, time };
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
      at('empty').hidden = true;
      at('size').textContent = image.naturalWidth + ' x ' + image.naturalHeight;
      const age = frame.time === null ? null : (Date.now() + ahead) / 1000 - frame.time;
      ages.push({ at: performance.now(), age });
    }
    isShowing = false;
    const next = waiting;
    waiting = null;
    if (next) show(next);
  };
  image.src = url;
}

function age() {
  const known = ages.map(shown => shown.age).filter(age => age !== null).sort((a, b) => a - b);
  if (!known.length) return ages.length ? 'unknown: the camera sends no times' : '-';
  const middle = known[Math.floor(known.length / 2)];
  if (middle < -0.05) return 'unknown: the camera\'s clock is ' + (-middle).toFixed(1) + ' s ahead of the server\'s';
  if (middle > 3600) return 'unknown: the camera\'s clock is ' + Math.round(middle) + ' s behind the server\'s';
  return Math.max(0, Math.round(middle * 1000)) + ' ms';
}

function measure() {
  const since = performance.now() - 3000;
  arrivals = arrivals.filter(time => time > since);
  ages = ages.filter(shown => shown.at > since);
  const span = arrivals.length > 1 ? arrivals[arrivals.length - 1] - arrivals[0] : 0;
  at('rate').textContent = span > 0 ? ((arrivals.length - 1) * 1000 / span).toFixed(1) : '-';
  at('age').textContent = age();
  const known = [...cameras.values()].join(', ') || 'none';
  at('nothing').textContent = cameras.size ? 'No image has come for some seconds.' : 'Waiting for a phone.';
  at('phone').hidden = cameras.size > 0;
  at('cameras').textContent = cameras.size > 1 ? cameras.size + ', whose images are mixed: ' + known : known;
  if (arrivals.length) return;
  at('frame').hidden = true;
  at('empty').hidden = false;
  at('size').textContent = '-';
}

const limit = 200;
let listed;

async function list() {
  let text;
  try { text = await (await fetch(link('/videos', { limit }))).text(); } catch { return; }
  // The keyboard stays where it is as long as nothing has changed.
  if (text === listed) return;
  const videos = JSON.parse(text).videos;
  if (!videos) return;
  listed = text;
  at('none').hidden = videos.length > 0;
  at('more').hidden = videos.length < limit;
  at('movies').replaceChildren(...videos.map(item));
}

function item(video) {
  const address = link('/uploads/' + encodeURIComponent(video.filename));
  const play = document.createElement('button');
  play.type = 'button';
  play.textContent = 'Play';
  play.setAttribute('aria-label', 'Play ' + video.filename);
  play.onclick = () => {
    at('player').hidden = false;
    at('unplayable').hidden = true;
    at('title').textContent = video.filename;
    at('video').src = address;
    at('video').play().catch(() => {});
    at('video').focus();
  };
  const name = document.createElement('a');
  name.href = address;
  name.textContent = video.filename;
  const facts = document.createElement('span');
  facts.className = 'soft';
  facts.textContent = (video.size / 1e6).toFixed(1) + ' MB, ' + new Date(video.created).toLocaleString();
  const item = document.createElement('li');
  item.append(play, name, facts);
  return item;
}

const said = text => { at('said').textContent = text; };
// What is said in place of a phone's report ends that.
const say = text => {
  answering = null;
  said(text);
};

async function control(command) {
  const question = asked = { command };
  try {
    const answer = await (await fetch(link('/control/' + command), { method: 'POST' })).json();
    if (asked !== question) return;
    say(answer.message ?? answer.error.message);
    if (!cameras.size) return;
    setTimeout(() => {
      if (asked === question) say('No phone has said that it did so. It may not be listening.');
    }, 5000);
  } catch { say('The server cannot be reached.'); }
}

function keep(isOn) {
  if (socket.readyState !== WebSocket.OPEN) return say('The server cannot be reached.');
  socket.send(JSON.stringify({ type: 'record', on: isOn }));
}

// What the server says of it counts: the disk may be full, or the key for reading only.
function kept(message) {
  const wasKeeping = isKeeping;
  isKeeping = message.on;
  at('keep').setAttribute('aria-pressed', String(isKeeping));
  if (message.problem) {
    say('The live stream is not kept. ' + message.problem + (isKeeping ? ' It is tried again.' : ''));
  } else if (isKeeping) {
    say('What cameras send from now on is kept as captures, for as long as this page is open.');
  } else if (wasKeeping) {
    say('The live stream is no longer kept.');
  }
  setTimeout(ask, 500);
}

// They are not there for those who may only look.
if (at('start')) {
  at('start').onclick = () => control('start');
  at('stop').onclick = () => control('stop');
  at('keep').onclick = () => keep(!isKeeping);
}
at('video').onerror = () => { at('unplayable').hidden = false; };
at('view').hidden = false;
connect();
setInterval(measure, 1000);
setInterval(ask, 5000);
setInterval(list, 10000);
