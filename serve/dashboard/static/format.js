// Numbers as people read them: three digits and a unit. What is not known is a dash.

export const unknown = '–';

const digits = (x) => (x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2));
const missing = (x) => x === null || x === undefined || Number.isNaN(x);

function scaled(x, step, units) {
  let i = 0;
  while (x >= step * 0.9995 && i < units.length - 1) { x /= step; i++; }
  return `${i === 0 && Number.isInteger(x) ? x : digits(x)}\u00a0${units[i]}`;
}

const short = (x, unit) => (x < 9_999_500 ? `${Math.round(x).toLocaleString('en-US')}${unit && `\u00a0${unit}`}` : scaled(x / 1e6, 1000, ['M', 'G', 'T', 'P'].map((u) => u + unit)));

export const count = (x) => (missing(x) ? unknown : short(x, ''));
export const percent = (x) => (missing(x) ? unknown : `${100 * x >= 9.95 || x === 0 ? (100 * x).toFixed(0) : (100 * x).toFixed(1)}\u00a0%`);
export const bytes = (x) => (missing(x) ? unknown : scaled(x, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']));
export const bytesPerSecond = (x) => (missing(x) ? unknown : scaled(x, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']));
export const perSecond = (x) => (missing(x) ? unknown : x >= 999.5 ? short(x, '/s') : `${x === 0 ? 0 : digits(x)}\u00a0/s`);
export const celsius = (x) => (missing(x) ? unknown : `${x.toFixed(0)}\u00a0°C`);
export const watts = (x) => (missing(x) ? unknown : x >= 999.5 ? scaled(x / 1000, 1000, ['kW', 'MW', 'GW']) : `${x >= 9.95 ? x.toFixed(0) : x.toFixed(1)}\u00a0W`);
export const decimal = (x) => (missing(x) ? unknown : digits(x));

export function seconds(x) {
  if (missing(x) || x < 0) return unknown;
  if (x === 0) return '0\u00a0s';
  if (x < 0.9995e-6) return `${(x * 1e9).toFixed(0)}\u00a0ns`;
  if (x < 0.9995e-3) return `${digits(x * 1e6)}\u00a0µs`;
  if (x < 0.9995) return `${digits(x * 1e3)}\u00a0ms`;
  if (x < 59.95) return `${digits(x)}\u00a0s`;
  const whole = Math.round(x);
  if (whole < 3600) return `${Math.floor(whole / 60)}\u00a0min ${String(whole % 60).padStart(2, '0')}\u00a0s`;
  const min = Math.round(x / 60);
  if (min < 1440) return `${Math.floor(min / 60)}\u00a0h ${String(min % 60).padStart(2, '0')}\u00a0min`;
  const h = Math.round(x / 3600);
  return `${Math.floor(h / 24)}\u00a0d ${h % 24}\u00a0h`;
}

// clock writes a time since the runtime was opened, as in a log.
export function clock(x) {
  const ms = Math.floor(x * 10) / 10;
  const h = Math.floor(ms / 3600), m = Math.floor(ms / 60) % 60, s = ms % 60;
  const two = (n) => String(n).padStart(2, '0');
  return `${h > 0 ? two(h) + ':' : ''}${two(m)}:${s.toFixed(1).padStart(4, '0')}`;
}

export const plural = (n, what) => `${count(n)} ${what}${n === 1 ? '' : 's'}`;
