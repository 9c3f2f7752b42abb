// The state of the server, kept up to date by its stream.

export const live = {
  state: null,
  key: null, // what a server that wants one is sent
  history: new Map(), // of each device: {at: [], util: [], …}
};

const kept = 130; // seconds of history
const series = ['util', 'mem', 'temp', 'power', 'queued'];
try { live.key = sessionStorage.getItem('weft-key'); } catch { /* a browser that keeps nothing */ }

export function setKey(key) {
  live.key = key;
  try { sessionStorage.setItem('weft-key', key); } catch { /* as above */ }
}

export function headers(more) {
  return { ...(live.key ? { Authorization: `Bearer ${live.key}` } : {}), ...more };
}

// take makes what the stream sent part of the state.
export function take(kind, next) {
  const before = live.state;
  if (kind === 'delta' && before) {
    next.machine = before.machine;
    const changed = new Map((next.jobs || []).map((j) => [j.id, j]));
    const jobs = (before.jobs || []).map((j) => {
      const now = changed.get(j.id);
      changed.delete(j.id);
      return now || j;
    });
    next.jobs = jobs.concat([...changed.values()]);
    next.events = latest((before.events || []).concat(next.events || []));
  }
  for (const list of ['devices', 'runs', 'running', 'models', 'jobs', 'events', 'verdicts']) next[list] = next[list] || [];
  if (!before || before.started !== next.started) live.history.clear();
  remember(next);
  live.state = next;
}

// routine tells runs that begin and end well from what else happens.
export function routine(e) { return !e.bad && e.kind.startsWith('run'); }

// latest drops events beyond what is listed, as the server does: routine pushes nothing else out.
function latest(list) {
  const drop = new Set([...list.filter(routine).slice(0, -50), ...list.filter((e) => !routine(e)).slice(0, -200)]);
  return drop.size ? list.filter((e) => !drop.has(e)) : list;
}

function remember(state) {
  if (state.history) {
    for (const [name, lists] of Object.entries(state.history.devices)) {
      const h = { at: state.history.at.slice() };
      for (const k of series) h[k] = (lists[k] || []).slice();
      live.history.set(name, h);
    }
    state.history = undefined;
  }
  for (const d of state.devices) {
    let h = live.history.get(d.name);
    if (!h) live.history.set(d.name, (h = { at: [], util: [], mem: [], temp: [], power: [], queued: [] }));
    if (h.at.length && h.at[h.at.length - 1] >= state.uptime) continue;
    h.at.push(state.uptime);
    h.util.push(d.util); h.mem.push(d.memUsed); h.temp.push(d.temp); h.power.push(d.power); h.queued.push(d.queued);
    while (h.at.length && h.at[0] < state.uptime - kept) for (const k of ['at', ...series]) h[k].shift();
  }
}

// follow reads the stream for as long as the page is seen, and again after it ended.
// tell is called with 'live', 'lost', 'paused' or 'key', and changed after each frame.
export function follow(tell, changed) {
  let abort = null, pause = 500, timer = 0;
  const silence = 8000; // ms after which a stream that sends nothing is taken for lost

  async function open() {
    clearTimeout(timer);
    if (document.hidden || abort) return;
    const mine = (abort = new AbortController());
    let watch = setTimeout(() => mine.abort(), silence);
    try {
      const r = await fetch('/dashboard/stream', { headers: headers(), signal: mine.signal, cache: 'no-store' });
      if (r.status === 401) { tell('key'); return; }
      if (!r.ok) throw new Error(await r.text());
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += value;
        const parts = buffer.split('\n\n');
        buffer = parts.pop();
        for (const part of parts) {
          const [, kind, body] = /^event: (\w+)\ndata: (.*)$/s.exec(part) || [];
          if (!kind) continue;
          take(kind, JSON.parse(body));
          clearTimeout(watch);
          watch = setTimeout(() => mine.abort(), silence);
          pause = 500;
          tell('live');
          changed();
        }
      }
    } catch { /* said below */ } finally {
      clearTimeout(watch);
      if (abort === mine) abort = null;
    }
    if (document.hidden) return;
    tell('lost');
    timer = setTimeout(open, pause);
    pause = Math.min(pause * 2, 5000);
  }

  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { if (abort) abort.abort(); tell('paused'); } else { pause = 500; setTimeout(open, 50); }
  });
  open();
  return open;
}
