// What is done to devices and jobs: asked first, and the result said.

import { h, text } from './dom.js';
import { live, headers, setKey } from './live.js';

const dialog = document.getElementById('ask');
const said = document.getElementById('said');
let timer = 0;

// say shows a line for a while; screen readers read it.
export function say(line, bad) {
  text(said, line);
  said.classList.toggle('bad', Boolean(bad));
  said.classList.add('shown');
  clearTimeout(timer);
  timer = setTimeout(() => said.classList.remove('shown'), 6000);
}

const about = {
  drain: ['Drain', 'It gets no new work, finishes what it has, and what only its memory holds is copied to host memory. It stays out of service until it is returned.'],
  undrain: ['Return', 'It takes work again, beside the others.'],
  swap: ['Swap', 'New work goes to the other device at once. This one finishes what it has and hands over its data.'],
  recover: ['Recover', 'It is brought back by the rungs of the recovery ladder: a standby, a restart, a reopening.'],
};

// ask has an action on a device confirmed, does it and says what came of it.
export function ask(action, device) {
  const [verb, text] = about[action];
  let pick = null, field = null;
  if (action === 'swap') {
    const first = (d) => ['spare', 'drained', 'healthy'].indexOf(d.state) + 1 || 9; // those that stand by
    const others = live.state.devices.filter((d) => d.name !== device.name).sort((a, b) => first(a) - first(b));
    pick = h('select', { id: 'ask-to' }, ...others.map((d) => h('option', { value: d.name }, `${d.name}, ${d.state}`)));
    field = others.length ? h('p', {}, h('label', { for: 'ask-to' }, 'The device that takes its place '), pick) : h('p', { class: 'error' }, 'There is no other device.');
  }
  confirm(`${verb} ${device.name}?`, text, verb, field, () => send(`/dashboard/devices/${encodeURIComponent(device.name)}/${action}`, pick ? { to: pick.value } : {}));
}

// askCancel has the end of a job confirmed.
export function askCancel(job) {
  confirm(`Cancel job ${job.id}?`, `${job.name || 'It'} ends without a result.`, 'Cancel job', null, () => send(`/dashboard/jobs/${encodeURIComponent(job.id)}/cancel`, {}));
}

async function send(path, body) {
  try {
    const r = await fetch(path, { method: 'POST', headers: headers({ 'X-Weft-Dashboard': '1', 'Content-Type': 'application/json' }), body: JSON.stringify(body) });
    const answer = await r.json().catch(() => ({ message: `the server answered ${r.status}` }));
    return { ...answer, ok: r.ok, key: r.status === 401 };
  } catch {
    return { ok: false, message: 'the server cannot be reached' };
  }
}

function confirm(title, about, verb, field, act) {
  const result = h('p', { class: 'result', role: 'status' });
  const yes = h('button', { type: 'button', class: 'main', id: 'ask-yes' }, verb);
  const no = h('button', { type: 'button', id: 'ask-no', onclick: () => dialog.close() }, 'Keep as it is');
  const key = keyField();
  yes.addEventListener('click', async () => {
    if (!key.hidden) setKey(key.lastChild.value);
    yes.disabled = true;
    result.className = 'result';
    text(result, 'Working …');
    const answer = await act();
    text(result, answer.message);
    result.className = answer.ok ? 'result good' : 'result bad';
    say(answer.message, !answer.ok);
    key.hidden = !answer.key;
    yes.disabled = false;
    if (answer.key) { key.lastChild.focus(); return; }
    yes.hidden = answer.ok;
    text(no, 'Close');
    no.focus();
  });
  dialog.replaceChildren(h('h2', { id: 'ask-title' }, title), h('p', {}, about), ...(field ? [field] : []), key, result, h('div', { class: 'buttons end' }, no, yes));
  dialog.showModal();
  (dialog.querySelector('select') || no).focus();
}

function keyField() {
  const el = h('p', {}, h('label', { for: 'ask-key' }, 'Key of the server '), h('input', { id: 'ask-key', type: 'password', autocomplete: 'off' }));
  el.hidden = true;
  return el;
}

// askKey asks for the key without which the server tells nothing.
export function askKey(then) {
  if (dialog.open) return;
  const key = keyField();
  key.hidden = false;
  const yes = h('button', { type: 'button', class: 'main', onclick: () => { setKey(key.lastChild.value); dialog.close(); then(); } }, 'Use the key');
  dialog.replaceChildren(h('h2', { id: 'ask-title' }, 'This server wants a key'), h('p', {}, 'It is kept until the browser is closed.'), key, h('div', { class: 'buttons end' }, yes));
  dialog.showModal();
  key.lastChild.focus();
}
