// Devices with their charts and what can be done to them.

import { h, text, attr, figure, keyed, badge } from './dom.js';
import * as f from './format.js';
import { line, summary } from './chart.js';
import { live } from './live.js';
import { ask } from './actions.js';

// A chart is a label, a key of the history, of the state, how it is written, and the value at its top.
const charts = [
  ['Busy', 'util', 'util', f.percent, () => 1],
  ['Memory', 'mem', 'memUsed', f.bytes, (d, most) => d.memBytes || most],
  ['Temperature', 'temp', 'temp', f.celsius, () => 100],
  ['Power', 'power', 'power', f.watts, (d, most) => Math.max(d.powerMax || 0, most)],
  ['Queue', 'queued', 'queued', f.count, (d, most) => most],
];

const extra = [
  ['Cores', 'units', f.count], ['Lanes', 'lanes', f.count], ['Clock', 'clock', (x) => (x === null ? f.unknown : `${f.count(x)}\u00a0MHz`)],
  ['Busy in all', 'busy', f.seconds], ['Busy, all programs', 'allUtil', f.percent], ['Memory, all programs', 'allMem', f.bytes],
];

export function devices(root) {
  const grid = h('div', { class: 'cards' });
  const none = h('p', { class: 'empty' }, 'There are no devices.');
  root.append(grid, none);
  return {
    update(s) {
      keyed(grid, s.devices, (d) => d.name, makeCard, updateCard);
      none.hidden = s.devices.length > 0;
      this.redraw();
    },
    redraw() {
      for (const card of grid.children) card.draw();
    },
  };
}

function makeCard(d) {
  const p = `devices/${d.name}`;
  const state = h('span');
  const plots = charts.map(([label, , key]) => {
    const canvas = h('canvas', { role: 'img' });
    const limit = key === 'memUsed' ? h('span', { class: 'muted limit' }, ' of ', figure(`${p}/memBytes`)) : null;
    const el = h('div', { class: `plot ${key}` }, h('div', { class: 'cap' }, h('span', { class: 'label' }, label), h('span', {}, figure(`${p}/${key}`), limit)), canvas);
    el.parts = { value: el.querySelector('.figure'), limit, canvas };
    return el;
  });
  const facts = ['running', 'rate', 'tasks', 'failed', 'losses'].map((k) => figure(`${p}/${k}`));
  const more = extra.map(([, key]) => figure(`${p}/${key}`));
  const tasks = h('ul');
  const details = h('details', {}, h('summary', {}, 'More'), tasks, h('dl', {}, ...extra.map(([label], i) => h('div', {}, h('dt', {}, label), h('dd', {}, more[i])))));
  const error = h('p', { class: 'error', hidden: true });
  const buttons = h('div', { class: 'buttons' });
  const card = h('article', { class: 'panel card', 'aria-label': d.name },
    h('header', {}, h('h2', {}, d.name), state), h('p', { class: 'muted model', title: d.model }, d.model || d.kind),
    h('div', { class: 'plots' }, ...plots),
    h('dl', { class: 'facts' }, ...['Running', 'Tasks', 'Ended', 'Failed', 'Lost'].map((t, i) => h('div', {}, h('dt', {}, t), h('dd', {}, facts[i])))),
    details, error, buttons);
  Object.assign(card, { plots, facts, more, tasks, error, buttons, state, device: d });
  card.draw = () => {
    const past = live.history.get(card.device.name);
    if (!past) return;
    charts.forEach(([label, key, , format, top], i) => {
      const known = past[key].filter((v) => v !== null && v !== undefined);
      const most = Math.max(1, ...known);
      line(plots[i].parts.canvas, past.at, past[key], live.state.uptime, top(card.device, most));
      attr(plots[i].parts.canvas, 'aria-label', summary(`${card.device.name} ${label.toLowerCase()}`, past[key], format));
    });
  };
  return card;
}

function updateCard(card, d) {
  card.device = d;
  badge(card.state, d.state);
  charts.forEach(([, , key, format], i) => {
    const { value, limit } = card.plots[i].parts;
    text(value, format(d[key]));
    if (limit) {
      limit.hidden = !d.memBytes;
      text(limit.lastChild, f.bytes(d.memBytes));
    }
    card.plots[i].classList.toggle('unknown', d[key] === null);
  });
  [f.count(d.running), f.perSecond(d.rate), f.count(d.tasks), f.count(d.failed), f.count(d.losses)].forEach((t, i) => text(card.facts[i], t));
  extra.forEach(([, key, format], i) => {
    text(card.more[i], format(d[key]));
    card.more[i].closest('div').hidden = d[key] === null;
  });
  const running = live.state.running.map((t, i) => ({ ...t, i })).filter((t) => t.device === d.name).slice(0, 4);
  keyed(card.tasks, running, (t) => t.i, (t) => h('li', {}, h('span', { class: 'what' }), ' for ', figure(`running/${t.i}/for`), ' of about ', figure(`running/${t.i}/predicted`)), (li, t) => {
    text(li.firstChild, `${t.task} of run ${t.run}`);
    const [since, whole] = li.querySelectorAll('.figure');
    text(since, f.seconds(t.for));
    text(whole, f.seconds(t.predicted));
  });
  card.error.hidden = !d.lastError;
  text(card.error, d.lastError ? `Last error: ${d.lastError}` : '');
  attr(card.error, 'title', d.lastError);
  keyed(card.buttons, actionsOf(d), (a) => a, (a) => h('button', { type: 'button', 'data-action': a, 'aria-label': `${labels[a]} ${d.name}`, onclick: () => ask(a, card.device) }, labels[a]), () => {});
}

const labels = { drain: 'Drain', undrain: 'Return', swap: 'Swap', recover: 'Recover' };

// actionsOf says what makes sense for a device in its state.
function actionsOf(d) {
  switch (d.state) {
    case 'healthy': case 'suspect': return ['drain', 'swap'];
    case 'draining': case 'drained': return ['undrain'];
    case 'spare': return ['undrain', 'drain'];
    default: return ['recover', 'drain'];
  }
}
