// What devices ran in the last seconds: fetched while it is seen, and drawn as strips.

import { live, headers } from './live.js';
import { palette, surface } from './chart.js';
import { percent, plural } from './format.js';

export const covered = 30; // seconds
const strips = new Map(); // of each device: {lanes, spans: Map}
export const told = { started: 0, from: 0, to: 0, recorded: false, missed: 0, ok: false };
let busy = false;

// refresh fetches what is new.
export async function refresh() {
  if (busy) return;
  busy = true;
  try {
    const r = await fetch(`/dashboard/timeline?since=${Math.max(told.to - 1, 0)}`, { headers: headers(), cache: 'no-store' });
    if (!r.ok) return;
    take(await r.json());
  } catch { /* the stream says that the server is gone */ } finally { busy = false; }
}

function take(t) {
  if (t.started !== told.started || t.to < told.to) strips.clear();
  Object.assign(told, { started: t.started, from: t.from, to: t.to, recorded: t.recorded, missed: t.missed, ok: true });
  for (const d of t.devices) {
    let strip = strips.get(d.name);
    if (!strip) strips.set(d.name, (strip = { lanes: 1, spans: new Map() }));
    strip.lanes = Math.max(strip.lanes, d.lanes);
    for (const sp of d.spans) strip.spans.set(`${sp.lane}:${sp.start}`, sp);
    for (const [k, sp] of strip.spans) if (sp.end < t.to - covered - 5) strip.spans.delete(k);
  }
}

// spansOf returns the spans of a device in order, tasks that still run included.
export function spansOf(name) {
  const strip = strips.get(name) || { lanes: 1, spans: new Map() };
  const list = [...strip.spans.values()].filter((sp) => sp.end > told.to - covered);
  const ends = [];
  for (const sp of list) ends[sp.lane] = Math.max(ends[sp.lane] || 0, sp.end);
  const taken = new Set(list.filter((sp) => sp.copy).map((sp) => sp.lane)); // lanes of copies run no tasks
  for (const t of live.state ? live.state.running : []) {
    if (t.device !== name) continue;
    // It began when it is said to, or when what its lane ran before had ended.
    const to = Math.max(told.to, live.state.uptime);
    let lane = -1;
    for (let l = 0; l < strip.lanes; l++) if (!taken.has(l) && (lane < 0 || (ends[l] || 0) < (ends[lane] || 0))) lane = l;
    if (lane < 0) lane = strip.lanes++;
    taken.add(lane);
    const start = Math.min(Math.max(live.state.uptime - t.for, ends[lane] || 0), to);
    list.push({ lane, start, end: to, busy: to - start, tasks: 1, run: t.run, name: t.task, bad: 0, open: true });
  }
  list.sort((a, b) => a.start - b.start || a.lane - b.lane);
  return { lanes: strip.lanes, list };
}

// draw draws the spans of a device over the last seconds, the lanes below one another.
export function draw(canvas, name, picked) {
  const on = surface(canvas);
  if (!on) return null;
  const { c, w, h } = on, p = palette(), { lanes, list } = spansOf(name);
  const now = Math.max(told.to, live.state ? live.state.uptime : 0);
  const x = (t) => w - ((now - t) / covered) * w;
  const row = h / lanes, gap = row > 8 ? 2 : row > 3 ? 1 : 0;
  c.fillStyle = p.track;
  for (let l = 0; l < lanes; l++) c.fillRect(0, l * row + gap / 2, w, row - gap);
  if (told.from > now - covered) { // nothing is known of before
    c.clearRect(0, 0, Math.max(x(told.from), 0), h);
  }
  for (const sp of list) {
    const left = Math.max(x(sp.start), 0), wide = Math.max(x(sp.end) - left, 1);
    const part = sp.end > sp.start ? Math.min(sp.busy / (sp.end - sp.start), 1) : 1;
    c.globalAlpha = sp.open ? 0.6 : 0.35 + 0.65 * part;
    c.fillStyle = sp.bad ? p.bad : sp.copy ? p.copy : p[`run${sp.run % 6}`];
    c.fillRect(left, sp.lane * row + gap / 2, wide > 3 ? wide - 0.6 : wide, row - gap);
    c.globalAlpha = 1;
    if (sp === picked || (picked && sp.start === picked.start && sp.lane === picked.lane)) {
      c.strokeStyle = p.text;
      c.lineWidth = 2;
      c.strokeRect(left, sp.lane * row + gap / 2 + 1, Math.max(wide, 3), row - gap - 2);
    }
  }
  return { lanes, list, x, row };
}

// words is the text alternative of a strip.
export function words(name) {
  const { lanes, list } = spansOf(name);
  const from = Math.max(told.from, told.to - covered), long = Math.max(told.to - from, 0.001);
  let tasks = 0, time = 0, failed = 0;
  for (const sp of list) {
    const part = (sp.end - Math.max(sp.start, from)) / Math.max(sp.end - sp.start, 1e-9);
    tasks += sp.copy ? 0 : sp.tasks;
    time += sp.busy * Math.max(Math.min(part, 1), 0);
    failed += sp.bad;
  }
  return `${name}: ${plural(tasks, 'task')} in the last ${Math.min(Math.round(long), covered)} seconds, lanes busy ${percent(Math.min(time / long / lanes, 1))}${failed ? `, ${failed} failed` : ''}`;
}
