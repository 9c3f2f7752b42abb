// The timeline in full: a row for each lane, and what a span is when it is pointed at.

import { h, text, attr, keyed, panel } from './dom.js';
import * as f from './format.js';
import { refresh, draw, words, spansOf, told, covered } from './spans.js';

export function timeline(root) {
  const axis = h('div', { class: 'axis', 'aria-hidden': 'true' }, ...[30, 25, 20, 15, 10, 5, 0].map((t) => h('span', {}, t ? `−${t} s` : 'now')));
  const body = h('div', { class: 'lanes' });
  const detail = h('p', { class: 'detail', role: 'status' }, 'Point at a task, or focus a device and use the arrow keys.');
  const note = h('p', { class: 'note' });
  root.append(panel(`What devices ran in the last ${covered} seconds`, detail, body, axis, note));

  function describe(name, sp) {
    if (!sp) return;
    const what = sp.tasks > 1 ? `${f.plural(sp.tasks, sp.copy ? 'operation' : 'task')}, the last ${sp.name} of run ${sp.run}` : `${sp.name} of run ${sp.run}`;
    const how = sp.open ? `runs for ${f.seconds(sp.end - sp.start)}` : sp.tasks > 1 ? `busy ${f.seconds(sp.busy)} of ${f.seconds(sp.end - sp.start)}` : `took ${f.seconds(sp.end - sp.start)}`;
    text(detail, `${name}, lane ${sp.lane}: ${what}, ${how}, from ${f.clock(sp.start)}${sp.bad ? `; ${sp.bad} failed` : ''}`);
  }

  function makeRow(d) {
    const canvas = h('canvas', { role: 'img', tabindex: '0' });
    const el = h('div', { class: 'lane' }, h('span', { class: 'who' }, d.name), canvas);
    let drawn = null, picked = null;
    el.draw = () => {
      const { lanes } = spansOf(d.name);
      canvas.style.height = `${Math.max(22, Math.min(lanes * 14, 160))}px`;
      drawn = draw(canvas, d.name, picked);
      attr(canvas, 'aria-label', words(d.name));
    };
    canvas.addEventListener('pointermove', (e) => {
      if (!drawn) return;
      const lane = Math.floor(e.offsetY / drawn.row);
      const hit = drawn.list.find((sp) => sp.lane === lane && e.offsetX >= drawn.x(sp.start) - 1 && e.offsetX <= drawn.x(sp.end) + 1);
      if (hit) { picked = hit; describe(d.name, hit); el.draw(); }
    });
    canvas.addEventListener('pointerleave', () => { picked = null; el.draw(); });
    canvas.addEventListener('blur', () => { picked = null; el.draw(); });
    canvas.addEventListener('keydown', (e) => {
      if (e.key !== 'ArrowLeft' && e.key !== 'ArrowRight') return;
      e.preventDefault();
      const { list } = spansOf(d.name);
      const at = picked ? list.findIndex((sp) => sp.lane === picked.lane && sp.start === picked.start) : list.length;
      picked = list[Math.max(Math.min(at + (e.key === 'ArrowLeft' ? -1 : 1), list.length - 1), 0)] || null;
      describe(d.name, picked);
      el.draw();
    });
    return el;
  }

  return {
    update(s) {
      keyed(body, s.devices, (d) => d.name, makeRow, () => {});
      refresh().then(() => {
        this.redraw();
        const short = told.missed ? ` ${f.plural(told.missed, 'event')} came too fast to be told.` : '';
        text(note, (told.recorded ? 'Lanes and copies (grey) are as traced.' : 'Tasks are laid out so that none overlap; with trace_events set, lanes and copies are told as they were.') +
          ' Short tasks that follow one another are drawn as one. Colours tell runs apart, red is what failed.' + short);
      });
    },
    redraw() { for (const row of body.children) row.draw(); },
  };
}
