// Elements without a framework. Text goes in as text: nothing here reads HTML.

// h makes an element: h('div', {class: 'x', onclick: f}, 'text', child).
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith('on')) el.addEventListener(k.slice(2), v);
    else el.setAttribute(k, v === true ? '' : v);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined));
  return el;
}

const space = 'http://www.w3.org/2000/svg';

// s makes an element of a drawing.
export function s(tag, props, ...children) {
  const el = document.createElementNS(space, tag);
  for (const [k, v] of Object.entries(props || {})) el.setAttribute(k, v);
  el.append(...children);
  return el;
}

// text sets an element's text if it differs.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

export function attr(el, name, value) {
  if (el.getAttribute(name) !== value) el.setAttribute(name, value);
}

// figure makes an element for a number. data-path says which number of the state it is.
export function figure(path, cls) {
  return h('span', { class: cls ? `figure ${cls}` : 'figure', 'data-path': path });
}

// keyed makes the children of an element those of a list, and reuses what is there.
export function keyed(parent, items, key, make, update) {
  const have = parent.kept || (parent.kept = new Map());
  const seen = new Set();
  let at = parent.firstChild;
  for (const item of items) {
    const k = key(item);
    seen.add(k);
    let el = have.get(k);
    if (!el) have.set(k, (el = make(item)));
    if (el === at) at = at.nextSibling;
    else parent.insertBefore(el, at);
    update(el, item);
  }
  for (const [k, el] of have) {
    if (!seen.has(k)) { el.remove(); have.delete(k); }
  }
}

// panel makes a box with a heading.
export function panel(title, ...children) {
  return h('div', { class: 'panel' }, h('h2', {}, title), ...children);
}

// badge shows a state in a word and a colour.
const tones = {
  healthy: 'good', ready: 'good', done: 'good', running: 'busy', loading: 'busy', draining: 'warn', suspect: 'warn', unloading: 'warn',
  queued: 'calm', drained: 'calm', spare: 'calm', cancelled: 'calm', unresponsive: 'bad', lost: 'bad', broken: 'bad', failed: 'bad', failing: 'bad',
};
export function badge(el, state) {
  text(el, state);
  attr(el, 'class', `badge ${tones[state] || 'calm'}`);
}
