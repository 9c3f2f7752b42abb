// Goes through the dashboard in a real browser. TestBrowser starts it: STILLS are servers whose
// state never changes, the first of them large; LIVE is one with devices that can be drained.
// A line “stop” or “start” asks the test to stop or start LIVE. It ends with 1 if anything is wrong.

import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';
import { compare, read } from './truth.mjs';

const stills = process.env.STILLS.split(' '), live = process.env.LIVE, shots = process.env.WEFT_SHOTS;
const views = ['overview', 'devices', 'timeline', 'models', 'work', 'topology', 'events'];
const patience = 60_000;
let failures = 0;
const began = Date.now();
const log = (...words) => console.log(`${((Date.now() - began) / 1000).toFixed(1)} s`, ...words);
function check(ok, what) {
  if (!ok) { failures++; console.log('WRONG:', what); }
}

const answers = createInterface({ input: process.stdin });
const tell = (word) => new Promise((done) => { answers.once('line', done); console.log(word); });

// The check of numbers must itself be able to fail.
check(compare({ a: 0.5 }, 'a', '50\u00a0%') === '' && compare({ a: 0.5 }, 'a', '51\u00a0%') !== '', 'compare: percent');
check(compare({ a: 12.9e9 }, 'a', '12.0\u00a0GiB') === '' && compare({ a: 12.9e9 }, 'a', '12.9\u00a0GiB') !== '', 'compare: bytes');
check(compare({ a: 4560 }, 'a', '1\u00a0h 16\u00a0min') === '' && compare({ a: 4560 }, 'a', '1\u00a0h 17\u00a0min') !== '', 'compare: time');
check(compare({ a: null }, 'a', '0') !== '' && compare({ a: 0 }, 'a', '–') !== '' && compare({}, 'a', '1') !== '' && read('many') === null, 'compare: unknown');

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });

async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.quiet = true;
  page.on('pageerror', (e) => check(false, `${url}: ${e.message}`));
  page.on('console', (m) => { if (m.type() === 'error' && page.quiet) check(false, `${url}: console: ${m.text()}`); });
  page.on('request', (r) => check(r.url().startsWith(url), `a request to ${r.url()}`));
  await page.goto(url);
  await page.waitForSelector('body[data-shown]');
  return page;
}

async function view(page, name) {
  await page.click(`#nav-${name}`);
  await page.waitForSelector(`#view-${name}:not([hidden]) > *`, { state: 'attached' });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

// truth compares every number that is seen with the state, and wants none that says nothing of its origin.
async function truth(page, state, where, least) {
  const seen = await page.evaluate(() => {
    const figures = [...document.querySelectorAll('[data-path]')].filter((el) => el.checkVisibility()).map((el) => [el.dataset.path, el.textContent]);
    const stray = [];
    const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    // Names, words and the axis may have digits.
    const free = '[data-path], .who, .model, .what, .error, .badge, .where, .detail, .axis, .note, h2, th, .head, .muted, .topology, .legend, td:not(.n), option, label, .extra, .empty';
    while (walk.nextNode()) {
      const el = walk.currentNode.parentElement;
      if (/\d/.test(walk.currentNode.data) && el.checkVisibility() && !el.closest(free)) stray.push(walk.currentNode.data);
    }
    return { figures, stray };
  });
  for (const [path, text] of seen.figures) {
    const wrong = compare(state, path, text);
    check(!wrong, `${where}: ${wrong}`);
  }
  check(seen.figures.length >= least, `${where}: ${seen.figures.length} numbers are shown, want ${least} or more`);
  check(!seen.stray.length, `${where}: numbers of unknown origin: ${seen.stray.slice(0, 5).join(' | ')}`);
  return seen.figures.length;
}

async function numbers() {
  let n = 0;
  const least = { overview: 90, devices: 160, timeline: 1, models: 41, work: 100, topology: 100, events: 60 };
  for (const [i, url] of stills.entries()) {
    const state = await (await fetch(`${url}/dashboard/state`)).json();
    const page = await open(url);
    for (const v of views) {
      await view(page, v);
      await page.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true; });
      if (v === 'events') {
        const bad = (state.events || []).filter((e) => e.bad).length;
        check((await page.locator('#view-events li').count()) === bad, `still ${i}: the view of events does not open with problems`);
        await page.locator('#events-filter').selectOption('');
      }
      n += await truth(page, state, `still ${i}, ${v}`, i === 0 ? least[v] : 1);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `still ${i}, ${v}: ${wide} pixels too wide at 1280`);
    }
    check((await page.title()) !== 'owned', 'a name was taken for HTML');
    await page.context().close();
  }
  log(`${n} numbers compared with the API`);
}

async function jobs() {
  const state = await (await fetch(`${stills[0]}/dashboard/state`)).json();
  const page = await open(stills[0]);
  await view(page, 'work');
  const list = page.locator('#view-work .list').first();
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  check(nodes < 3000, `${nodes} elements for 1,000 jobs`);
  check((await list.getAttribute('aria-rowcount')) === '1000', 'not all jobs are in the list');
  for (const to of [3000, 17_000, 99_999]) {
    await list.evaluate((el, y) => { el.scrollTop = y; }, to);
    await page.waitForFunction((y) => [...document.querySelectorAll('#view-work .list')][0].querySelector('[aria-rowindex]') && (y < 99_999 || document.querySelector('[aria-rowindex="1000"]')), to);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await truth(page, state, `jobs at ${to}`, 60);
  }
  await page.fill('#jobs-find', 'merkle ana');
  const want = state.jobs.filter((j) => j.name.includes('merkle') && j.client === 'ana');
  await page.waitForFunction((n) => document.querySelector('#jobs-shown').textContent.startsWith(`${n} of 1,000`), want.length);
  await page.selectOption('#jobs-state', 'failed');
  const failed = want.filter((j) => j.state === 'failed').length;
  await page.waitForFunction((n) => document.querySelector('#jobs-shown').textContent.startsWith(`${n} of`), failed);
  await page.fill('#jobs-find', 'no such job');
  await page.getByText('No job matches.').waitFor();
  // Frames while 16 devices and 1,000 jobs are scrolled through: said, not judged.
  await page.fill('#jobs-find', '');
  await page.selectOption('#jobs-state', '');
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const spent = async () => Object.fromEntries((await cdp.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value]));
  const before = await spent();
  await list.evaluate(async (el) => {
    for (let i = 0; i < 60; i++) {
      el.scrollTop = i * 600;
      await new Promise(requestAnimationFrame);
    }
  });
  const after = await spent();
  const each = (k) => `${(((after[k] - before[k]) * 1000) / 60).toFixed(1)} ms`;
  log(`${nodes} elements for 16 devices and 1,000 jobs; each of 60 frames while scrolling took ${each('ScriptDuration')} of script, ${each('LayoutDuration')} of layout, ${each('RecalcStyleDuration')} of style`);
  await page.context().close();
}

async function keyboard() {
  const page = await open(stills[0]);
  const active = () => page.evaluate(() => { const el = document.activeElement; const st = getComputedStyle(el); return { text: el.textContent.trim().slice(0, 40), tag: el.tagName, id: el.id, outline: st.outlineStyle, width: parseFloat(st.outlineWidth) }; });
  const order = [];
  for (let i = 0; i < 10; i++) {
    await page.keyboard.press('Tab');
    const a = await active();
    check(a.outline !== 'none' && a.width >= 1, `focus on ${a.tag} ${a.text} is not seen`);
    order.push(a.text);
  }
  check(order.slice(0, 9).join('|') === 'Skip to content|Overview|Devices|Timeline|Models|Jobs and runs|Topology|Events|Theme: auto', `order of focus: ${order.join('|')}`);
  await page.focus('#nav-timeline');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#view-timeline .lane canvas');
  await page.waitForFunction(() => document.querySelector('#view-timeline canvas').getAttribute('aria-label'));
  await page.focus('#view-timeline .lane canvas');
  await page.keyboard.press('ArrowLeft');
  const first = await page.textContent('.detail');
  await page.keyboard.press('ArrowLeft');
  const second = await page.textContent('.detail');
  check(/^cpu:0, lane \d+: /.test(first) && /^cpu:0, lane \d+: /.test(second) && first !== second, `arrow keys in the timeline: ${first} | ${second}`);
  await page.focus('#nav-devices');
  await page.keyboard.press('Enter');
  await page.focus('button[aria-label="Drain cuda:1"]');
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog[open]');
  check((await active()).id === 'ask-no', 'a dialog begins on the button that does nothing');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog:not([open])', { state: 'attached' });
  check((await page.evaluate(() => document.activeElement.getAttribute('aria-label'))) === 'Drain cuda:1', 'focus does not return from the dialog');
  // Names and text alternatives, on every view.
  for (const v of views) {
    await view(page, v);
    await page.waitForFunction(() => [...document.querySelectorAll('canvas')].filter((c) => c.checkVisibility()).every((c) => c.getAttribute('aria-label')));
    const bare = await page.evaluate(() => [...document.querySelectorAll('button, input, select, img, [role=img], [tabindex="0"]')].filter((el) => el.checkVisibility() &&
      !(el.getAttribute('aria-label') || el.textContent.trim() || el.labels?.length || el.hasAttribute('alt'))).map((el) => el.outerHTML.slice(0, 80)));
    check(!bare.length, `${v}: without a name: ${bare.join(' ')}`);
  }
  await page.context().close();
  log('keyboard and names');
}

async function themes() {
  const luminance = (rgb) => { const [r, g, b] = rgb.match(/[\d.]+/g).map((x) => { const c = Number(x) / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  for (const scheme of ['light', 'dark']) {
    const page = await open(stills[0], { colorScheme: scheme });
    const back = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const isDark = async () => luminance(await back()) < 0.2;
    check((await isDark()) === (scheme === 'dark'), `${scheme}: the theme of the system is not taken`);
    for (const v of views) {
      await view(page, v);
      const pairs = await page.evaluate(() => [...document.querySelectorAll('.panel *, .top *')].filter((el) => el.checkVisibility() && [...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && !(el instanceof SVGElement)).map((el) => {
        let under = el, bg = '';
        while (under && (!bg || bg === 'rgba(0, 0, 0, 0)')) { bg = getComputedStyle(under).backgroundColor; under = under.parentElement; }
        return [getComputedStyle(el).color, bg, el.textContent.slice(0, 20)];
      }));
      const faint = pairs.filter(([a, b]) => contrast(a, b) < 4.5).map(([a, b, t]) => `${t} ${a} on ${b}`);
      check(!faint.length, `${scheme}, ${v}: too faint: ${[...new Set(faint)].slice(0, 5).join('; ')}`);
    }
    await page.click('#theme');
    check(!(await isDark()), 'light was chosen');
    await page.click('#theme');
    check(await isDark(), 'dark was chosen');
    await page.reload();
    await page.waitForSelector('body[data-shown]');
    check(await isDark(), 'the choice is forgotten');
    await page.context().close();
  }
  log('both themes');
}

async function phone() {
  const page = await open(stills[0], { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const state = await (await fetch(`${stills[0]}/dashboard/state`)).json();
  for (const v of views) {
    await view(page, v);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(wide <= 0, `${v}: ${wide} pixels too wide for a phone`);
    await truth(page, state, `phone, ${v}`, 1);
  }
  await page.context().close();
  log('a phone');
}

// key opens a page whose server tells nothing without one: a wrong key is asked for again.
async function key() {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(process.env.KEYED);
  for (const word of ['mellon', 'sesame']) {
    await page.waitForSelector('dialog[open] #ask-key');
    check(!(await page.evaluate(() => document.body.dataset.shown)), 'figures are shown without the key');
    await page.fill('#ask-key', word);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
  }
  await page.waitForSelector('body[data-shown]');
  await page.reload();
  await page.waitForSelector('body[data-shown]');
  await context.close();
  log('a key');
}

const badgeOf = (page, name, state) => page.waitForFunction(([n, s]) => document.querySelector(`article[aria-label="${n}"] .badge`)?.textContent === s, [name, state]);

async function actions() {
  const page = await open(live);
  await view(page, 'devices');
  const does = async (label, says) => {
    await page.click(`button[aria-label="${label}"]`);
    await page.click('#ask-yes');
    await page.waitForFunction((t) => document.querySelector('dialog .result').textContent.includes(t), says);
    await page.click('#ask-no');
  };
  await does('Drain fake:0', 'fake:0 is drained');
  await badgeOf(page, 'fake:0', 'drained');
  await does('Return fake:0', 'back in service');
  await badgeOf(page, 'fake:0', 'healthy');
  await page.click('button[aria-label="Swap fake:1"]');
  await page.selectOption('#ask-to', 'fake:2');
  await page.click('#ask-yes');
  await page.getByText('fake:1 was replaced by fake:2').first().waitFor();
  await page.keyboard.press('Escape');
  await badgeOf(page, 'fake:1', 'drained');
  await does('Drain fake:0', 'is drained');
  await badgeOf(page, 'fake:0', 'drained');
  page.quiet = false; // a refusal is a 409, which the browser notes
  await does('Drain fake:2', 'drain fake:2');
  page.quiet = true;
  await badgeOf(page, 'fake:2', 'healthy');
  await view(page, 'work');
  await page.click('button[aria-label="Cancel job live-1"]');
  await page.click('#ask-yes');
  await page.getByText('job live-1 is cancelled').first().waitFor();
  await page.click('#ask-no');
  await page.waitForFunction(() => [...document.querySelectorAll('.listrow')].some((r) => r.textContent.includes('live-1') && r.textContent.includes('cancelled')));
  log('actions');
  return page;
}

async function reconnect(page) {
  await view(page, 'devices');
  const before = (await page.getAttribute('body', 'data-shown')).split(':')[0];
  page.quiet = false;
  await tell('stop');
  await page.waitForSelector('#status.lost');
  await page.waitForSelector('body.stale');
  await tell('start');
  await page.waitForSelector('#status.live');
  await page.waitForFunction((b) => !document.body.dataset.shown.startsWith(`${b}:`), before);
  await badgeOf(page, 'fake:1', 'healthy');
  check(!(await page.evaluate(() => document.body.classList.contains('stale'))), 'stale after it came back');
  await page.context().close();
  log('the server went and came back');
}

async function pictures() {
  for (const [name, v, colorScheme, size] of [
    ['overview', 'overview', 'light', [1280, 800]], ['devices', 'devices', 'dark', [1280, 800]], ['topology', 'topology', 'light', [1280, 800]], ['phone', 'overview', 'light', [390, 844]],
  ]) {
    const page = await open(stills[0], { colorScheme, viewport: { width: size[0], height: size[1] } });
    await view(page, v);
    await page.waitForFunction(() => [...document.querySelectorAll('canvas')].filter((c) => c.checkVisibility()).every((c) => c.getAttribute('aria-label')));
    await page.waitForTimeout(1500);
    await page.screenshot({ path: `${shots}/dashboard-${name}.png` });
    await page.context().close();
  }
  log('pictures');
}

try {
  await numbers();
  await jobs();
  await keyboard();
  await themes();
  await phone();
  await key();
  await reconnect(await actions());
  if (shots) await pictures();
} catch (e) {
  failures++;
  console.log('WRONG:', e.stack);
}
await browser.close();
answers.close();
process.stdin.destroy();
process.exitCode = failures ? 1 : 0;
