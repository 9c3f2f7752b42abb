// Jobs and runs, thousands of them: only the rows that are seen exist.

import { h, text, attr, figure, panel, badge } from './dom.js';
import * as f from './format.js';
import { askCancel } from './actions.js';

const narrow = matchMedia('(max-width: 760px)');
let tall = 36; // pixels of a row, as in style.css

// rows is a list that keeps elements for what is seen only.
function rows(label, columns, make, update, key) {
  const space = h('div', { class: 'space' });
  const view = h('div', { class: 'list', tabindex: '0', role: 'table', 'aria-label': label }, space);
  const head = h('div', { class: 'listrow head', 'aria-hidden': 'true' }, ...columns.map(([t, c]) => h('span', { class: c || '' }, t)));
  const kept = new Map();
  let items = [];
  function draw() {
    tall = narrow.matches ? 68 : 36;
    space.style.height = `${items.length * tall}px`;
    const first = Math.max(Math.floor(view.scrollTop / tall) - 4, 0);
    const last = Math.min(first + Math.ceil(view.clientHeight / tall) + 8, items.length);
    const seen = new Set();
    for (let i = first; i < last; i++) {
      const item = items[i], k = key(item);
      seen.add(k);
      let el = kept.get(k);
      if (!el) {
        el = make(item);
        el.setAttribute('role', 'row');
        kept.set(k, el);
        space.append(el);
      }
      el.style.transform = `translateY(${i * tall}px)`;
      attr(el, 'aria-rowindex', String(i + 1));
      update(el, item);
    }
    for (const [k, el] of kept) {
      if (seen.has(k)) continue;
      if (el.contains(document.activeElement)) view.focus();
      el.remove();
      kept.delete(k);
    }
  }
  let waits = false;
  view.addEventListener('scroll', () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; draw(); });
  }, { passive: true });
  new ResizeObserver(() => draw()).observe(view);
  return {
    el: h('div', { class: 'table' }, head, view),
    show(list) {
      items = list;
      attr(view, 'aria-rowcount', String(list.length));
      draw();
    },
  };
}

function progress(path) {
  const bar = h('i', { class: 'bar' }, h('b')), value = figure(path, 'n');
  const el = h('span', { class: 'prog', role: 'cell' }, bar, value);
  el.show = (part) => {
    bar.firstChild.style.width = `${Math.max(Math.min(100 * part, 100), 0)}%`;
    text(value, f.percent(part < 0 ? null : part));
  };
  return el;
}

const cell = (cls, ...children) => h('span', { role: 'cell', class: cls }, ...children);

const counts = [['submitted', 'submitted'], ['completed', 'completed'], ['failed', 'failed'], ['cancelled', 'cancelled'], ['retries', 'tasks tried again'], ['losses', 'losses of devices'], ['moved', 'moves of queued tasks'], ['copies', 'copies']];

const order = { running: 0, queued: 1 };
const rank = (j) => order[j.state] ?? 2;

export function work(root) {
  const find = h('input', { type: 'search', id: 'jobs-find', placeholder: 'Filter by id, name or client', 'aria-label': 'Filter jobs', oninput: () => showJobs() });
  const states = h('select', { id: 'jobs-state', 'aria-label': 'State of jobs', onchange: () => showJobs() },
    ...[['', 'All states'], ['open', 'Not ended'], ['queued', 'Queued'], ['running', 'Running'], ['done', 'Done'], ['failed', 'Failed'], ['cancelled', 'Cancelled']].map(([v, t]) => h('option', { value: v }, t)));
  const shown = h('span', { class: 'muted', id: 'jobs-shown', role: 'status' });
  const none = h('p', { class: 'empty' }, 'No job matches.');
  const jobs = rows('Jobs', [['Job'], ['State'], ['Done', 'prog'], ['Left', 'n'], ['Elapsed', 'n'], ['Client', 'extra'], ['', 'act']], makeJob, updateJob, (j) => j.id);
  const jobPanel = panel('Jobs', h('div', { class: 'toolbar' }, find, states, shown), jobs.el, none);
  const runs = rows('Runs', [['Run'], ['Tasks', 'n'], ['Done', 'prog'], ['Left', 'n'], ['Elapsed', 'n'], ['Moved', 'n extra'], ['Running', 'n act']], makeRun, updateRun, (r) => r.run);
  runs.el.classList.add('runs');
  const runNone = h('p', { class: 'empty' }, 'No run is under way.');
  const more = h('p', { class: 'note' }, 'and ', figure('moreRuns'), ' more that wait');
  const totals = h('p', { class: 'note' }, 'In all: ', ...counts.flatMap(([k, what], i) => [i ? ' · ' : '', figure(`totals/${k}`), ` ${what}`]), ' · ', figure('now/runRate'), ' ended lately');
  root.append(jobPanel, panel('Runs', runs.el, runNone, more, totals));
  let all = [];
  function showJobs() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean), want = states.value;
    const some = all.filter((j) => (!want || (want === 'open' ? rank(j) < 2 : j.state === want)) && words.every((w) => `${j.id} ${j.name} ${j.client}`.toLowerCase().includes(w)));
    jobs.show(some);
    none.hidden = some.length > 0;
    text(none, all.length ? 'No job matches.' : 'There are no jobs.');
    jobs.el.hidden = !some.length;
    text(shown, some.length === all.length ? f.plural(all.length, 'job') : `${f.count(some.length)} of ${f.plural(all.length, 'job')}`);
  }
  return {
    update(s) {
      jobPanel.hidden = !s.hasJobs;
      all = s.jobs.slice().sort((a, b) => rank(a) - rank(b) || b.submitted - a.submitted || (a.id < b.id ? -1 : 1));
      showJobs();
      runs.show(s.runs);
      runs.el.hidden = !s.runs.length;
      runNone.hidden = s.runs.length > 0;
      more.hidden = !s.moreRuns;
      text(more.querySelector('.figure'), f.count(s.moreRuns));
      const values = [...counts.map(([k]) => f.count(s.totals[k])), f.perSecond(s.now.runRate)];
      totals.querySelectorAll('.figure').forEach((el, i) => text(el, values[i]));
    },
    redraw() {},
  };
}

function makeJob(j) {
  const p = `jobs/${j.id}`;
  const state = h('span'), prog = progress(`${p}/part`), left = figure(`${p}/left`), elapsed = figure(`${p}/elapsed`);
  const name = h('span', { class: 'muted' });
  const cancel = h('button', { type: 'button', class: 'small', 'aria-label': `Cancel job ${j.id}`, onclick: () => askCancel(el.job) }, 'Cancel');
  const client = cell('extra muted');
  const el = h('div', { class: 'listrow' }, cell('who', h('span', { class: 'id' }, j.id), ' ', name), cell('', state), prog, cell('n', left), cell('n', elapsed), client, cell('act', cancel));
  el.parts = { state, prog, left, elapsed, name, client, cancel };
  return el;
}

function updateJob(el, j) {
  const p = el.parts;
  el.job = j;
  badge(p.state, j.state);
  text(p.name, j.reason && j.state === 'failed' ? j.reason : j.name);
  p.name.title = j.reason || j.name;
  p.prog.show(j.part);
  text(p.left, rank(j) < 2 ? f.seconds(j.left) : f.unknown);
  if (rank(j) >= 2) delete p.left.dataset.path; else p.left.dataset.path = `jobs/${j.id}/left`;
  text(p.elapsed, f.seconds(j.elapsed));
  text(p.client, j.client);
  p.cancel.hidden = rank(j) >= 2;
}

function makeRun(r) {
  const p = `runs/${r.run}`, prog = progress(`${p}/part`);
  const fig = (k) => figure(`${p}/${k}`);
  const parts = { run: fig('run'), tasks: fig('tasks'), done: fig('done'), left: fig('left'), elapsed: fig('elapsed'), bytes: fig('bytes'), running: fig('running') };
  const el = h('div', { class: 'listrow' }, cell('who', parts.run), cell('n', parts.done, ' / ', parts.tasks), prog, cell('n', parts.left), cell('n', parts.elapsed), cell('n extra', parts.bytes), cell('n act', parts.running));
  el.parts = parts;
  el.prog = prog;
  return el;
}

function updateRun(el, r) {
  const p = el.parts;
  el.prog.show(r.part);
  text(p.run, f.count(r.run));
  text(p.done, f.count(r.done));
  text(p.tasks, f.count(r.tasks));
  text(p.left, f.seconds(r.left));
  text(p.elapsed, f.seconds(r.elapsed));
  text(p.bytes, f.bytes(r.bytes));
  text(p.running, f.count(r.running));
}
