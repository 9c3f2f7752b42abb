// Models that are served: how much and how fast.

import { h, text, figure, keyed, panel, badge } from './dom.js';
import * as f from './format.js';

const columns = [
  ['Requests', 'rate', f.perSecond], ['p50', 'p50', f.seconds], ['p95', 'p95', f.seconds], ['p99', 'p99', f.seconds],
  ['Mean batch', 'batch', f.decimal], ['Waiting', 'waiting', f.count], ['Answered', 'answered', f.count], ['Failed', 'failed', f.count],
  ['Refused', 'refused', f.count], ['Expired', 'expired', f.count],
];

export function models(root) {
  const body = h('tbody');
  const table = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Models' }, h('table', { class: 'grid' },
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Model'), h('th', { scope: 'col' }, 'State'), ...columns.map(([t]) => h('th', { scope: 'col', class: 'n' }, t)), h('th', { scope: 'col' }, 'Devices'))), body));
  const none = h('p', { class: 'empty' });
  const note = h('p', { class: 'note' }, 'Requests, latencies and batches are of the last ', figure('window'), '. Latency is from request to answer; p95 is what 95 of 100 do not exceed.');
  root.append(panel('Models', table, none, note));
  return {
    update(s) {
      const list = s.models.map((m, i) => ({ ...m, i }));
      table.hidden = note.hidden = !list.length;
      none.hidden = list.length > 0;
      text(none, s.serves ? 'No model is loaded.' : 'This server serves no models.');
      text(note.querySelector('.figure'), f.seconds(s.window));
      keyed(body, list, (m) => `${m.i}:${m.name}:${m.version}`, make, update);
    },
    redraw() {},
  };
}

function make(m) {
  const state = h('span');
  const tr = h('tr', {}, h('th', { scope: 'row' }, m.name, h('small', { class: 'muted' }, ` version ${m.version || '1'}${m.kind ? ` · ${m.kind}` : ''}`)), h('td', {}, state),
    ...columns.map(([, key]) => h('td', { class: 'n' }, figure(`models/${m.i}/${key}`), ...(key === 'batch' ? [h('span', { class: 'muted' }, ' of ', figure(`models/${m.i}/maxBatch`))] : []))), h('td', { class: 'where' }));
  tr.state = state;
  return tr;
}

function update(tr, m) {
  badge(tr.state, m.state);
  tr.state.title = m.reason || '';
  const cells = tr.querySelectorAll('td > .figure');
  columns.forEach(([, key, format], i) => text(cells[i], format(m[key])));
  text(tr.querySelector('.muted .figure'), f.count(m.maxBatch));
  tr.lastChild.classList.toggle('reason', m.state === 'failed');
  text(tr.lastChild, m.state === 'failed' && m.reason ? m.reason : m.devices.join(', '));
}
