// The first view: what matters on one screen.

import { h, text, attr, figure, keyed, panel, badge } from './dom.js';
import * as f from './format.js';
import { refresh, draw, words, told, covered } from './spans.js';
import { eventRow } from './events.js';
import { routine } from './live.js';

export function overview(root) {
  const tiles = h('div', { class: 'tiles' });
  const table = h('div', { class: 'machine', role: 'table', 'aria-label': 'Devices' });
  const note = h('p', { class: 'note' });
  const say = h('p', { class: 'lead' }, figure('now/words'));
  const verdicts = h('div', { class: 'verdicts' });
  const events = h('ol', { class: 'events short' });
  const none = h('p', { class: 'empty' }, 'Nothing but runs that went well since somebody began to look.');
  table.append(h('div', { class: 'row head', role: 'row' },
    ...[['Device', ''], ['Busy', 'wide'], ['Memory', 'n'], ['Temp.', 'n extra'], ['Power', 'n extra'], ['Queue', 'n'], [`Last ${covered} seconds`, 'strip']].map(([t, c]) => h('span', { role: 'columnheader', class: c }, t))));
  const body = h('div', { role: 'rowgroup' });
  table.append(body);
  root.append(tiles,
    h('div', { class: 'panel' }, h('h2', {}, 'Devices'), say, table, note),
    h('div', { class: 'two' }, panel('What limits it', verdicts), panel('Latest events', events, none)));

  return {
    update(s) {
      showTiles(tiles, s);
      text(say.firstChild, s.now.words);
      keyed(body, s.devices, (d) => d.name, makeRow, updateRow);
      text(note, told.recorded ? 'A row of each strip is a lane, as traced. Colours tell runs apart; grey is copies.' :
        'Colours tell runs apart. Tasks are laid out so that none overlap; a trace would tell lanes and copies.');
      showVerdicts(verdicts, s);
      const latest = s.events.filter((e) => !routine(e)).slice(-6).reverse();
      keyed(events, latest, (e) => e.n, () => eventRow(), (el, e) => el.show(e));
      none.hidden = latest.length > 0;
      refresh().then(() => { for (const row of body.children) row.draw(); });
    },
    redraw() { for (const row of body.children) row.draw(); },
  };
}

// A tile is a label, a path, how it is written, and what is said below.
const list = [
  ['Devices in service', 'now/devices', (s) => f.count(s.now.devices), (s) => [['of', null], ['devices/length', f.count(s.devices.length)]]],
  ['Busy', 'now/util', (s) => f.percent(s.now.util), (s) => (s.now.power === null ? [] : [['now/power', f.watts(s.now.power)]])],
  ['Tasks', 'now/taskRate', (s) => f.perSecond(s.now.taskRate), (s) => [['now/queued', f.count(s.now.queued)], ['on devices', null]]],
  ['Copies', 'now/copyRate', (s) => f.bytesPerSecond(s.now.copyRate), (s) => [['totals/copyBytes', f.bytes(s.totals.copyBytes)], ['in all', null]]],
  ['Runs', 'now/active', (s) => f.count(s.now.active), (s) => (s.totals.failed ? [['totals/failed', f.count(s.totals.failed)], ['of', null], ['totals/submitted', f.count(s.totals.submitted)], ['failed', null]] : [['totals/completed', f.count(s.totals.completed)], ['done', null]])],
  ['Requests', 'now/requests', (s) => f.perSecond(s.now.requests), (s) => (s.models.length ? [['models/length', f.count(s.models.length)], [s.models.length === 1 ? 'model' : 'models', null]] : []), (s) => s.serves],
  ['Jobs', 'now/jobsOpen', (s) => f.count(s.now.jobsOpen), (s) => [['now/jobsEnded', f.count(s.now.jobsEnded)], ['ended', null]], (s) => s.hasJobs],
];

function showTiles(root, s) {
  keyed(root, list.filter(([, , , , when]) => !when || when(s)), (t) => t[0], ([label, path]) => {
    const el = h('div', { class: 'tile' }, h('span', { class: 'label' }, label), figure(path, 'big'), h('span', { class: 'sub' }));
    return el;
  }, (el, [, , value, below]) => {
    text(el.children[1], value(s));
    const parts = below(s).map(([a, b]) => (b === null ? ['', a] : [a, b]));
    const sub = el.children[2], sign = parts.map((p) => p[0]).join('|');
    if (sub.sign !== sign) {
      sub.sign = sign;
      sub.replaceChildren(...parts.flatMap(([path]) => [path ? figure(path) : h('span', {}), ' ']));
    }
    parts.forEach(([, t], i) => text(sub.children[i], t));
  });
}

function makeRow(d) {
  const p = `devices/${d.name}`;
  const fig = (k, c) => h('span', { role: 'cell', class: c }, figure(`${p}/${k}`));
  const bar = h('i', { class: 'bar' }, h('b'));
  const canvas = h('canvas', { role: 'img' });
  const state = h('span');
  const el = h('div', { class: 'row', role: 'row' },
    h('span', { role: 'rowheader', class: 'who' }, h('a', { href: '#devices' }, d.name), state),
    h('span', { role: 'cell', class: 'wide' }, bar, figure(`${p}/util`, 'n')),
    fig('memUsed', 'n'), fig('temp', 'n extra'), fig('power', 'n extra'), fig('queued', 'n queue'),
    h('span', { role: 'cell', class: 'strip' }, canvas));
  el.parts = { state, bar: bar.firstChild, canvas };
  el.draw = () => { draw(canvas, d.name); attr(canvas, 'aria-label', words(d.name)); };
  return el;
}

function updateRow(el, d) {
  badge(el.parts.state, d.state);
  el.parts.bar.style.width = `${Math.min(100 * d.util, 100)}%`;
  const cells = el.querySelectorAll('.figure');
  [f.percent(d.util), f.bytes(d.memUsed), f.celsius(d.temp), f.watts(d.power), f.count(d.queued)].forEach((t, i) => text(cells[i], t));
}

export function showVerdicts(root, s) {
  if (!s.verdicts.length && !root.empty) {
    root.append((root.empty = h('p', { class: 'empty' }, 'A trace (trace_events) tells what holds runs up.')));
  }
  if (root.empty) root.empty.hidden = s.verdicts.length > 0;
  root.box = root.box || root.appendChild(h('div'));
  keyed(root.box, s.verdicts.map((v, i) => ({ ...v, i })), (v) => `${v.i}:${v.fixes.length}`, (v) => {
    const p = `verdicts/${v.i}`;
    return h('div', { class: 'verdict' },
      h('p', {}, h('strong', {}, 'Lately'), ' ', figure(`${p}/sentence`)),
      h('p', { class: 'muted' }, figure(`${p}/tasks`), ' tasks in ', figure(`${p}/took`), ' · devices busy ', figure(`${p}/util`), ' · imbalance ', figure(`${p}/imbalance`)),
      ...(v.fixes.length ? [h('ul', {}, ...v.fixes.map((_, j) => h('li', {}, figure(`${p}/fixes/${j}/what`), ' would save ', figure(`${p}/fixes/${j}/gain`))))] : []));
  }, (el, v) => {
    const values = [v.sentence, f.count(v.tasks), f.seconds(v.took), f.percent(v.util), f.percent(v.imbalance), ...v.fixes.flatMap((x) => [x.what, f.percent(x.gain)])];
    el.querySelectorAll('.figure').forEach((x, i) => text(x, values[i]));
  });
}
