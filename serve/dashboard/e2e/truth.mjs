// Compares what the page shows with what the API says. It shares no line with the page: texts
// are read back to numbers, and must be as near as their last digit says.

const units = {
  '': 1, '%': 0.01, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50,
  'B/s': 1, 'kB/s': 1e3, 'MB/s': 1e6, 'GB/s': 1e9, 'TB/s': 1e12, '/s': 1, '°C': 1, W: 1, kW: 1e3, MW: 1e6, GW: 1e9, M: 1e6, G: 1e9, T: 1e12, P: 1e15, 'M/s': 1e6, 'G/s': 1e9, 'T/s': 1e12, J: 1, MHz: 1, kJ: 1e3, MJ: 1e6, GJ: 1e9,
  ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400,
};

// read returns the number of a text and by how much it may be off.
export function read(text) {
  const clock = /^(?:(\d+):)?(\d\d):(\d\d\.\d)$/.exec(text);
  if (clock) return { value: (Number(clock[1] || 0) * 60 + Number(clock[2])) * 60 + Number(clock[3]), off: 0.1 };
  let value = 0, off = 0, rest = text.replaceAll('\u00a0', ' ');
  if (rest === '') return null;
  while (rest) {
    const m = /^([\d,]+)(\.\d+)?(?: ?([^\d\s]+))? ?/.exec(rest);
    if (!m || !((m[3] || '') in units)) return null;
    const unit = units[m[3] || ''];
    value += Number(m[1].replaceAll(',', '') + (m[2] || '')) * unit;
    off = 0.5 * 10 ** -(m[2] ? m[2].length - 1 : 0) * unit; // of the last part
    rest = rest.slice(m[0].length);
  }
  return { value, off };
}

const keys = { devices: 'name', jobs: 'id', runs: 'run', events: 'n' };

// find follows a path through the state.
export function find(state, path) {
  let at = state, list = '';
  for (const step of path.split('/')) {
    if (step === 'length') return (at || []).length;
    if (at === null || at === undefined) return undefined;
    else if (Array.isArray(at) && keys[list]) at = at.find((x) => String(x[keys[list]]) === step);
    else at = at[step];
    list = step;
  }
  return at;
}

// compare returns what is wrong with a text, '' for nothing.
export function compare(state, path, text) {
  const want = find(state, path);
  if (want === undefined) return `${path}: the state has no such number, the page shows “${text}”`;
  if (typeof want === 'string') return want === text ? '' : `${path}: “${text}” is shown, and it is “${want}”`;
  const absent = want === null || want < 0 || (want === 0 && /hostRate|links\/.*(rate|latency)$/.test(path));
  if (text === '–') return absent ? '' : `${path}: unknown is shown, and it is ${want}`;
  if (absent) return `${path}: “${text}” is shown, and it is not known`;
  const got = read(text);
  if (!got) return `${path}: “${text}” is no number with a unit`;
  const near = Math.abs(got.value - want) <= got.off * 1.0001 + Math.abs(want) * 1e-12;
  const digits = got.off <= Math.max(Math.abs(want) * 0.06, 1) || want === 0;
  return near && digits ? '' : `${path}: “${text}” is shown, and it is ${want}`;
}
