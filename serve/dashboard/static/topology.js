// Devices and what joins them, drawn, and the same as a table.

import { h, s, text, figure, keyed, panel } from './dom.js';
import * as f from './format.js';

const wide = 720, high = 460;

export function topology(root) {
  const drawing = s('svg', { viewBox: `0 0 ${wide} ${high}`, class: 'topology', role: 'group', 'aria-label': 'Devices and links' });
  const legend = h('ul', { class: 'legend' });
  const body = h('tbody');
  const table = h('div', { class: 'scroll tallest', tabindex: '0', role: 'region', 'aria-label': 'Links' }, h('table', { class: 'grid' },
    h('thead', {}, h('tr', {}, ...[['From', ''], ['To', ''], ['Kind', ''], ['Rate', 'n'], ['Latency', 'n']].map(([t, c]) => h('th', { scope: 'col', class: c }, t)))), body));
  const host = h('p', { class: 'note' }, 'Copies within host memory: ', figure('machine/hostRate'));
  const room = h('p', { class: 'note' }, 'Host memory that data may take: ', figure('machine/hostBytes'));
  const none = h('p', { class: 'empty' }, 'No links: the devices use host memory directly.');
  root.append(h('div', { class: 'two wide-left' }, panel('Topology', drawing, legend, host, room), panel('Links', table, none)));
  let sign = '';
  return {
    update(st) {
      host.hidden = !st.machine || !st.machine.hostRate;
      room.hidden = !st.machine || !st.machine.hostBytes;
      if (!st.machine) return;
      text(room.querySelector('.figure'), f.bytes(st.machine.hostBytes));
      const next = JSON.stringify([st.machine, st.devices.map((d) => [d.name, d.state, d.model])]);
      text(host.querySelector('.figure'), f.bytesPerSecond(st.machine.hostRate));
      if (next === sign) return;
      sign = next;
      paint(drawing, legend, st);
      const links = st.machine.links.map((l, i) => ({ ...l, i }));
      table.hidden = !links.length;
      none.hidden = links.length > 0;
      keyed(body, links, (l) => `${l.i}:${l.a}:${l.b}`, (l) => h('tr', {}, h('td', {}, l.a), h('td', {}, l.b), h('td', {}, l.kind), h('td', { class: 'n' }, figure(`machine/links/${l.i}/rate`)), h('td', { class: 'n' }, figure(`machine/links/${l.i}/latency`))), (tr, l) => {
        const cells = tr.querySelectorAll('.figure');
        text(cells[0], f.bytesPerSecond(l.rate || null));
        text(cells[1], f.seconds(l.latency || null));
      });
    },
    redraw() {},
  };
}

// places puts the host in the middle and devices around it.
function places(devices) {
  const at = new Map([['host', [wide / 2, high / 2]]]);
  devices.forEach((d, i) => {
    const turn = (i / devices.length) * 2 * Math.PI - Math.PI / 2;
    const spread = devices.length === 2 ? Math.PI / 2 : 0;
    at.set(d.name, [wide / 2 + Math.cos(turn + spread) * (wide / 2 - 80), high / 2 + Math.sin(turn + spread) * (high / 2 - 34)]);
  });
  return at;
}

function paint(drawing, legend, st) {
  const at = places(st.devices), groups = new Map();
  const lines = s('g', { class: 'lines' }), boxes = s('g', {});
  const links = st.machine.links.concat(st.devices.filter((d) => d.hostMemory).map((d) => ({ a: d.name, b: 'host', kind: 'shared memory', rate: 0 })));
  for (const l of links) {
    const [x1, y1] = at.get(l.a), [x2, y2] = at.get(l.b);
    const group = `${l.kind}|${l.rate.toPrecision(3)}`;
    if (!groups.has(group)) groups.set(group, { kind: l.kind, rate: l.rate, n: 0 });
    groups.get(group).n++;
    const thick = l.rate ? Math.max(1, Math.min(Math.log10(l.rate / 1e8), 4)) : 1.2;
    const bend = l.a === 'host' || l.b === 'host' ? 0 : 0.14; // chords leave the host free
    const mx = (x1 + x2) / 2 + ((x1 + x2) / 2 - wide / 2) * bend, my = (y1 + y2) / 2 + ((y1 + y2) / 2 - high / 2) * bend;
    lines.append(s('path', { d: `M${x1} ${y1}Q${mx} ${my} ${x2} ${y2}`, class: `link ${l.kind.replace(/\W/g, '-')}`, 'stroke-width': thick, 'data-ends': `${l.a} ${l.b}` }));
  }
  const box = (name, sub, state) => {
    const [x, y] = at.get(name), w = name === 'host' ? 120 : Math.min(136, Math.max(92, name.length * 8 + 26, Math.min(sub.length, 17) * 6.6 + 16)), tall = name === 'host' ? 48 : 40;
    const g = s('g', { class: `node ${state}`, transform: `translate(${x - w / 2} ${y - tall / 2})`, tabindex: '0', role: 'img', 'aria-label': `${name}, ${sub}, ${links.filter((l) => l.a === name || l.b === name).map((l) => `${l.kind} to ${l.a === name ? l.b : l.a}${l.rate ? ` at ${f.bytesPerSecond(l.rate)}` : ''}`).join(', ') || 'no links'}` },
      s('rect', { width: w, height: tall, rx: 6 }), s('text', { x: w / 2, y: tall / 2 - 3, class: 'name' }), s('text', { x: w / 2, y: tall / 2 + 12, class: 'sub' }));
    g.children[1].textContent = name;
    g.children[2].textContent = sub.length > 17 ? `${sub.slice(0, 16)}…` : sub;
    const mark = (on) => { drawing.classList.toggle('some', on); for (const p of lines.children) p.classList.toggle('on', on && p.dataset.ends.split(' ').includes(name)); };
    for (const [e, on] of [['pointerenter', true], ['pointerleave', false], ['focus', true], ['blur', false]]) g.addEventListener(e, () => mark(on));
    return g;
  };
  boxes.append(box('host', 'host memory', ''));
  for (const d of st.devices) boxes.append(box(d.name, d.state === 'healthy' ? d.model || d.kind : d.state, d.state));
  drawing.replaceChildren(lines, boxes);
  legend.replaceChildren(...[...groups.values()].sort((a, b) => b.rate - a.rate).map((g) => {
    const swatch = s('svg', { width: 26, height: 10, 'aria-hidden': 'true' }, s('path', { d: 'M1 5H25', class: `link ${g.kind.replace(/\W/g, '-')}`, 'stroke-width': 3 }));
    return h('li', {}, swatch, ` ${g.n} × ${g.kind}${g.rate ? `, ${f.bytesPerSecond(g.rate)}` : ''}`);
  }));
}
