'use strict';
// Gives each segment of a capture's labels buttons that take times from the player, and the player a line with a bar for each. Without this
// script, times are typed. Returns a function that shows the player's time on that line.
const segmentEditor = player => {
  const list = document.getElementById('segments'), line = document.getElementById('player-segments');
  if (!list) return () => {};
  const first = Number(line.dataset.first), blank = list.lastElementChild.cloneNode(true);
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
    line.replaceChildren(...bars, line.lastElementChild);
    line.hidden = bars.length === 0;
    show();
  }

  function show() { line.lastElementChild.style.left = share(player.now() + first); }

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
