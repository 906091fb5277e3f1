// sections.js - what stands in the page, one function for each section; one that has nothing to show gives null.

const stepsOf = bySource(plan.steps.map((step, number) => ({...step, number})));
const chainsOf = bySource((record && record.chains) || []);
const alternativesOf = bySource((record && record.alternatives) || []);
const form = name => ((record && record.forms) || []).find(f => f.name === name);
const stepTime = i => measured && known(measured.steps[i]) ? measured.steps[i] : null;

function ratio(before, after) { return before > 0 && after > 0 ? before / after : null; }

// ---- the first screen -----------------------------------------------------------------------------------------------

function sizes() {
  const parts = plan.symbols.map(s => `${shown(s.name, 30)} = ${s.value}`);
  return parts.length ? ` for ${listed(parts)}` : '';
}

function modelSentence() {
  const came = form('as it came'), graph = record && record.graph;
  const nodes = graph ? graph.nodes.filter(n => !n.constant) : [], operators = operatorsOf(nodes.map(n => ({label: n.op})));
  const what = operators.slice(0, 4).map(([name, count]) => `${count} ${visible(name)}`);
  const inputs = plan.inputs.slice(0, 3).map(t => `${shown(t.name, 30)} ${shown(typeOf(t), 40)}`);
  const list = plan.inputs.length > 3 ? inputs.join(', ') + ' and more' : listed(inputs);
  const takes = inputs.length ? `takes ${list}` : 'takes no input';
  if (nodes.length) {
    const run = came && came.nodes < nodes.length ? `, of which ${digits(came.nodes)} compute or move something,` : '';
    const most = what.join(', ') + (operators.length > 4 ? ' …' : '');
    return `The model has ${counted(nodes.length, 'operator')} (${most})${run} and ${takes}.`;
  }
  return came ? `The model has ${counted(came.nodes, 'operator')} that run, and ${takes}.` : `The model ${takes}.`;
}

function planSentence() {
  const labels =
      operatorsOf(plan.steps).slice(0, 4).map(([name, count]) => (count > 1 ? `${count} × ` : '') + shortLabel(name));
  const rules = new Set(plan.steps.flatMap(s => s.rules)).size;
  return `Hypatia made ${counted(plan.steps.length, 'step')} of them for ${visible(plan.target)} in ${
             visible(plan.precision)}: ${labels.join(', ')}` +
      `${operatorsOf(plan.steps).length > 4 ? ' …' : ''}${
             rules ? `, by ${counted(rules, 'rule')}` : ', and no rule changed anything'}.`;
}

function timeSentence() {
  const came = form('as it came'), now = plan.predicted_seconds, times = came && ratio(came.seconds, now);
  const gain = times ? times > 1.005 ?
                       `, ${digits(times)} times as fast as the ${time(came.seconds)} that the model takes as it came` :
                       ', as long as the model takes as it came' :
                       '';
  const real = measured ? ` Measured here: ${time(measured.median_seconds)}${
                              now > 0 ? `, ${digits(measured.median_seconds / now)} times the prediction` : ''}.` :
                                        '';
  return now > 0 ? `A run is predicted to take ${time(now)}${sizes()}${gain}.${real}` :
                   `Nothing is predicted of how long a run takes.${real}`;
}

function tile(title, big, small) {
  return make(
      'div', {class: 'tile'}, make('p', {class: 'what'}, title), make('p', {class: 'big'}, big),
      make('p', {class: 'small'}, small));
}

function verdict() {
  if (ran)
    return [
      ran.wrong              ? 'wrong' :
          ran.outputs.length ? 'verified' :
                               'not verified',
      ran.verified.replace(/^(not )?verified: /, '') || 'nothing was compared'
    ];
  const n = record && record.numerics;
  if (!n || n.verification === 'off') return ['not verified', 'when it was compiled'];
  return [
    'verified',
    `when it was compiled, ${n.verification === 'strict' ? 'strictly' : 'to warn'}, with ${
        counted(n.samples.length, 'sample')}`
  ];
}

// Exporters call every graph the same; then the plan's name says more.
function nameOfModel() {
  return /^(main_graph|main|graph|torch[-_]jit.*|torch_jit_graph|tf2onnx|model|.?)$/.test(plan.model || '') ?
      plan.plan.replace(/\.[^.]*$/, '') :
      plan.model;
}

function summary() {
  const came = form('as it came'), times = came && ratio(came.seconds, plan.predicted_seconds), [word, why] = verdict();
  const title = visible(nameOfModel());
  document.title = `${title}: Hypatia report`;
  return make(
      'section', {id: 'summary', class: 'first'}, make('h1', {}, shown(title, 80)),
      make('p', {class: 'lead'}, modelSentence()), make('p', {class: 'lead'}, planSentence()),
      make('p', {class: 'lead'}, timeSentence()),
      make(
          'div', {class: 'tiles'},
          tile(
              'Operators and steps',
              came ? `${digits(came.nodes)} → ${digits(plan.steps.length)}` : digits(plan.steps.length),
              came ? 'that run, before and after' : 'steps of the plan'),
          tile(
              'A run, predicted', time(plan.predicted_seconds),
              times > 1.005 ? `${time(came.seconds)} as it came: ${digits(times)} times as fast` :
                              'as the model as it came, by the cost model'),
          measured ?
              tile(
                  'A run, measured', time(measured.median_seconds),
                  `median of ${measured.samples}, on ${shown(measured.device, 50)}`) :
              tile('Memory', bytes(plan.scratch_bytes || 0), `scratch; ${bytes(plan.weights_bytes || 0)} of weights`),
          tile('Numbers', word, shown(why, 160))),
      record ? null :
               make(
                   'p', {class: 'note'},
                   'This plan keeps no record of its compilation (hypatiac --no-record), or there was no room for it: ' +
                       'only its steps are shown.'),
      record && record.left_out ?
          make('p', {class: 'note'}, `${counted(record.left_out, 'row')} of the record had no room in the plan.`) :
          null);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

function chainElement(chain) {
  return make(
      'div', {class: 'chain'}, make('h5', {}, `${visible(chain.phase)}: `, code(chain.value, 120)),
      make(
          'ol', {},
          chain.terms.map(
              (term, i) => make(
                  'li', {},
                  i ? make(
                          'p', {class: 'by'}, 'by ', ruleText(term.rule || '?'),
                          term.reversed ? ', right to left' : '') :
                      null,
                  make('p', {}, code(term.text, 1200)),
                  make('p', {class: 'price'}, known(term.seconds) ? time(term.seconds) : 'not priced')))),
      make(
          'p', {class: 'proof'},
          chain.lemmas ? `The proof was checked from the rules alone: ${counted(chain.lemmas, 'lemma')}.` :
                         'Its proof is too large to be told.',
          chain.left_out ? ` ${counted(chain.left_out, 'step')} more are not shown.` : ''));
}

function forms(list) {
  return make(
      'ul', {class: 'forms'},
      list.map(
          ([text, seconds]) =>
              make('li', {}, code(text || '', 160), ' ', make('span', {class: 'price'}, time(seconds)))));
}

function tensorTable(step) {
  const rows = [...step.reads.map(t => ['reads', t]), ...step.writes.map(t => ['writes', t])];
  return table(
      'Tensors', ['', 'name', 'type', 'place', '#bytes'],
      rows.map(([verb, t]) => [verb, code(t.name, 50), code(typeOf(t), 60), visible(t.place), bytes(t.bytes)]));
}

function stepDetails(number) {
  const step = plan.steps[number], chains = chainsOf(step.sources), others = alternativesOf(step.sources);
  return [
    make(
        'p', {}, `Kernel ${visible(step.kernel)}: ${digits(step.flops)} operations, ${bytes(step.bytes)} moved`,
        step.predicted_seconds > 0 ? `, predicted ${time(step.predicted_seconds)}` : '',
        stepTime(number) !== null ? `, measured ${time(stepTime(number))}` : '', '.'),
    step.price ? make('p', {}, 'Its price: ', make('span', {class: 'price'}, visible(step.price))) : null,
    tensorTable(step), make('h4', {}, 'From these nodes of the model'),
    make(
        'p', {class: 'names'}, step.sources.length ? step.sources.slice(0, 60).map(s => [code(s, 80), ' ']) : 'none',
        step.sources.length > 60 ? ` and ${step.sources.length - 60} more` : ''),
    make('h4', {}, 'By these rules'),
    make('p', {class: 'names'}, step.rules.length ? step.rules.map(r => [ruleText(r), ' ']) : 'none: it is as it was'),
    record ? make('h4', {}, 'Rule by rule') : null,
    chains.length ? chains.slice(0, 40).map(chainElement) :
        record    ? make('p', {}, 'No term of it changed.') :
                    null,
    chains.length > 40 ? make('p', {}, `${chains.length - 40} chains more are in the data of this page.`) : null,
    others.length ? [make('h4', {}, 'What else was possible'), alternativeTable(others)] : null
  ].flat();
}

function stepElement(number, share) {
  const step = plan.steps[number], body = make('div', {class: 'body'});
  const element = make(
      'details', {
        class: 'step',
        id: 'step-' + number,
        toggle: () => {
          if (element.open && !body.hasChildNodes()) body.append(...stepDetails(number).filter(Boolean));
        }
      },
      make(
          'summary', {}, make('span', {class: 'number'}, String(number)),
          make('span', {class: 'label', title: visible(step.label)}, shortLabel(step.label)),
          make('span', {class: 'from'}, step.sources.length ? shown(shortSources(step.sources), 70) : ''),
          make(
              'span', {class: 'bar', 'aria-hidden': 'true'},
              make('span', {style: `width:${(100 * share).toFixed(1)}%`})),
          make('span', {class: 'time'}, step.predicted_seconds > 0 ? time(step.predicted_seconds) : '–')),
      body);
  return element;
}

function openStep(number) {
  let element = document.getElementById('step-' + number);
  if (!element) {
    document.querySelectorAll('#steps .more').forEach(b => b.click());
    element = document.getElementById('step-' + number);
  }
  if (!element) return;
  element.open = true;
  element.scrollIntoView({block: 'start'});
  element.querySelector('summary').focus({preventScroll: true});
}

// Of blocks that repeat the first is listed, the others behind a button.
function steps() {
  const side = sides.after, most = Math.max(1e-300, ...plan.steps.map(s => s.predicted_seconds)),
        list = make('div', {});
  const numberAt = at => side.items[at].number, element = n => stepElement(n, plan.steps[n].predicted_seconds / most);
  for (let at = side.items.findIndex(i => i.kind === 'node');
       at >= 0 && at < side.items.length && side.items[at].kind === 'node';) {
    const run = side.runs.find(r => r.start === at), length = run ? run.period * run.count : 1,
          first = run ? run.period : 1;
    for (let k = 0; k < first; k++) list.append(element(numberAt(at + k)));
    if (run) {
      const from = at + first, to = at + length,
            button = make(
                'button', {
                  type: 'button',
                  class: 'more',
                  click: () => {
                    const rest = [];
                    for (let k = from; k < to; k++) rest.push(element(numberAt(k)));
                    button.replaceWith(...rest);
                  }
                },
                `${run.count - 1} more like ${run.period === 1 ? 'this step' : `these ${run.period} steps`}`);
      list.append(button);
    }
    at += length;
  }
  return make(
      'section', {id: 'steps', 'data-short': 'Steps'}, make('h2', {}, 'Steps of the plan'),
      make(
          'p', {},
          'In the order in which they run, with what each is predicted to take. ' +
                  'Open one for its tensors, its rules and what else was possible.'),
      list);
}

// ---- what was not taken
// -----------------------------------------------------------------------------------------------

const more = seconds => !known(seconds) ? '–' : seconds > 0 ? '+ ' + time(seconds) : 'as much';
const headOf = text => (String(text).match(/^\(([^\s()]+)/) || [0, String(text)])[1];

function alternativeTable(rows) {
  const sorted = [...rows].sort((a, b) => (a.more_seconds ?? Infinity) - (b.more_seconds ?? Infinity));
  return longTable(
      'What else was possible, the nearest first', ['value', 'taken', 'instead', '#costs more'],
      sorted.map(a => [code(a.value, 60), forms(a.taken), forms(a.instead), more(a.more_seconds)]), 8);
}

// Repeated blocks lose the same alternatives: one of a kind is shown, with how often it is there.
function alternatives() {
  if (!record || !(record.forms.length || record.alternatives.length)) return null;
  const kinds = new Map();
  for (const a of record.alternatives) {
    const key = JSON.stringify([a.taken, a.instead].map(list => list.map(f => headOf(f[0]))));
    if (!kinds.has(key)) kinds.set(key, []);
    kinds.get(key).push(a);
  }
  const rows = [...kinds.values()]
                   .map(list => [list, sum(list.map(a => a.more_seconds || 0)) / list.length])
                   .sort((a, b) => a[1] - b[1]);
  return make(
      'section', {id: 'alternatives', 'data-short': 'Alternatives'}, make('h2', {}, 'What else was possible'),
      record.forms.length ? table(
                                'The whole of it, as plans', ['form', '#operators that run', '#predicted'],
                                record.forms.map(f => [visible(f.name), digits(f.nodes, 9), time(f.seconds)])) :
                            null,
      rows.length ?
          [
            make(
                'p', {},
                'For each value that takes a share of the time: the best that there is without what was taken for it, ' +
                    'and what that costs more by the cost model, added up operator by operator.'),
            longTable(
                'Alternatives that lost, the nearest first', ['#places', 'taken', 'instead', '#costs more each'],
                rows.map(([list, mean]) => [String(list.length), forms(list[0].taken), forms(list[0].instead), more(mean)]),
                10)
          ] :
          null);
}

function misses() {
  if (!record || !record.misses.length) return null;
  const order = {optimize: 0, recognize: 1, normalize: 2},
        premise = m => /does not hold|no result/.test(m.says) ? 0 : 1;
  const rows = [...record.misses].sort(
      (a, b) => (a.sources.length ? 0 : 1) - (b.sources.length ? 0 : 1) || premise(a) - premise(b) ||
          (order[a.phase] ?? 3) - (order[b.phase] ?? 3));
  return make(
      'section', {id: 'misses', 'data-short': 'Near misses'}, make('h2', {}, 'Near misses'),
      make(
          'p', {},
          'Rules that were not applied anywhere in a phase, and the premise that failed where each got furthest; ' +
              'first those whose whole left side matched. ',
          code('hypatiac MODEL --why-not RULE NODE'), ' asks about one place.'),
      longTable(
          'Rules that nearly applied', ['rule', 'what was missing'],
          rows.map(
              m =>
                  [make('span', {}, ruleText(m.rule)),
                   make('pre', {}, visible(m.says).replace(/\\x0a/g, '\n').trim())]),
          10));
}

// ---- saturation
// -------------------------------------------------------------------------------------------------------

function phaseElement(phase, i) {
  const times = ran && ran.phases.find(p => p.name === phase.name), seconds = new Map(times ? times.rules : []);
  const rows = phase.rules.map(([name, matches, applied]) => [name, matches, applied, seconds.get(name)])
                   .sort((a, b) => (b[3] || 0) - (a[3] || 0) || b[1] - a[1]);
  const last = phase.iterations[phase.iterations.length - 1] || [0, 0];
  return make(
      'details', {open: i === record.phases.length - 1},
      make(
          'summary', {}, make('h3', {}, visible(phase.name)),
          ` ${visible(phase.stop)} after ${counted(phase.iterations.length, 'iteration')}: ${
              counted(last[0] || 0, 'e-node')} in ${counted(last[1] || 0, 'e-class', 'e-classes')}` +
              (times ? `, ${time(times.seconds)}` : '')),
      phase.iterations.length ? growth(phase) : null,
      longTable(
          'Iterations', ['#iteration', '#e-nodes', '#e-classes', '#matches', '#applied', '#time'],
          phase.iterations.map(
              (r, k) =>
                  [String(k + 1), ...[0, 1, 2, 3].map(c => digits(r[c] || 0, 6)),
                   times ? time(times.iterations[k]) : '–']),
          6),
      longTable(
          'Rules that found something', ['rule', '#matches', '#applied', '#time'],
          rows.map(r => [ruleText(r[0]), digits(r[1] || 0, 6), digits(r[2] || 0, 6), time(r[3])]), 8));
}

function saturation() {
  if (!record || !record.phases.length) return null;
  return make(
      'section', {id: 'search', 'data-short': 'Search'}, make('h2', {}, 'The search'),
      make(
          'p', {},
          'Rules add equal forms to an e-graph, in three phases, ' +
                  'until nothing is new or a limit is reached; then the cheapest is taken.',
          ran ? '' : ' Times are in the report that hypatiac itself writes (--report).'),
      record.phases.map(phaseElement));
}

// ---- time, memory, numbers
// --------------------------------------------------------------------------------------------

function rooflineSection() {
  if (!record) return null;
  const points = plan.steps.flatMap((step, number) => {
    if (!(step.flops > 0 && step.bytes > 0)) return [];
    const at = seconds => ({x: step.flops / step.bytes, y: step.flops / seconds, number, label: step.label});
    return [
      step.predicted_seconds > 0 ? at(step.predicted_seconds) : null,
      stepTime(number) > 0 ? {...at(stepTime(number)), measured: true} : null
    ].filter(Boolean);
  });
  if (!points.length || !(peakOf(record.device) > 0)) return null;
  const idle = plan.steps.filter(s => !(s.flops > 0)).length;
  return make(
      'section', {id: 'roofline', 'data-short': 'Roofline'}, make('h2', {}, 'Roofline'),
      make(
          'p', {},
          `Each point is a step: how fast it ${
              measured ?
                  'computes, as predicted (blue) and as measured (orange)' :
                  'is predicted to compute'}, under what the device can do at best, by what each byte is used for.`,
          idle ? ` ${counted(idle, 'step')} do no arithmetic that is counted, and have no point.` : ''),
      roofline(record.device, points));
}

function timeSection() {
  const rows = plan.steps.map(
      (step, i) => [`${i} ${shortLabel(step.label)}`, measured ? [step.predicted_seconds, stepTime(i)] : [
        step.predicted_seconds
      ]]);
  const sorted = rows.filter(r => r[1].some(v => v > 0))
                     .sort((a, b) => Math.max(...b[1].filter(known)) - Math.max(...a[1].filter(known)));
  if (!sorted.length) return null;
  return make(
      'section', {id: 'time', 'data-short': 'Time'},
      make('h2', {}, measured ? 'Predicted against measured' : 'Where the time goes'),
      make(
          'p', {},
          measured ?
              `On ${
                  visible(
                      measured
                          .device)}; steps are timed with a clock around each, so that their sum is more than a run.` :
              'As predicted. hypatia report --measure runs the plan and puts what it takes beside it.'),
      bars(
          `The ${Math.min(20, sorted.length)} steps that take most`,
          measured ? ['predicted', 'measured'] : ['predicted'], sorted.slice(0, 20), time),
      measured ?
          longTable(
              'All steps', ['step', '#predicted', '#measured', '#ratio'],
              rows.map(
                  ([label, [p, m]]) => [visible(label), time(p), time(m), p > 0 && known(m) ? digits(m / p) : '–'])) :
          null);
}

function memorySection() {
  const rows = lives();
  return make(
      'section', {id: 'memory', 'data-short': 'Memory'}, make('h2', {}, 'Memory over time'),
      make(
          'p', {}, `Scratch memory: ${bytes(plan.scratch_bytes || 0)}; weights: ${bytes(plan.weights_bytes || 0)}.`,
          rows.length ?
              ' Each box is a tensor, from the step that writes it to the last one that reads it; ' +
                  'one that is not needed gives its slot to another.' :
              ' No tensor lies in scratch memory.'),
      rows.length ?
          [
            memory(rows),
            longTable(
                'Tensors in scratch memory, the largest first',
                ['tensor', 'type', '#bytes', '#slot', '#from step', '#to step'],
                [...rows]
                    .sort((a, b) => b.bytes - a.bytes)
                    .map(
                        r =>
                            [code(r.name || r.label, 50), code(r.type, 60), bytes(r.bytes), String(r.slot),
                             String(r.from), String(r.to)]),
                8)
          ] :
          null);
}

function numbersSection() {
  if (!record) return null;
  const n = record.numerics, rows = ran ? ran.outputs : [];
  return make(
      'section', {id: 'numbers', 'data-short': 'Numbers'}, make('h2', {}, 'Numbers'),
      make(
          'p', {}, `Precision ${visible(plan.precision)}. Rules of these classes are in the plan: `,
          [...n.classes].map((c, i) => [i ? ', ' : '', make('b', {}, visible(c)), ` (${classMeaning[c] || '?'})`]),
          '.'),
      make(
          'p', {},
          ran ?
              visible(ran.verified) + '.' :
              n.verification === 'off' ?
              'The plan was not verified when it was compiled.' :
              'The plan was compared with the model in the reference interpreter when it was compiled; ' +
                  'hypatia verify does it again with what the plan keeps.'),
      n.samples.length ?
          table(
              'Samples that were compared', ['sample', 'inputs'],
              n.samples.map(
                  s =>
                      [visible(s.kind),
                       s.inputs.map((i, k) => [k ? ', ' : '', code(i.name, 40), ` [${i.dims.join(' ')}]`])])) :
          null,
      rows.length ?
          longTable(
              'Error of each output',
              ['sample', 'output', '#elements', '#largest difference', '#allowed there', '#undecided', '#wrong'],
              rows.map(
                  r =>
                      [visible(r.sample), code(r.output, 50), digits(r.elements, 9),
                       known(r.difference) ? r.difference.toPrecision(2) : '∞',
                       known(r.allowed) ? r.allowed.toPrecision(2) : '∞', digits(r.undecided, 9),
                       digits(r.wrong, 9)])) :
          null);
}

function rulesSection() {
  const rules = (record && record.rules) || [];
  if (!rules.length) return null;
  return make(
      'section', {id: 'rules', 'data-short': 'Rules'}, make('h2', {}, 'Rules'),
      longTable(
          'Rules that found something',
          ['rule', 'ruleset', 'what it says', '#matches', '#applied', '#declined', '#steps that owe to it'],
          [...rules]
              .sort((a, b) => b.used - a.used || b.applications - a.applications)
              .map(
                  r =>
                      [ruleText(r.name), visible(r.ruleset), visible(r.doc), digits(r.matches, 9),
                       digits(r.applications, 9), digits(r.declined, 9), digits(r.used, 9)])));
}

function aboutSection() {
  const rows = [
    ['plan', plan.plan], ['made by', plan.producer], ['format', plan.format],
    ['bytes', digits(plan.file_bytes || 0, 12)], ['model', plan.model], ['hash of the model', plan.model_hash],
    ['options', plan.flags.join(' ') || 'none that change the plan'],
    ['costs', record ? `profile ${record.device.name}` : undefined],
    ['compiled in', ran ? Object.entries(ran.seconds).map(([k, v]) => `${k} ${time(v)}`).join(', ') : undefined]
  ].filter(r => r[1] !== undefined);
  return make(
      'section', {id: 'about', 'data-short': 'About'}, make('h2', {}, 'About this plan'),
      table('The plan', ['', 'value'], rows.map(([k, v]) => [k, code(String(v), 300)])));
}
