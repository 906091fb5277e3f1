// blocks.js - the graph before and the steps after as lists of items, and which stretches of them repeat.

// An item is an input, a node or step, or an output; `needs` are places in the list, all before it.
function item(kind, label, name, sources, needs, more) {
  return {kind, label, name, sources, needs: [...new Set(needs)], ...more};
}

function itemsBefore() {
  const graph = record && record.graph, items = [], maker = new Map();
  if (!graph) return items;
  const value = id => graph.values[id] || {type: ''};
  const read = new Set(graph.nodes.filter(n => !n.constant).flatMap(n => n.reads));
  for (const id of graph.inputs.filter(id => read.has(id)).slice(0, 40)) {
    maker.set(id, items.length);
    items.push(item('input', 'input', value(id).name || '', [], [], {type: value(id).type}));
  }
  for (const node of graph.nodes.filter(n => !n.constant)) {
    const at = items.length;
    items.push(item(
        'node', node.op, node.sources[0] || '', node.sources,
        node.reads.filter(id => maker.has(id)).map(id => maker.get(id)),
        {node, type: node.writes.map(id => value(id).type).join(', '), seconds: node.seconds, at}));
    node.writes.forEach(id => maker.set(id, at));
  }
  for (const output of graph.outputs.slice(0, 40))
    if (maker.has(output.value))
      items.push(
          item('output', 'output', output.name, [], [maker.get(output.value)], {type: value(output.value).type}));
  return items;
}

function rootOf(tensor) { return tensor.view_of === undefined ? tensor.tensor : tensor.view_of; }

function itemsAfter() {
  const items = [], makers = new Map();
  const makersOf = tensor => makers.get(rootOf(tensor)) || [];
  const read = new Set(plan.steps.flatMap(step => step.reads.map(rootOf)));
  for (const input of plan.inputs.filter(t => read.has(t.tensor)).slice(0, 40)) {
    makers.set(input.tensor, [items.length]);
    items.push(item('input', 'input', input.name, [], [], {type: typeOf(input)}));
  }
  plan.steps.forEach((step, number) => {
    const at = items.length;
    items.push(item(
        'node', step.label, step.sources.length ? shortSources(step.sources) : '', step.sources,
        step.reads.flatMap(makersOf),
        {step, number, type: step.writes.map(typeOf).join(', '), seconds: step.predicted_seconds, at}));
    for (const tensor of step.writes) makers.set(rootOf(tensor), [...(makers.get(rootOf(tensor)) || []), at]);
  });
  for (const output of plan.outputs.slice(0, 40))
    items.push(item('output', 'output', output.name, [], makersOf(output), {type: typeOf(output)}));
  return items;
}

function shortSources(sources) { return sources[0] + (sources.length > 1 ? ` + ${sources.length - 1}` : ''); }

// Stretches that repeat at once: the one that covers most from each place on, the shortest period first. `marks` are
// texts.
function findRuns(marks) {
  const runs = [], ids = new Map();
  const id = marks.map(mark => ids.has(mark) ? ids.get(mark) : (ids.set(mark, ids.size), ids.size - 1));
  for (let i = 0; i < id.length;) {
    let best = null;
    for (let period = 1; period <= Math.min((id.length - i) / 2, 600); period++) {
      let same = 0;
      while (i + same + period < id.length && id[i + same] === id[i + same + period]) same++;
      const count = Math.floor(same / period) + 1, covers = count * period;
      if (count < 2 || covers < 6 || (period === 1 && count < 6) || (best && covers <= best.period * best.count))
        continue;
      best = {start: i, period, count};
    }
    // What repeats more from a little further on is not cut into by something small.
    if (best && best.period * best.count < 24 && betterSoon(id, i, best)) best = null;
    if (best) runs.push(best);
    i = best ? i + best.period * best.count : i + 1;
  }
  return runs;
}

function betterSoon(id, from, best) {
  for (let i = from + 1; i < from + best.period * best.count; i++)
    for (let period = best.period + 1; period <= Math.min((id.length - i) / 2, 600); period++) {
      let same = 0;
      while (i + same + period < id.length && id[i + same] === id[i + same + period]) same++;
      if (same >= period && (Math.floor(same / period) + 1) * period >= 2 * best.period * best.count) return true;
    }
  return false;
}

// A side of the graph: items, and runs of repeated blocks of which `open` are shown one by one.
function makeSide(name, items) {
  const first = items.findIndex(i => i.kind === 'node');
  const nodes = items.filter(i => i.kind === 'node');
  const runs = findRuns(nodes.map(i => i.label + '/' + i.needs.length))
                   .map(run => ({...run, start: run.start + Math.max(first, 0), open: 0}));
  return {name, items, runs};
}

// What is drawn: units that stand for items, and edges between them.
function unitsOf(side) {
  const units = [], unitOf = new Array(side.items.length), frames = [];
  const add = (members, more) => {
    members.forEach(m => {
      unitOf[m] = units.length;
    });
    units.push({members, ...more});
  };
  for (let i = 0; i < side.items.length;) {
    const run = side.runs.find(r => r.start === i);
    if (!run) {
      add([i], {kind: side.items[i].kind});
      i++;
      continue;
    }
    for (let k = 0; k < run.open; k++) {
      const from = units.length;
      for (let j = 0; j < run.period; j++) add([i + k * run.period + j], {kind: 'node'});
      frames.push({run, number: k, from, to: units.length});
    }
    const left = run.count - run.open;
    if (left)
      add(Array.from({length: left * run.period}, (_, j) => i + run.open * run.period + j), {kind: 'run', run, left});
    i += run.period * run.count;
  }
  const edges = new Map();
  side.items.forEach((it, i) => it.needs.forEach(need => {
    const from = unitOf[need], to = unitOf[i];
    if (from !== to) edges.set(from + ' ' + to, {from, to});
  }));
  return {units, edges: [...edges.values()], unitOf, frames};
}

function runOf(side, at) { return side.runs.find(r => at >= r.start && at < r.start + r.period * r.count); }

// "matmul, add, softmax ..." by how often they are there.
function operatorsOf(items) {
  const counts = new Map();
  items.forEach(i => counts.set(i.label, (counts.get(i.label) || 0) + 1));
  return [...counts].sort((a, b) => b[1] - a[1]);
}
