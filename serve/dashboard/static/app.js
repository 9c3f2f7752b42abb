// The page: views, their navigation, the theme, and the stream that keeps them up to date.

import { h, text, attr } from './dom.js';
import { live, follow } from './live.js';
import { forgetPalette } from './chart.js';
import { seconds } from './format.js';
import { askKey, say } from './actions.js';
import { overview } from './overview.js';
import { devices } from './devices.js';
import { timeline } from './timeline.js';
import { models } from './models.js';
import { work } from './work.js';
import { topology } from './topology.js';
import { events } from './events.js';

const views = [
  ['overview', 'Overview', overview], ['devices', 'Devices', devices], ['timeline', 'Timeline', timeline], ['models', 'Models', models],
  ['work', 'Jobs and runs', work], ['topology', 'Topology', topology], ['events', 'Events', events],
].map(([id, title, make]) => ({ id, title, make, root: document.getElementById(`view-${id}`), view: null }));

const nav = document.getElementById('nav'), status = document.getElementById('status');
for (const v of views) nav.append(h('a', { href: `#${v.id}`, id: `nav-${v.id}` }, v.title));
const uptime = h('span', { class: 'figure', 'data-path': 'uptime' });

let current = null, condition = '';

function go() {
  const want = views.find((v) => `#${v.id}` === location.hash) || views[0];
  if (want === current || (current && location.hash === '#main')) return;
  current = want;
  for (const v of views) {
    v.root.hidden = v !== want;
    const link = document.getElementById(`nav-${v.id}`);
    if (v === want) { link.setAttribute('aria-current', 'page'); link.scrollIntoView({ block: 'nearest', inline: 'center' }); } else link.removeAttribute('aria-current');
  }
  if (!want.view) want.view = want.make(want.root);
  window.scrollTo(0, 0);
  render();
}

let waits = false;
function render() {
  if (waits || !live.state) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    const s = live.state;
    text(document.getElementById('name'), s.name || '');
    document.title = s.name ? `${s.name} · weft` : 'weft';
    text(uptime, seconds(s.uptime));
    current.view.update(s);
    document.body.dataset.shown = `${s.started}:${s.uptime}`;
  });
}

function tell(now) {
  if (now === 'key') { askKey(open); }
  if (now === condition) return;
  const before = condition;
  condition = now;
  attr(status, 'class', `status ${now}`);
  const words = { live: ['up ', uptime], lost: ['connection lost, trying again'], paused: ['paused'], key: ['a key is needed'] };
  status.replaceChildren(...words[now]);
  if (now === 'lost' && before === 'live') say('The connection to the server is lost. The figures are the last that came.', true);
  if (now === 'live' && before === 'lost') say('Connected again.');
  document.body.classList.toggle('stale', now === 'lost');
}

const themes = ['auto', 'light', 'dark'], button = document.getElementById('theme');
function showTheme() {
  text(button, `Theme: ${document.documentElement.dataset.theme}`);
  forgetPalette();
  if (current && current.view && live.state) current.view.redraw();
}
button.addEventListener('click', () => {
  const root = document.documentElement;
  root.dataset.theme = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  try { localStorage.setItem('weft-theme', root.dataset.theme); } catch { /* a browser that keeps nothing */ }
  showTheme();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showTheme);

let resized = 0;
window.addEventListener('resize', () => {
  cancelAnimationFrame(resized);
  resized = requestAnimationFrame(() => { if (current && current.view && live.state) current.view.redraw(); });
});
window.addEventListener('hashchange', go);
showTheme();
go();
const open = follow(tell, render);
