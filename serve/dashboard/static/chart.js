// Small charts on canvases, in the colours of the theme.

const names = ['line', 'fill', 'grid', 'text', 'bad', 'copy', 'track', 'run0', 'run1', 'run2', 'run3', 'run4', 'run5'];
let colours = null;

// palette returns the colours of the theme. Variables may hold light-dark(), so an element
// has to say what they come to.
export function palette() {
  if (colours) return colours;
  const probe = document.createElement('i');
  probe.hidden = true;
  document.body.append(probe);
  colours = {};
  for (const n of names) {
    probe.className = `colour-${n}`;
    colours[n] = getComputedStyle(probe).color;
  }
  probe.remove();
  return colours;
}

export function forgetPalette() { colours = null; }

// surface sizes a canvas for the screen and returns its context, null while it is not seen.
export function surface(canvas) {
  const w = canvas.clientWidth, hgt = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  if (!w || !hgt) return null;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(hgt * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(hgt * ratio);
  }
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, hgt);
  return { c, w, h: hgt };
}

const shown = 120; // seconds

// line draws a figure over the last two minutes. top is the value at the upper edge.
// A pause of more than four seconds, and what is not known, leave a gap.
export function line(canvas, at, values, now, top) {
  const on = surface(canvas);
  if (!on) return;
  const { c, w, h } = on, p = palette();
  c.strokeStyle = p.grid;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(0, h - 0.5); c.lineTo(w, h - 0.5);
  c.stroke();
  const x = (t) => w - ((now - t) / shown) * w;
  const y = (v) => h - 1.5 - (Math.min(v / top, 1) || 0) * (h - 4);
  const parts = [];
  let part = null;
  for (let i = 0; i < at.length; i++) {
    if (values[i] === null || values[i] === undefined || at[i] < now - shown - 5) { part = null; continue; }
    if (!part || at[i] - at[i - 1] > 4) parts.push((part = []));
    part.push([x(at[i]), y(values[i])]);
  }
  for (const pts of parts) {
    if (pts.length === 1) pts.push([pts[0][0] + 1, pts[0][1]]);
    c.beginPath();
    for (const [px, py] of pts) c.lineTo(px, py);
    c.strokeStyle = p.line;
    c.lineWidth = 1.5;
    c.lineJoin = 'round';
    c.stroke();
    c.lineTo(pts[pts.length - 1][0], h); c.lineTo(pts[0][0], h); c.closePath();
    c.fillStyle = p.fill;
    c.fill();
  }
}

// summary is the text alternative of a line.
export function summary(what, values, format) {
  const known = values.filter((v) => v !== null && v !== undefined);
  if (!known.length) return `${what}: not reported`;
  return `${what} over two minutes: now ${format(known[known.length - 1])}, lowest ${format(Math.min(...known))}, highest ${format(Math.max(...known))}`;
}
