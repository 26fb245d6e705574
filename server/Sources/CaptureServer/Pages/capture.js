'use strict';
// Gives each segment of a capture's labels buttons that take times from the player, and the player a line with a bar for each. Without this
// script, times are typed. Returns a function that shows the player's time on that line.
const segmentEditor = player => {
  const list = document.getElementById('segments'), line = document.getElementById('player-segments');
  if (!list) return () => {};
  const mark = document.createElement('i'), first = Number(line.dataset.first), blank = list.lastElementChild.cloneNode(true);
  const field = (item, name) => item.querySelector(`[name="${name}[]"]`);
  const seconds = (item, name) => parseFloat(field(item, name).value);
  const now = () => String(Math.round((player.now() + first) * 1000) / 1000);
  const share = time => Math.min(Math.max((time - first) / player.seconds(), 0), 1) * 100 + '%';

  function draw() {
    const bars = [...list.children].flatMap(item => {
      const [start, end] = [seconds(item, 'start'), seconds(item, 'end')];
      if (!(start < end)) return [];
      const bar = document.createElement('span');
      bar.textContent = bar.title = field(item, 'text').value;
      bar.style.left = share(start);
      bar.style.width = `calc(${share(end)} - ${share(start)})`;
      bar.onclick = () => player.seek(start - first);
      return [bar];
    });
    line.replaceChildren(...bars, mark);
    line.hidden = bars.length === 0;
    show();
  }

  function show() { mark.style.left = share(player.now() + first); }

  function button(words, act) {
    const made = document.createElement('button');
    [made.type, made.textContent, made.onclick] = ['button', words, act];
    return made;
  }

  function take(item, name) {
    field(item, name).value = now();
    draw();
  }

  function equip(item) {
    item.append(
      button('Start here', () => take(item, 'start')), button('End here', () => take(item, 'end')),
      button('Show', () => { if (isFinite(seconds(item, 'start'))) player.seek(seconds(item, 'start') - first); }),
      button('Remove', () => {
        // The focus goes to what is next, or it would be lost.
        const next = item.nextElementSibling ?? item.previousElementSibling;
        item.remove();
        draw();
        (next ? field(next, 'start') : add).focus();
      }));
    item.oninput = draw;
    return item;
  }

  const add = document.querySelector('#segments-add button');
  add.onclick = () => {
    const item = equip(blank.cloneNode(true));
    list.append(item);
    take(item, 'start');
    field(item, 'text').focus();
  };
  // An empty one is for those who type.
  list.lastElementChild.remove();
  for (const item of list.children) equip(item);
  add.parentElement.hidden = false;
  draw();
  return show;
};

// Plays a capture: its movie, or its images where there is none that the browser can play, with depth maps over it, and the place on the
// trajectory beside it. Without this script, the page shows still images.
(() => {
  const root = document.getElementById('player');
  const part = name => document.getElementById('player-' + name);
  const movie = part('movie'), canvas = part('canvas'), slider = part('slider'), play = part('play'), amount = part('depth');
  const pen = canvas.getContext('2d');
  let episode, images, depth, dot;
  let showSegments = () => {};
  let hasMovie = false, isPlaying = false;
  // Seconds since the first row, of the image that is shown.
  let now = 0, last = 0;

  const seconds = () => hasMovie && isFinite(movie.duration) ? movie.duration : episode.seconds;

  // The moment of a list that is nearest to a time.
  function nearest(times, time) {
    let low = 0, high = times.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1; else high = middle;
    }
    return low > 0 && time - times[low - 1] <= times[low] - time ? low - 1 : low;
  }

  function drawCell(sheet, time, alpha) {
    const times = sheet.about.seconds, index = nearest(times, time);
    // What is shown is of this moment, or nothing is.
    const apart = times.length > 1 ? (times[times.length - 1] - times[0]) / (times.length - 1) : Infinity;
    if (Math.abs(times[index] - time) > Math.max(0.25, 1.5 * apart)) return;
    const { width, height, columns } = sheet.about;
    pen.globalAlpha = alpha;
    pen.drawImage(sheet.image, (index % columns) * width, Math.floor(index / columns) * height, width, height, 0, 0, canvas.width, canvas.height);
  }

  function draw() {
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (!hasMovie && images) drawCell(images, now, 1);
    // What is below can be seen; depth maps alone are all that there is.
    const opacity = hasMovie || images ? amount.value / 100 : 1;
    if (depth && opacity > 0) drawCell(depth, now, opacity);
    amount.setAttribute('aria-valuetext', amount.value + ' %');
    slider.max = seconds();
    slider.value = now;
    const words = now.toFixed(1) + ' of ' + seconds().toFixed(1) + ' s';
    part('time').textContent = words;
    slider.setAttribute('aria-valuetext', words);
    moveDot();
    showSegments();
  }

  function moveDot() {
    const track = episode.trajectory?.track;
    if (!dot || !track?.length) return;
    const next = track.findIndex(point => point[0] >= now);
    const to = track[next < 0 ? track.length - 1 : next], from = track[next > 0 ? next - 1 : next < 0 ? track.length - 1 : 0];
    const share = to[0] > from[0] ? (now - from[0]) / (to[0] - from[0]) : 0;
    dot.setAttribute('cx', from[1] + share * (to[1] - from[1]));
    dot.setAttribute('cy', from[2] + share * (to[2] - from[2]));
  }

  function setPlaying(value) {
    isPlaying = value;
    play.textContent = value ? 'Pause' : 'Play';
    if (value && now >= seconds() - 0.01) seek(0);
    if (hasMovie) { if (value) movie.play().catch(() => setPlaying(false)); else movie.pause(); }
    last = performance.now();
    if (value) requestAnimationFrame(tick);
  }

  function tick(time) {
    if (!isPlaying) return;
    now = hasMovie ? movie.currentTime : Math.min(now + Math.max(time - last, 0) / 1000, seconds());
    last = time;
    if (now >= seconds() - 0.001 || hasMovie && movie.ended) setPlaying(false);
    draw();
    if (isPlaying) requestAnimationFrame(tick);
  }

  function seek(time) {
    now = time;
    if (hasMovie) movie.currentTime = time;
    draw();
  }

  async function sheet(about) {
    if (!about?.seconds.length) return undefined;
    const image = new Image();
    image.src = root.dataset.folder + about.file;
    // What cannot be loaded is not shown; the rest is.
    return image.decode().then(() => ({ about, image }), () => undefined);
  }

  // Whether the browser can play the movie. Rows are those of the movie from its first frame on, or times would not be the same.
  function opens() {
    if (!root.dataset.movie || episode.first_source_index !== 0) return false;
    return new Promise(done => {
      // Some browsers load no image of a movie before somebody plays it.
      movie.onloadedmetadata = () => done(movie.videoWidth > 0);
      movie.onerror = () => done(false);
      setTimeout(() => done(false), 10000);
      movie.src = root.dataset.movie;
    }).then(isPlayable => {
      if (isPlayable) return true;
      movie.removeAttribute('src');
      movie.load();
      return false;
    });
  }

  async function start() {
    const answer = await fetch(root.dataset.folder + 'preview.json');
    if (!answer.ok) return;
    episode = (await answer.json()).episodes[0];
    if (!episode) return;
    [images, depth, hasMovie] = await Promise.all([sheet(episode.images), sheet(episode.depth), opens()]);
    const shape = images ?? depth;
    if (!shape && !hasMovie) return;
    [canvas.width, canvas.height] = shape ? [shape.about.width * 2, shape.about.height * 2] : [movie.videoWidth, movie.videoHeight];
    movie.hidden = !hasMovie;
    part('unplayable').hidden = hasMovie || !root.dataset.movie;
    part('depth-choice').hidden = !depth;
    amount.parentElement.hidden = !hasMovie && !images;
    canvas.parentElement.style.setProperty('--ratio', canvas.width / canvas.height);
    const svg = document.querySelector('.path svg');
    if (svg && episode.trajectory?.track.length) {
      dot = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
      dot.setAttribute('r', 5);
      dot.setAttribute('class', 'now');
      svg.append(dot);
    }
    play.onclick = () => setPlaying(!isPlaying);
    slider.oninput = () => seek(Number(slider.value));
    amount.oninput = draw;
    movie.onseeked = () => { if (!isPlaying) draw(); };
    // Others pause it too: a key of the keyboard, a call, a tab in the background.
    movie.onended = movie.onpause = movie.onerror = () => { if (isPlaying) setPlaying(false); };
    root.hidden = false;
    for (const still of document.querySelectorAll('.stills')) still.hidden = true;
    showSegments = segmentEditor({ now: () => now, seconds, seek });
    draw();
  }

  start().catch(() => {});
})();
