// What happened, the latest first.

import { h, text, figure, keyed, panel } from './dom.js';
import { clock } from './format.js';

export function eventRow() {
  const at = figure('', 'at'), what = h('span', { class: 'what' });
  const el = h('li', {}, at, what);
  el.show = (e) => {
    at.dataset.path = `events/${e.n}/at`;
    text(at, clock(e.at));
    text(what, e.text);
    el.classList.toggle('bad', e.bad);
  };
  return el;
}

export function events(root) {
  // Problems come first, and are what a visitor sees: runs may begin and end thousands of times a second.
  const filter = h('select', { id: 'events-filter', onchange: () => show() }, ...[['bad', 'Problems'], ['', 'All'], ['device', 'Devices and rules'], ['run', 'Runs'], ['task', 'Tasks']].map(([v, t]) => h('option', { value: v }, t)));
  const list = h('ol', { class: 'events' });
  const none = h('p', { class: 'empty' }, 'Nothing of this kind since somebody began to look.');
  root.append(panel('Events', h('div', { class: 'toolbar' }, h('label', { for: 'events-filter' }, 'Show '), filter), list, none,
    h('p', { class: 'note' }, 'Times are since the runtime was opened. Events are collected while a page is open.')));
  let last = [];
  function show() {
    const want = filter.value;
    const some = last.filter((e) => !want || (want === 'bad' ? e.bad : want === 'device' ? e.kind === 'device' || e.kind === 'rule' : e.kind.startsWith(want)));
    none.hidden = some.length > 0;
    keyed(list, some.slice(-200).reverse(), (e) => e.n, () => eventRow(), (el, e) => el.show(e));
  }
  return { update(s) { last = s.events; show(); }, redraw() {} };
}
