// graph.js - layered drawings of both sides: each node is in the layer behind the last one that it needs, edges over
// several layers keep a place in each, and places within layers follow the means of neighbours.

const GAP = 18, LAYER = 74, HEIGHT = 46, LETTER = 7.3;

function labelsOf(side, unit) {
  if (unit.kind === 'run') {
    const {run, left} = unit, block = side.items.slice(run.start, run.start + run.period);
    const what = left === run.count ? `${run.count} × block of ${run.period}` : `${left} more of ${run.count}`;
    return [
      what,
      operatorsOf(block).slice(0, 3).map(o => shortLabel(o[0], 18)).join(', ') +
          (operatorsOf(block).length > 3 ? ' …' : '')
    ];
  }
  const it = side.items[unit.members[0]];
  return [
    shortLabel(it.label), it.kind === 'node' ? shown(it.name || it.type, 30) : shown(it.name + ' ' + it.type, 30)
  ];
}

function layOut(side, graph) {
  const nodes = graph.units.map((unit, i) => {
    const labels = labelsOf(side, unit);
    return {unit, i, labels, width: Math.max(...labels.map(l => l.length)) * LETTER + 24, up: [], down: [], layer: 0};
  });
  const edges = graph.edges.map(e => ({from: nodes[e.from], to: nodes[e.to], path: []}));
  edges.sort((a, b) => a.to.i - b.to.i);
  for (const e of edges) e.to.layer = Math.max(e.to.layer, e.from.layer + 1);
  // Inputs stand next to who needs them first.
  for (const n of nodes) {
    const readers = edges.filter(e => n.unit.kind === 'input' && e.from === n).map(e => e.to.layer);
    if (readers.length) n.layer = Math.min(...readers) - 1;
  }
  const layers = [];
  const put = n => (layers[n.layer] = layers[n.layer] || []).push(n);
  nodes.forEach(put);
  let bends = 0;
  for (const e of edges) {
    let last = e.from;
    for (let layer = e.from.layer + 1; layer < e.to.layer && bends < 6000; layer++, bends++) {
      const bend = {bend: true, width: 6, up: [last], down: [], layer};
      last.down.push(bend);
      put(bend);
      e.path.push(bend);
      last = bend;
    }
    last.down.push(e.to);
    e.to.up.push(last);
  }
  for (let i = 0; i < layers.length; i++) layers[i] = layers[i] || [];
  order(layers);
  place(layers);
  return {nodes, edges, layers};
}

function mean(list, of) { return list.length ? sum(list.map(of)) / list.length : null; }

function order(layers) {
  const number = () => layers.forEach(layer => layer.forEach((n, i) => {
    n.at = i;
  }));
  number();
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      layer.forEach(n => {
        n.key = mean(down ? n.up : n.down, m => m.at);
      });
      layer.sort((a, b) => (a.key ?? a.at) - (b.key ?? b.at));
      layer.forEach((n, i) => {
        n.at = i;
      });
    }
  }
}

// Pushes apart what wants to lie too near, as far to the left as to the right.
function separate(layer) {
  let right = -Infinity;
  for (const n of layer) {
    n.x = Math.max(n.want, right + GAP + n.width / 2);
    right = n.x + n.width / 2;
  }
  const shift = mean(layer, n => n.want - n.x) || 0;
  layer.forEach(n => {
    n.x += shift;
  });
}

function place(layers) {
  layers.forEach(layer => {
    layer.forEach(n => {
      n.want = 0;
    });
    separate(layer);
  });
  for (let sweep = 0; sweep < 10; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      layer.forEach(n => {
        n.want = mean(down ? n.up : n.down, m => m.x) ?? n.x;
      });
      separate(layer);
    }
  }
  layers.forEach((layer, i) => layer.forEach(n => {
    n.y = i * LAYER;
  }));
}

// ---- drawing
// ---------------------------------------------------------------------------------------------------------

function edgeLine(e) {
  const points = [[e.from.x, e.from.y + HEIGHT / 2], ...e.path.map(b => [b.x, b.y]), [e.to.x, e.to.y - HEIGHT / 2]];
  let line = `M${points[0].map(v => v.toFixed(1)).join(' ')}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], half = (y1 - y0) / 2;
    line += `C${x0.toFixed(1)} ${(y0 + half).toFixed(1)} ${x1.toFixed(1)} ${(y1 - half).toFixed(1)} ${x1.toFixed(1)} ${
        y1.toFixed(1)}`;
  }
  return line;
}

class Pane {
  constructor(side, title, onSelect) {
    this.side = side;
    this.scale = 1;
    this.lit = new Set();
    this.chosen = null;
    this.onSelect = onSelect;
    this.box = make('div', {
      class: 'pane',
      tabindex: 0,
      role: 'group',
      'aria-label': `${title}: a graph; arrows scroll it, + and - zoom`,
      keydown: event => this.key(event),
      wheel: event => this.wheel(event),
      pointerdown: event => this.grab(event)
    });
    const tool = (text, label, act) =>
        make('button', {type: 'button', 'aria-label': `${label}: ${title}`, title: label, click: act}, text);
    this.fold = tool('Fold', 'Fold repeated blocks', () => this.foldAll(0));
    this.unfold = tool('Unfold', 'Unfold repeated blocks', () => this.foldAll(Infinity));
    this.element = make(
        'section', {class: 'side', 'aria-label': title},
        make(
            'div', {class: 'bar'}, make('h3', {}, title), tool('−', 'Zoom out', () => this.zoom(1 / 1.25)),
            tool('+', 'Zoom in', () => this.zoom(1.25)), tool('Fit', 'Fit into the pane', () => this.fit()),
            side.runs.length ? [this.fold, this.unfold] : null),
        this.box);
    this.redraw();
  }

  redraw() {
    this.graph = unitsOf(this.side);
    this.drawing = layOut(this.side, this.graph);
    const {nodes, edges} = this.drawing, all = this.drawing.layers.flat();
    this.left = Math.min(0, ...all.map(n => n.x - n.width / 2)) - 24;
    this.right = Math.max(0, ...all.map(n => n.x + n.width / 2)) + 24;
    this.top = -HEIGHT / 2 - 30;
    this.bottom = (this.drawing.layers.length - 1) * LAYER + HEIGHT / 2 + 24;
    this.lines = edges.map(e => draw('path', {class: 'edge', d: edgeLine(e)}));
    this.shapes = nodes.map(n => this.drawNode(n));
    const frames = this.graph.frames.map(f => this.drawFrame(f));
    this.svg = draw(
        'svg', {viewBox: [this.left, this.top, this.right - this.left, this.bottom - this.top].join(' ')}, frames,
        this.lines, this.shapes);
    this.box.replaceChildren(this.svg);
    this.resize();
    this.light();
  }

  drawNode(n) {
    const {unit, labels} = n, it = this.side.items[unit.members[0]];
    const name = unit.kind === 'run' ? `${labels[0]}: ${labels[1]}; opens` :
                                       `${labels[0]} ${labels[1]}${known(it.seconds) ? ', ' + time(it.seconds) : ''}`;
    const shape = draw('g', {
      class: `unit ${unit.kind}`,
      transform: `translate(${n.x.toFixed(1)} ${n.y.toFixed(1)})`,
      tabindex: 0,
      role: 'button',
      'aria-label': name,
      click: () => this.act(unit),
      keydown: event => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        this.act(unit);
      }
    });
    const rect = (dx, dy) => draw('rect', {
      x: (-n.width / 2 + dx).toFixed(1),
      y: -HEIGHT / 2 + dy,
      width: n.width.toFixed(1),
      height: HEIGHT,
      rx: unit.kind === 'node' ? 6 :
          unit.kind === 'run'  ? 3 :
                                 22
    });
    if (unit.kind === 'run') shape.append(rect(8, 8), rect(4, 4));
    shape.append(rect(0, 0), draw('text', {y: -4, class: 'op'}, labels[0]), draw('text', {y: 14}, labels[1]));
    return shape;
  }

  drawFrame(f) {
    const inside = this.drawing.nodes.slice(f.from, f.to);
    const left = Math.min(...inside.map(n => n.x - n.width / 2)) - 10,
          right = Math.max(...inside.map(n => n.x + n.width / 2)) + 10;
    const top = Math.min(...inside.map(n => n.y)) - HEIGHT / 2 - 12,
          bottom = Math.max(...inside.map(n => n.y)) + HEIGHT / 2 + 12;
    return draw('rect', {class: 'frame', x: left, y: top, width: right - left, height: bottom - top, rx: 10});
  }

  act(unit) {
    if (unit.kind !== 'run') {
      this.onSelect(this, unit.members[0]);
      return;
    }
    const first = unit.members[0];
    unit.run.open = unit.run.open ? unit.run.count : 1;
    this.redraw();
    this.show(first);
    this.shapes[this.graph.unitOf[first]].focus({preventScroll: true});
    say(unit.run.open === 1 ? 'The first of the repeated blocks is open' : 'All of the repeated blocks are open');
  }

  foldAll(open) {
    this.side.runs.forEach(run => {
      run.open = Math.min(open, run.count);
    });
    this.redraw();
    if (this.chosen !== null) this.show(this.chosen);
  }

  // Opens what hides an item.
  reveal(at) {
    const run = runOf(this.side, at);
    if (!run) return;
    const needed = Math.floor((at - run.start) / run.period) + 1;
    if (run.open >= needed) return;
    run.open = needed === 1 ? 1 : run.count;
    this.redraw();
  }

  show(at) {
    const n = this.drawing.nodes[this.graph.unitOf[at]];
    if (n)
      this.box.scrollTo({
        left: (n.x - this.left) * this.scale - this.box.clientWidth / 2,
        top: (n.y - this.top) * this.scale - this.box.clientHeight / 2
      });
  }

  light() {
    const units = new Set([...this.lit].map(at => this.graph.unitOf[at]));
    this.shapes.forEach((shape, i) => {
      shape.classList.toggle('lit', units.has(i));
      shape.classList.toggle('chosen', this.chosen !== null && this.graph.unitOf[this.chosen] === i);
    });
    this.lines.forEach((line, i) => {
      const e = this.drawing.edges[i];
      line.classList.toggle(
          'lit',
          this.chosen !== null &&
              (e.from.i === this.graph.unitOf[this.chosen] || e.to.i === this.graph.unitOf[this.chosen]));
    });
  }

  resize() {
    this.svg.setAttribute('width', ((this.right - this.left) * this.scale).toFixed(0));
    this.svg.setAttribute('height', ((this.bottom - this.top) * this.scale).toFixed(0));
  }

  zoom(by) {
    const x = (this.box.scrollLeft + this.box.clientWidth / 2) / this.scale,
          y = (this.box.scrollTop + this.box.clientHeight / 2) / this.scale;
    this.scale = Math.min(4, Math.max(0.05, this.scale * by));
    this.resize();
    this.box.scrollTo(
        {left: x * this.scale - this.box.clientWidth / 2, top: y * this.scale - this.box.clientHeight / 2});
  }

  fit() {
    this.scale = Math.max(
        0.05,
        Math.min(
            1.2, (this.box.clientWidth - 4) / (this.right - this.left),
            (this.box.clientHeight - 4) / (this.bottom - this.top)));
    this.resize();
  }

  // As large as can be read, from the top.
  begin() {
    this.scale = Math.min(1, Math.max(0.62, (this.box.clientWidth - 20) / (this.right - this.left)));
    this.resize();
    const middle =
        this.drawing.nodes.map(n => n.x).sort((a, b) => a - b)[Math.floor(this.drawing.nodes.length / 2)] || 0;
    this.box.scrollTo({left: (middle - this.left) * this.scale - this.box.clientWidth / 2, top: 0});
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '+' || event.key === '=') this.zoom(1.25);
    if (event.key === '-') this.zoom(1 / 1.25);
    if (event.key === '0') this.fit();
  }

  wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1.12 : 1 / 1.12);
  }

  // Drags what is beside nodes.
  grab(event) {
    if (event.button !== 0 || event.pointerType !== 'mouse' || event.target.closest('.unit')) return;
    const from = {x: event.clientX + this.box.scrollLeft, y: event.clientY + this.box.scrollTop};
    const move = e => this.box.scrollTo({left: from.x - e.clientX, top: from.y - e.clientY});
    const end = () => {
      window.removeEventListener('pointermove', move);
      window.removeEventListener('pointerup', end);
    };
    window.addEventListener('pointermove', move);
    window.addEventListener('pointerup', end);
  }
}
