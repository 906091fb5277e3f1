// charts.js - pictures of numbers, as SVG; each has a table beside it, or says in words what it shows.

const WIDE = 720;

function chart(title, height, ...parts) {
  return make(
      'div', {class: 'chart', tabindex: 0, role: 'region', 'aria-label': title},
      draw(
          'svg', {viewBox: `0 0 ${WIDE} ${height}`, role: 'img', 'aria-label': title}, draw('title', {}, title),
          parts));
}

function textAt(x, y, text, attributes = {}) {
  return draw('text', {x: x.toFixed(1), y: y.toFixed(1), ...attributes}, text);
}

// Numbers that an axis is marked with: 1, 2 or 5 times a power of ten.
function ticks(most, count = 4) {
  if (!(most > 0)) return [0];
  const rough = most / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  return Array.from({length: Math.floor(most / step + 1e-9) + 1}, (_, i) => i * step);
}

// Horizontal bars: rows of [label, values], as many values as series.
function bars(title, series, rows, text) {
  const left = 210, right = 92, row = series.length * 13 + 12, height = rows.length * row + 34;
  const most = Math.max(1e-300, ...rows.flatMap(r => r[1]).filter(known));
  const parts = series.map(
      (name, i) =>
          [draw('rect', {class: 'series' + i, x: left + i * 150, y: 6, width: 12, height: 12}),
           textAt(left + i * 150 + 18, 16, name)]);
  rows.forEach(([label, values], r) => {
    const y = 30 + r * row;
    parts.push(draw(
        'g', {}, textAt(left - 8, y + row / 2 + 1, shown(label, 28), {'text-anchor': 'end'}),
        draw('title', {}, visible(label))));
    values.forEach((value, i) => {
      if (!known(value)) return;
      const width = (WIDE - left - right) * value / most;
      parts.push(
          draw(
              'rect',
              {class: 'series' + i, x: left, y: y + i * 13 + 3, width: Math.max(1, width).toFixed(1), height: 11}),
          textAt(left + width + 6, y + i * 13 + 13, text(value)));
    });
  });
  return chart(title, height, parts);
}

// ---- the e-graph over iterations
// --------------------------------------------------------------------------------------

function growth(phase) {
  const rows = phase.iterations, height = 220, left = 64, right = WIDE - 20, top = 30, bottom = height - 34;
  const most = Math.max(1, ...rows.map(r => r[0] || 0));
  const x = i => rows.length < 2 ? (left + right) / 2 : left + (right - left) * i / (rows.length - 1);
  const y = v => bottom - (bottom - top) * v / most;
  const parts = ticks(most).map(
      v =>
          [draw('line', {class: 'grid', x1: left, x2: right, y1: y(v), y2: y(v)}),
           textAt(left - 8, y(v) + 4, digits(v), {'text-anchor': 'end'})]);
  const every = Math.max(1, Math.ceil(rows.length / 12));
  rows.forEach((_, i) => {
    if (i % every === 0) parts.push(textAt(x(i), bottom + 18, String(i + 1), {'text-anchor': 'middle'}));
  });
  ['e-nodes', 'e-classes'].forEach((name, k) => {
    parts.push(
        draw('rect', {class: 'series' + k, x: left + k * 120, y: 6, width: 12, height: 12}),
        textAt(left + k * 120 + 18, 16, name), draw('polyline', {
          class: 'line series' + k,
          points: rows.map((r, i) => `${x(i).toFixed(1)},${y(r[k] || 0).toFixed(1)}`).join(' ')
        }),
        rows.map(
            (r, i) => draw('circle', {class: 'series' + k, cx: x(i).toFixed(1), cy: y(r[k] || 0).toFixed(1), r: 3.5})));
  });
  parts.push(textAt((left + right) / 2, height - 2, 'iteration', {'text-anchor': 'middle'}));
  return chart(
      `${visible(phase.name)}: e-nodes and e-classes after each iteration, up to ${digits(most)} e-nodes`, height,
      parts);
}

// ---- the roofline
// -----------------------------------------------------------------------------------------------------

function peakOf(device) {
  const rates = device.flops_per_second,
        wanted = {fp32: 'f32', tf32: 'tf32', bf16: 'bf16', fp16: 'f16', fp8: 'f8e4m3'}[plan.precision];
  return rates[wanted] || rates.f32 || 0;
}

function roofline(device, points) {
  const height = 380, left = 84, right = WIDE - 24, top = 24, bottom = height - 46, peak = peakOf(device);
  const roofs = [['memory', device.bytes_per_second], ['cache', device.cache_bytes_per_second]].filter(r => r[1] > 0);
  const xs = [...points.map(p => p.x), ...roofs.map(r => peak / r[1])], ys = [...points.map(p => p.y), peak];
  const low = v => Math.floor(Math.log10(Math.min(...v)) - 0.3),
        high = v => Math.ceil(Math.log10(Math.max(...v)) + 0.3);
  const x0 = low(xs), x1 = high(xs), y0 = low(ys), y1 = high(ys);
  const x = v => left + (right - left) * (Math.log10(v) - x0) / (x1 - x0),
        y = v => bottom - (bottom - top) * (Math.log10(v) - y0) / (y1 - y0);
  const parts = [];
  for (let e = x0; e <= x1; e++)
    parts.push(
        draw('line', {class: 'grid', x1: x(10 ** e), x2: x(10 ** e), y1: top, y2: bottom}),
        textAt(x(10 ** e), bottom + 16, digits(10 ** e), {'text-anchor': 'middle'}));
  for (let e = y0; e <= y1; e++)
    parts.push(
        draw('line', {class: 'grid', x1: left, x2: right, y1: y(10 ** e), y2: y(10 ** e)}),
        textAt(left - 8, y(10 ** e) + 4, amount(10 ** e, 'flop/s'), {'text-anchor': 'end'}));
  const clip = v => Math.min(Math.max(v, 10 ** x0), 10 ** x1);
  roofs.forEach(([name, rate], k) => {
    const from = clip(10 ** y0 / rate), knee = clip(peak / rate);
    parts.push(
        draw('polyline', {
          class: 'line roof series' + (k + 2),
          points: [[from, Math.max(from * rate, 10 ** y0)], [knee, peak], [10 ** x1, peak]]
                      .map(p => `${x(p[0]).toFixed(1)},${y(Math.min(p[1], 10 ** y1)).toFixed(1)}`)
                      .join(' ')
        }),
        draw('rect', {class: 'series' + (k + 2), x: left + k * 250, y: 3, width: 12, height: 12}),
        textAt(left + k * 250 + 18, 13, `${name}: ${amount(rate, 'B/s')}`));
  });
  parts.push(textAt(right, Math.max(y(peak) - 7, 24), amount(peak, 'flop/s'), {'text-anchor': 'end'}));
  points.forEach(
      p => parts.push(draw(
          'circle',
          {class: p.measured ? 'dot series1' : 'dot series0', cx: x(p.x).toFixed(1), cy: y(p.y).toFixed(1), r: 5},
          draw(
              'title', {},
              `${p.measured ? 'measured' : 'predicted'}: step ${p.number}, ${visible(p.label)}: ${
                  amount(p.y, 'flop/s')}, ${digits(p.x)} flop/byte`))));
  parts.push(
      textAt((left + right) / 2, height - 6, 'operations for each byte that is moved', {'text-anchor': 'middle'}));
  return chart(
      `Roofline of the profile "${visible(device.name)}" with ${counted(points.length, 'point')}`, height, parts);
}

// ---- memory over time
// -------------------------------------------------------------------------------------------------

// Scratch tensors with their slot and the steps at which they stand.
function lives() {
  const found = new Map();
  plan.steps.forEach((step, at) => [...step.writes, ...step.reads].forEach(tensor => {
    if (tensor.slot === undefined) return;
    const root = rootOf(tensor);
    if (!found.has(root))
      found.set(root, {root, slot: tensor.slot, name: '', bytes: 0, from: at, to: at, label: step.label});
    const life = found.get(root);
    life.to = at;
    if (tensor.tensor === root || !life.bytes)
      Object.assign(life, {name: tensor.name, bytes: Math.max(life.bytes, tensor.bytes), type: typeOf(tensor)});
  }));
  return [...found.values()];
}

function memory(rows) {
  const slots = new Map();
  rows.forEach(r => slots.set(r.slot, Math.max(slots.get(r.slot) || 0, r.bytes)));
  const list = [...slots].sort((a, b) => a[0] - b[0]), total = Math.max(1, sum(list.map(s => s[1])));
  const height = Math.min(460, 120 + list.length * 34), left = 84, right = WIDE - 16, top = 12, bottom = height - 40;
  const base = new Map();
  let below = 0;
  for (const [slot, size] of list) {
    base.set(slot, below);
    below += size;
  }
  const x = at => left + (right - left) * at / plan.steps.length, y = v => bottom - (bottom - top) * v / total;
  const parts = list.map(
      ([slot]) => draw('line', {class: 'grid', x1: left, x2: right, y1: y(base.get(slot)), y2: y(base.get(slot))}));
  parts.push(
      textAt(left - 8, y(0) + 4, '0', {'text-anchor': 'end'}),
      textAt(left - 8, y(total) + 10, bytes(total), {'text-anchor': 'end'}));
  const written = new Set();
  [...rows].sort((a, b) => b.bytes - a.bytes).forEach((r, i) => {
    const inPlace = rows.some(
        o => o.slot === r.slot && o.from === r.to && o.from > r.from);  // it gives way to what is written there
    const from = base.get(r.slot), width = x(inPlace ? r.to : r.to + 1) - x(r.from) - 1,
          tall = y(from) - y(from + r.bytes) - 1;
    parts.push(draw(
        'g', {}, draw('rect', {
          class: 'tensor tensor' + i % 4,
          x: x(r.from).toFixed(1),
          y: y(from + r.bytes).toFixed(1),
          width: Math.max(1, width).toFixed(1),
          height: Math.max(1, tall).toFixed(1)
        }),
        draw(
            'title', {},
            `${visible(r.name || r.label)} ${r.type}, ${bytes(r.bytes)}, slot ${r.slot}, steps ${r.from} to ${r.to}`)));
    const place = [r.slot, r.from, Math.round((y(from) - y(from + r.bytes)) / 14)].join(),
          letters = Math.floor((width - 8) / 7.4);
    if (letters < 5 || tall <= 16 || written.has(place)) return;
    written.add(place);
    parts.push(textAt(
        x(r.from) + 5, y(from + r.bytes) + 14, shown(r.name || shortLabel(r.label), letters), {class: 'inside'}));
  });
  const every = Math.max(1, Math.ceil(plan.steps.length / 12));
  plan.steps.forEach((_, i) => {
    if (i % every === 0) parts.push(textAt(x(i + 0.5), bottom + 17, String(i), {'text-anchor': 'middle'}));
  });
  parts.push(textAt((left + right) / 2, height - 4, 'step', {'text-anchor': 'middle'}));
  return chart(
      `Scratch memory: ${counted(rows.length, 'tensor')} in ${counted(list.length, 'slot')}, ${bytes(total)} in all`,
      height, parts);
}
