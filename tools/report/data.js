'use strict';
// data.js - the document in the page, and how its names and numbers are written. Names come from models: they are put
// into text nodes alone, with control characters visible.

const report = JSON.parse(document.getElementById('data').textContent);
const {plan, record, run: ran, measured} = report;
const main = document.getElementById('main');

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function')
      element.addEventListener(name, value);
    else
      element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return element;
}

function make(tag, attributes, ...children) { return fill(document.createElement(tag), attributes, children); }

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

// What must not be written as it is: control characters, and those that turn the direction of text or cannot be seen.
function visible(text) {
  return String(text).replace(
      /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
      c => '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0'));
}

// Long names keep both ends: layers differ at the front, operators at the end.
function shown(text, most = 60) {
  const whole = [...visible(text)];
  if (whole.length <= most) return whole.join('');
  const half = Math.floor((most - 1) / 2);
  return whole.slice(0, half).join('') + '…' + whole.slice(-half).join('');
}

// Elementwise steps are called by all of their operators.
function shortLabel(label, most = 28) {
  const parts = label.split('+');
  return parts.length > 3 && label.length > 20 ?
      shown(`${parts[0]}+${parts[1]}+… (${parts.length} operators)`, most + 14) :
      shown(label, most);
}

function code(text, most = 300) {
  const short = shown(text, most);
  return make('code', {title: short.length < String(text).length ? shown(text, 2000) : null}, short);
}

function digits(value, count = 3) {
  if (value === 0) return '0';
  const size = Math.floor(Math.log10(Math.abs(value)));
  return size >= count ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(count)));
}

function known(value) { return typeof value === 'number' && isFinite(value); }

function scaled(value, units) {
  let at = 0;
  while (at + 1 < units.length && Math.abs(value) < units[at][0] * 0.9995) at++;
  return digits(value / units[at][0]) + ' ' + units[at][1];
}

function time(seconds) {
  if (!known(seconds)) return '–';
  return Math.abs(seconds) < 5e-11 ? '0' : scaled(seconds, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']]);
}

function bytes(count) {
  return count < 1024 ? digits(count) + ' B' : scaled(count, [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB']]);
}

function amount(value, unit) {
  return scaled(value, [[1e12, 'T' + unit], [1e9, 'G' + unit], [1e6, 'M' + unit], [1e3, 'k' + unit], [1, unit]]);
}

function counted(count, one, many = one + 's') { return digits(count) + ' ' + (count === 1 ? one : many); }

function listed(texts) {
  return texts.length < 2 ? texts.join('') : texts.slice(0, -1).join(', ') + ' and ' + texts[texts.length - 1];
}

function sum(values) { return values.reduce((a, b) => a + b, 0); }

function typeOf(tensor) { return tensor.dtype + '[' + tensor.dims.join(' ') + ']'; }

// A table with a caption for screen readers; cells are texts or elements, and numbers stand right.
function table(caption, heads, rows) {
  const cell = (value, i) =>
      make('td', {class: heads[i][0] === '#' ? 'number' : null, 'data-head': heads[i].replace('#', '')}, value);
  return make(
      'div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption},
      make(
          'table', {}, make('caption', {}, caption),
          make(
              'thead', {},
              make(
                  'tr', {},
                  heads.map(
                      head => make(
                          'th', {scope: 'col', class: head[0] === '#' ? 'number' : null}, head.replace('#', ''))))),
          make('tbody', {}, rows.map(row => make('tr', {}, row.map(cell))))));
}

// More rows than are worth a screen are shown when they are asked for.
function longTable(caption, heads, rows, most = 12) {
  const box = make('div', {}, table(caption, heads, rows.slice(0, most)));
  if (rows.length <= most) return box;
  box.append(make(
      'button', {type: 'button', class: 'more', click: () => box.replaceChildren(table(caption, heads, rows))},
      `Show all ${rows.length} (${most} are shown)`));
  return box;
}

function say(text) { document.getElementById('said').textContent = text; }

const ruleOf = new Map(((record && record.rules) || []).map(rule => [rule.name, rule]));
const classMeaning = {
  E: 'the same bits',
  Z: 'but for signs of zeros',
  N: 'but for NaN',
  R: 'within a bound of rounding',
  A: 'approximates'
};

function ruleText(name) {
  const rule = ruleOf.get(name);
  return make(
      'span', {class: 'rule', title: rule ? visible(rule.doc) : null}, visible(name),
      rule ? make('span', {class: 'class', title: classMeaning[rule.class] || null}, ' ' + visible(rule.class)) : null);
}

// Texts of sources, as keys of what belongs together on both sides.
function bySource(rows) {
  const map = new Map();
  rows.forEach((row, i) => row.sources.forEach(source => {
    if (!map.has(source)) map.set(source, []);
    map.get(source).push(i);
  }));
  return sources => [...new Set(sources.flatMap(source => map.get(source) || []))]
                        .sort((a, b) => a - b)
                        .map(i => rows[i]);
}
