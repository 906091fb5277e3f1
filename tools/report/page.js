// page.js - puts the page together: the graph with its search and details, the sections, the theme.

const sides = {
  before: makeSide('before', itemsBefore()),
  after: makeSide('after', itemsAfter())
};

// ---- the graph ------------------------------------------------------------------------------------------------------

const details = make(
    'div', {id: 'details', class: 'details', 'aria-live': 'polite'},
    make(
        'p', {},
        'Choose a node of either side: its partners on the other side light up, and what is known of it stands here.'));
const panes = {};

function partnersOf(pane, at) {
  const own = new Set(pane.side.items[at].sources), other = pane === panes.before ? sides.after : sides.before;
  return other.items.flatMap((it, i) => it.sources.some(s => own.has(s)) ? [i] : []);
}

function select(pane, at) {
  const other = pane === panes.before ? panes.after : panes.before, partners = partnersOf(pane, at);
  for (const p of Object.values(panes)) {
    p.chosen = p === pane ? at : null;
    p.lit = new Set(p === other ? partners : []);
    p.light();
  }
  if (other && partners.length) other.show(partners[0]);
  details.replaceChildren(...describe(pane, at, partners).flat().filter(Boolean));
}

function describe(pane, at, partners) {
  const it = pane.side.items[at], other = pane === panes.before ? panes.after : panes.before;
  const links = other ?
      partners.slice(0, 30).map(
          i => make(
              'button', {
                type: 'button',
                class: 'link',
                click: () => {
                  other.reveal(i);
                  select(other, i);
                  other.show(i);
                }
              },
              shortLabel(other.side.items[i].label), ' ', make('small', {}, shown(other.side.items[i].name, 40)))) :
      [];
  const head =
      [make('h3', {}, shown(it.label, 60)), make('p', {}, code(it.name || '', 200), ' ', code(it.type || '', 200))];
  if (it.kind !== 'node') return head;
  if (it.step)
    return [
      ...head,
      make(
          'p', {},
          make(
              'button', {type: 'button', class: 'link', click: () => openStep(it.number)},
              `Step ${it.number} in the list`)),
      make('h4', {}, 'Partners'), make('p', {}, links.length ? links : 'none'), ...stepDetails(it.number)
    ];
  const values = record.graph.values, operand = id => {
    const v = values[id] || {type: '?'};
    return [
      code(v.name || '(unnamed)', 60), code(v.type, 60),
      v.constant_bytes === undefined ? '' : `constant, ${bytes(v.constant_bytes)}`
    ];
  };
  const chains = chainsOf(it.sources), others = alternativesOf(it.sources),
        near = record.misses.filter(m => m.sources.some(s => it.sources.includes(s)));
  return [
    ...head,
    make(
        'p', {}, known(it.seconds) ? `By itself it would take ${time(it.seconds)}.` : 'It has no price by itself.',
        it.node.attributes ? [' Attributes: ', code(it.node.attributes, 200)] : ''),
    table(
        'Tensors', ['', 'name', 'type', ''],
        [
          ...it.node.reads.map(id => ['reads', ...operand(id)]), ...it.node.writes.map(id => ['writes', ...operand(id)])
        ]),
    make('h4', {}, 'Became'), make('p', {}, links.length ? links : 'nothing: it is not needed, or was computed before'),
    chains.length ? make('h4', {}, 'Rule by rule') : null, ...chains.slice(0, 20).map(chainElement),
    others.length ? make('h4', {}, 'What else was possible') : null, others.length ? alternativeTable(others) : null,
    near.length ? make('h4', {}, 'Near misses') : null,
    near.length ?
        make(
            'ul', {},
            near.slice(0, 12).map(
                m => make(
                    'li', {}, ruleText(m.rule), make('pre', {}, visible(m.says).replace(/\\x0a/g, '\n').trim())))) :
        null
  ];
}

// Finds by name, operator, rule or type; Enter goes to the next.
function searchBox() {
  let found = [], at = -1;
  const count = make('span', {class: 'count', role: 'status'});
  const go = by => {
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    const [pane, i] = found[at];
    pane.reveal(i);
    select(pane, i);
    pane.show(i);
    count.textContent = `${at + 1} of ${found.length}`;
  };
  const input = make('input', {
    type: 'search',
    id: 'search-graph',
    placeholder: 'name, operator, rule, type',
    autocomplete: 'off',
    spellcheck: 'false',
    input: () => {
      const text = input.value.trim().toLowerCase();
      found = text ? Object.values(panes).flatMap(
                         pane => pane.side.items.flatMap((it, i) => textOf(it).includes(text) ? [[pane, i]] : [])) :
                     [];
      at = -1;
      count.textContent = text ? `${found.length} found` : '';
    },
    keydown: event => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      go(event.shiftKey ? -1 : 1);
    }
  });
  return make(
      'div', {class: 'find'},
      make(
          'label',
          {for: 'search-graph'
          },
          'Find'),
      input, make('button', {type: 'button', click: () => go(-1), 'aria-label': 'Previous match'}, '↑'),
      make('button', {type: 'button', click: () => go(1), 'aria-label': 'Next match'}, '↓'), count);
}

function textOf(it) {
  return [it.label, it.name, it.type, ...it.sources, ...(it.step ? it.step.rules : [])].join('\n').toLowerCase();
}

function graphSection() {
  const note = (name, side) =>
      side.runs.length ? ` ${name}: ${side.runs.map(r => `${r.count} × block of ${r.period}`).join(', ')}.` : '';
  if (sides.before.items.length) panes.before = new Pane(sides.before, 'The model', select);
  panes.after = new Pane(sides.after, 'The plan', select);
  return make(
      'section', {id: 'graph', 'data-short': 'Graph'}, make('h2', {}, 'Before and after'),
      make(
          'p', {},
          panes.before ?
              'The model as it was read, and the steps of the plan; what is computed of constants alone is left out. ' :
              'The steps of the plan. The model is not in its record. ',
          sides.before.runs.length + sides.after.runs.length ? 'Blocks that repeat are one box, which opens.' : '',
          note('In the model', sides.before), note('In the plan', sides.after)),
      searchBox(), make('div', {class: 'panes'}, Object.values(panes).map(p => p.element)), details);
}

// ---- the theme ------------------------------------------------------------------------------------------------------

function themeSwitch() {
  const button = document.getElementById('theme'), names = ['', 'light', 'dark'],
        texts = ['as the system', 'light', 'dark'];
  const set = name => {
    if (name)
      document.documentElement.dataset.theme = name;
    else
      delete document.documentElement.dataset.theme;
    button.textContent = 'Theme: ' + texts[names.indexOf(name)];
  };
  let now = '';
  try {
    now = localStorage.getItem('hypatia-theme') || '';
  } catch { /* a page from a file may have none */
  }
  set(names.includes(now) ? now : '');
  button.addEventListener('click', () => {
    const next = names[(names.indexOf(document.documentElement.dataset.theme || '') + 1) % names.length];
    set(next);
    try {
      localStorage.setItem('hypatia-theme', next);
    } catch { /* then it is not kept */
    }
  });
}

// ---- the page -------------------------------------------------------------------------------------------------------

function putTogether() {
  const sections = [
    summary(), graphSection(), steps(), alternatives(), misses(), saturation(), timeSection(), rooflineSection(),
    memorySection(), numbersSection(), rulesSection(), aboutSection()
  ].filter(Boolean);
  main.replaceChildren(...sections);
  document.getElementById('contents')
      .append(
          make('ul', {}, sections.slice(1).map(s => make('li', {}, make('a', {href: '#' + s.id}, s.dataset.short)))));
  Object.values(panes).forEach(p => p.begin());
  themeSwitch();
}

putTogether();
