// A page's parts: pictures as specifications of Vega, and around each its heading, its meaning, words for those who do
// not see it, and its numbers as a table.
'use strict';

const WIDTH = 828, MOST_LABELS = 11;
// Eight colours that differ also to the colour-blind: Okabe and Ito, "Color universal design", 2008; lighter ones on black.
const LIGHT = {blue: '#0072b2', orange: '#e69f00', green: '#009e73', vermilion: '#d55e00', purple: '#cc79a7', sky: '#56b4e9',
  grey: '#8c8c8c', pale: '#dcdcd8', ink: '#1a1a1a', paper: '#fdfdfb', line: '#dcdcd8', idle: '#eeeeec'};
const DARK = {...LIGHT, blue: '#3b96d2', green: '#27b48c', vermilion: '#e8772a', pale: '#6a6e72', ink: '#e8e6e1', paper: '#16181b',
  line: '#34383d', idle: '#2b2f34'};
const scheme = matchMedia('(prefers-color-scheme: dark)');
let colours = LIGHT;

// "1234", "12.3", "0.00123": about three digits
function short(x) {
  if (!Number.isFinite(x)) return 'not known';
  return Math.abs(x) >= 99.95 && Math.abs(x) < 1e7 ? x.toFixed(0) : String(Number(x.toPrecision(3)));
}
const sum = list => list.reduce((a, b) => a + b, 0);
const range = n => [...Array(n).keys()];

// ---- specifications ----
const said = (name, x, y, text, more = {}) => ({type: 'text', name: name + '-text', from: {data: name}, encode: {enter: {x, y, text: {field: text},
  fill: {value: colours.ink}, fontSize: {value: 12}, limit: {value: WIDTH}, ...more}}});
const field = (name, scale) => scale ? {scale, field: name} : {field: name};

function spec(title, height, data, scales, axes, marks, series, more = {}) {
  const {ink, line, paper} = colours, plain = {labelColor: ink, titleColor: ink, titleFontWeight: 'normal', labelFontSize: 12, titleFontSize: 12};
  return {width: WIDTH, height, padding: 6, background: paper, autosize: 'pad', description: title, title: {text: title, color: ink, subtitleColor: ink, anchor: 'start', fontSize: 15, limit: WIDTH},
    data: Object.entries(data).map(([name, values]) => ({name, values})),
    scales: [...scales, {name: 'colour', type: 'ordinal', domain: series.map(s => s.name), range: series.map(s => s.colour)}],
    axes: axes.map(axis => ({grid: axis.orient === 'left' || axis.orient === 'bottom', gridColor: line, domainColor: ink, tickColor: ink, ...plain, ...axis})),
    legends: series.length < 2 ? [] : [{fill: 'colour', orient: 'top', direction: 'horizontal', columns: 6, symbolType: 'square', labelLimit: 400, offset: 26, ...plain}], marks, ...more};
}

// Stacked bars, lying. groups: [{name, reason, bars: [{label, values}]}]; values of a bar as many as series.
function bars({title, unit, series, groups}) {
  const words = [], boxes = [], labels = [], totals = [], hex = s => ({name: s.name, colour: colours[s.colour]});
  const left = groups.some(g => (g.bars ?? []).some(bar => bar.label)) ? 80 : 0;
  let y = 0;
  for (const group of groups) {
    words.push({y: y + 14, text: group.name, weight: 'bold', style: 'normal'});
    y += 19;
    if (group.reason) words.push({y: y + 12, text: group.reason, weight: 'normal', style: 'italic'}), y += 18;
    for (const bar of group.reason ? [] : group.bars) {
      const total = bar.values.every(Number.isFinite) ? sum(bar.values) : NaN;
      bar.values.forEach((value, i) => value > 0 && Number.isFinite(total) && boxes.push({y, from: sum(bar.values.slice(0, i)), to: sum(bar.values.slice(0, i + 1)),
        series: series[i].name, hint: `${bar.label ? bar.label + ' ' : ''}${series[i].name}: ${short(value)} ${unit}`}));
      labels.push({y: y + 12, text: bar.label ?? ''});
      totals.push({y: y + 12, at: Number.isFinite(total) ? total : 0, text: short(total)});
      y += 18;
    }
    y += 9;
  }
  const most = Math.max(...boxes.map(b => b.to), 0) || 1, used = series.filter(s => boxes.some(b => b.series === s.name)).map(hex);
  return spec(title, y, {words, boxes, labels, totals}, [{name: 'x', domain: [0, most], nice: true, range: [left, WIDTH - 70]}],
    [{orient: 'bottom', scale: 'x', title: unit, format: '.7~r', tickCount: 8}], [
      {type: 'rect', name: 'box', from: {data: 'boxes'}, encode: {enter: {x: field('from', 'x'), x2: field('to', 'x'), y: field('y'), height: {value: 15},
        fill: field('series', 'colour'), tooltip: field('hint')}}},
      said('words', {value: 0}, field('y'), 'text', {fontWeight: field('weight'), fontStyle: field('style')}),
      said('labels', {value: left - 8}, field('y'), 'text', {align: {value: 'right'}}),
      said('totals', {scale: 'x', field: 'at', offset: 6}, field('y'), 'text')], used);
}

// ---- points and lines; an axis is linear from 0, log, or doubles ----
const lies = (axis, value) => Number.isFinite(value) && (axis.kind === 'linear' ? value >= 0 : value > 0);

function ticks(kind, low, high) {
  const all = [];
  if (kind === 'doubles') for (let at = low; at <= high * 1.000001; at *= 2) all.push(at);
  else for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (let k = 1; k < 10; k++) if (k * power >= low && k * power <= high && (high < 10 * low || [1, 2, 5].includes(k))) all.push(k * power);
  const tens = all.filter(at => Number.isInteger(Math.round(1e9 * Math.log10(at)) / 1e9));
  return kind === 'log' && all.length > MOST_LABELS ? tens : all;
}

function scaleOf(name, axis, values, across) {
  const least = Math.min(...values), most = Math.min(Math.max(...values), axis.cap || Infinity), low = values.length ? Math.min(least, most) : 1, high = values.length ? most : 1;
  const reach = across ? [0, WIDTH] : [360, 0];
  if (axis.kind === 'linear') return [{name, domain: [0, high || 1], nice: !axis.cap, range: reach}, {tickCount: 8}];
  const domain = axis.kind === 'log' ? [low / 1.15, axis.cap && most >= axis.cap ? axis.cap : high * 1.15] : [low, Math.max(high, 2 * low)];
  return [{name, type: 'log', base: axis.kind === 'log' ? 10 : 2, domain, range: reach}, {values: ticks(axis.kind, ...domain)}];
}

const SHAPES = {line: [28, 1, 0.7], dot: [50, 0.85, 0.7], ring: [32, 0, 1.2], rimmed: [95, 1, 1.4]};

// sets: [{name, colour, shape, points: [{x, y, hint}]}]; a later one lies over an earlier one. wall: {at, name}
function plot({title, x, y, sets, wall}) {
  const drawn = sets.map(set => ({...set, colour: colours[set.colour], points: set.points.filter(p => lies(x, p.x) && lies(y, p.y))})).filter(set => set.points.length);
  const all = drawn.flatMap(set => set.points), walls = wall && lies(x, wall.at) ? [wall] : [];
  const [xScale, xTicks] = scaleOf('x', x, [...all.map(p => p.x), ...walls.map(w => w.at)], true), [yScale, yTicks] = scaleOf('y', y, all.map(p => p.y), false);
  const place = p => ({...p, y: y.cap ? Math.min(p.y, y.cap) : p.y});
  const dots = drawn.flatMap(set => set.points.filter(p => p.hint || set.shape !== 'line').map(p => {
    const [size, opacity, width] = SHAPES[set.shape];
    return {...place(p), size, opacity, width, fill: set.colour, edge: set.shape === 'ring' ? set.colour : set.shape === 'rimmed' ? colours.ink : colours.paper};
  }));
  const lines = drawn.flatMap(set => set.shape !== 'line' ? [] : set.points.map(p => ({...place(p), set: set.name, stroke: set.colour})));
  return spec(title, 360, {dots, lines, walls}, [xScale, yScale], [{orient: 'bottom', scale: 'x', title: x.name, format: '.7~r', ...xTicks},
    {orient: 'left', scale: 'y', title: y.name, format: '.7~r', ...yTicks}], [
    {type: 'rect', name: 'wall', from: {data: 'walls'}, encode: {enter: {x: field('at', 'x'), x2: {value: WIDTH}, y: {value: 0}, y2: {value: 360}, fill: {value: colours.vermilion}, fillOpacity: {value: 0.1}}}},
    {type: 'rule', from: {data: 'walls'}, encode: {enter: {x: field('at', 'x'), y: {value: -9}, y2: {value: 360}, stroke: {value: colours.ink}, strokeWidth: {value: 2}}}},
    said('walls', field('at', 'x'), {value: -13}, 'name', {align: {value: 'right'}}),
    {type: 'group', from: {facet: {name: 'line', data: 'lines', groupby: 'set'}}, marks: [{type: 'line', name: 'curve', from: {data: 'line'},
      encode: {enter: {x: field('x', 'x'), y: field('y', 'y'), stroke: field('stroke'), strokeWidth: {value: 2}}}}]},
    {type: 'symbol', name: 'dot', from: {data: 'dots'}, encode: {enter: {x: field('x', 'x'), y: field('y', 'y'), size: field('size'), fill: field('fill'), fillOpacity: field('opacity'),
      stroke: field('edge'), strokeWidth: field('width'), tooltip: field('hint')}}}], drawn.filter((set, i) => set.name && drawn.findIndex(other => other.name === set.name) === i));
}

// Stacked areas as staircases: a value holds until the next point. values: [series][point]; marks: [[x, word]]; level: {at, name}
function areas({title, xName, unit, series, x, values, end, marks, level, highest}) {
  const rows = [], x0 = at => WIDTH * at / end;
  series.forEach((s, i) => {
    let before;
    x.forEach((at, k) => {
      const low = sum(values.slice(0, i).map(v => v[k])), high = low + values[i][k];
      if (before && before.low === low && before.high === high) return;
      before = {series: s.name, x: at, low, high};
      rows.push(before);
    });
    rows.push({...before, x: end});
  });
  let free = 0, from = 0;
  const lines = [], words = [];
  marks.forEach(([at, text], i) => {
    const px = x0(at), next = i + 1 < marks.length ? x0(marks[i + 1][0]) : WIDTH, wide = 6.4 * text.length;
    if (px < from) return;
    lines.push({x: at}), from = px + 3;
    if (px + 2 >= free && px + 2 + wide <= next + 6.4) words.push({x: at, text}), free = px + 2 + wide;
  });
  const used = series.map((s, i) => ({name: s.name, colour: colours[s.colour], used: values[i].some(v => v > 0)})).filter(s => s.used);
  return spec(title, 250, {rows: rows.filter(r => used.some(s => s.name === r.series)), lines, words, level: [level]},
    [{name: 'x', domain: [0, end], range: [0, WIDTH]}, {name: 'y', domain: [0, 1.08 * Math.max(highest, level.at)], nice: true, range: [250, 0]}],
    [{orient: 'bottom', scale: 'x', title: xName, format: '.7~r', grid: false}, {orient: 'left', scale: 'y', title: unit, format: '.7~r', tickCount: 8}], [
    {type: 'group', from: {facet: {name: 'area', data: 'rows', groupby: 'series'}}, marks: [{type: 'area', name: 'pile', from: {data: 'area'}, encode: {enter: {interpolate: {value: 'step-after'},
      x: field('x', 'x'), y: field('high', 'y'), y2: field('low', 'y'), fill: field('series', 'colour'), tooltip: field('series')}}}]},
    {type: 'rule', name: 'mark', from: {data: 'lines'}, encode: {enter: {x: field('x', 'x'), y: {value: -4}, y2: {value: 250}, stroke: {value: colours.ink}, strokeOpacity: {value: 0.25}}}},
    said('words', {scale: 'x', field: 'x', offset: 2}, {value: -6}, 'text'),
    {type: 'rule', name: 'plan', from: {data: 'level'}, encode: {enter: {x: {value: 0}, x2: {value: WIDTH}, y: field('at', 'y'), stroke: {value: colours.ink}, strokeDash: {value: [5, 4]}}}},
    said('level', {value: WIDTH - 4}, {scale: 'y', field: 'at', offset: -5}, 'name', {align: {value: 'right'}})], used);
}

// ---- pipelines: a row a stage, time to the right ----
const KINDS = {F: ['forward', [200, 222, 243], [24, 92, 164]], B: ['backward', [253, 214, 170], [198, 84, 8]], W: ['weight gradients', [205, 233, 205], [34, 120, 60]]};
const shade = (chunks, chunk) => chunks === 1 ? 0.4 : chunk / (chunks - 1);
const shadeOf = (kind, chunks, chunk) => `rgb(${KINDS[kind][1].map((light, i) => Math.round(light + shade(chunks, chunk) * (KINDS[kind][2][i] - light)))})`;
const actionOf = (p, [kind, microbatch, chunk, start, end]) => `${KINDS[kind][0]} of microbatch ${microbatch}, chunk ${chunk}: ${short(start)} to ${short(end)} ${p.unit}`;

// As schedule_chart_json writes it. longest: what is as wide as the picture, so that pictures have one scale.
function gantt(p, longest) {
  const row = Math.max(5, Math.min(26, 900 / p.stages.length)), wide = WIDTH * p.makespan / longest, px = wide / p.makespan;
  const boxes = p.stages.flatMap((actions, stage) => actions.map(a => ({y: stage * row + 1, from: a[3], to: a[4], height: row - 2, fill: shadeOf(a[0], p.chunks, a[2]), hint: actionOf(p, a)})));
  const numbers = p.stages.flatMap((actions, stage) => actions.filter(a => px * (a[4] - a[3]) >= 4 + 6.2 * String(a[1]).length && row >= 12)
    .map(a => ({x: (a[3] + a[4]) / 2, y: stage * row + row / 2 + 4, text: a[1], ink: shade(p.chunks, a[2]) > 0.55 ? '#ffffff' : '#1a1a1a'})));
  const idle = p.stages.map((_, stage) => ({y: stage * row + 1, height: row - 2})), names = p.stages.map((_, stage) => ({y: stage * row + row / 2 + 4, text: row >= 12 || stage % 10 === 0 ? `stage ${stage}` : ''}));
  const kinds = Object.keys(KINDS).filter(kind => p.stages.some(actions => actions.some(a => a[0] === kind)));
  const series = kinds.flatMap(kind => range(p.chunks).map(k => ({name: KINDS[kind][0] + (p.chunks > 1 ? (p.pipes > 1 ? ', way ' : ', chunk ') + k : ''), colour: shadeOf(kind, p.chunks, k)})));
  const made = spec(p.heading || p.title, row * p.stages.length, {idle, boxes, numbers, names}, [{name: 'x', domain: [0, p.makespan], range: [0, wide]}],
    [{orient: 'bottom', scale: 'x', title: p.unit, format: '.7~r', grid: false}], [
      {type: 'rect', name: 'wait', from: {data: 'idle'}, encode: {enter: {x: {value: 0}, width: {value: wide}, y: field('y'), height: field('height'), fill: {value: colours.idle}}}},
      {type: 'rect', name: 'box', from: {data: 'boxes'}, encode: {enter: {x: field('from', 'x'), x2: field('to', 'x'), y: field('y'), height: field('height'), fill: field('fill'),
        stroke: {value: colours.paper}, strokeWidth: {value: 0.7}, tooltip: field('hint')}}},
      said('numbers', field('x', 'x'), field('y'), 'text', {align: {value: 'center'}, fill: field('ink'), fontSize: {value: 11}}),
      said('names', {value: -8}, field('y'), 'text', {align: {value: 'right'}})], [...series, {name: 'idle', colour: colours.idle}]);
  made.title.subtitle = `${p.heading ? p.title + '; ' : ''}a step takes ${short(p.makespan)} ${p.unit}: ${short(p.work)} of work, ${short(p.idle)} idle (${(100 * p.idle / p.makespan).toFixed(1)}% of the step)`;
  return made;
}

// A grid of coloured cells with two lines of words. cells: [{row, column, series, first, second, hint}]
function grid({title, rows, columns, series, cells}) {
  const left = 130, wide = (WIDTH - left) / columns.length, most = Math.floor(wide / 6.4), cut = text => text.length > most ? text.slice(0, most - 1) + '…' : text;
  const boxes = cells.map(c => ({...c, x: left + c.column * wide + 1, y: c.row * 46 + 1, fill: colours[series[c.series].colour], ink: series[c.series].colour === 'blue' ? '#ffffff' : '#1a1a1a'}));
  const words = boxes.flatMap(b => [{x: b.x + wide / 2, y: b.y + 18, text: cut(b.first), ink: b.ink, weight: 'bold'}, {x: b.x + wide / 2, y: b.y + 35, text: cut(b.second), ink: b.ink, weight: 'normal'}]);
  const names = [...rows.map((text, i) => ({x: left - 8, y: i * 46 + 27, text, align: 'right'})), ...columns.map((text, i) => ({x: left + (i + 0.5) * wide, y: -8, text, align: 'center'}))];
  return spec(title, 46 * rows.length, {boxes, words, names}, [], [], [
    {type: 'rect', name: 'box', from: {data: 'boxes'}, encode: {enter: {x: field('x'), y: field('y'), width: {value: wide - 2}, height: {value: 44}, fill: field('fill'), tooltip: field('hint')}}},
    said('words', field('x'), field('y'), 'text', {align: {value: 'center'}, fill: field('ink'), fontWeight: field('weight')}),
    said('names', field('x'), field('y'), 'text', {align: field('align')})], series.filter((s, i) => cells.some(c => c.series === i)).map(s => ({name: s.name, colour: colours[s.colour]})));
}

// ---- what stands in the page ----
const PAGES = {}, views = {}, drawing = [];

// heads: words, or {text, title, left}; a row's first cell names it; a cell {reason} is all of its row.
function table({id, caption, heads, rows}) {
  const told = heads.map(head => typeof head === 'string' ? {text: head} : head), side = i => told[i]?.left ? 'text' : '';
  const cell = (value, i, row) => value?.reason ? element('td', {className: 'reason', colSpan: 1 + heads.length - row.length, textContent: value.reason})
    : element(i ? 'td' : 'th', {className: side(i), textContent: value ?? '', ...(i ? {} : {scope: 'row'})});
  return element('div', {className: 'wide'}, element('table', {id: id ?? ''}, ...(caption ? [element('caption', {textContent: caption})] : []),
    element('thead', {}, element('tr', {}, ...told.map((head, i) => element('th', {scope: 'col', className: side(i), title: head.title ?? '', textContent: head.text})))),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...row.map(cell))))));
}

async function draw(at, name, made) {
  const view = new vega.View(vega.parse(made, null, {ast: true}), {expr: vega.expressionInterpreter, renderer: 'svg', container: at});
  (views[name] ??= []).push(view);
  await view.runAsync();
}

async function save(view, name) {
  const link = element('a', {href: URL.createObjectURL(new Blob([await view.toSVG()], {type: 'image/svg+xml'})), download: name + '.svg'});
  link.click();
  URL.revokeObjectURL(link.href);
}

// specs: of the pictures, one under another; alt: the same in words; heads, rows(): the same as numbers, made when they are asked for.
function figure({name, heading, meaning, specs, alt, heads, rows}) {
  const made = element('figure', {}), numbers = element('details', {open: typeof vega === 'undefined'}, element('summary', {textContent: 'the same as numbers'}));
  for (const one of typeof vega === 'undefined' ? [] : specs) {
    const at = element('div', {}), button = element('button', {type: 'button', textContent: 'Save as SVG'});
    drawing.push(draw(at, name, one));
    button.addEventListener('click', () => save(views[name][specs.indexOf(one)], name));
    made.append(element('div', {role: 'img', 'aria-label': `${one.description}. ${alt}`}, at), button);
  }
  const fill = () => numbers.querySelector('table') || numbers.append(table({heads, rows: rows()}));
  numbers.addEventListener('toggle', fill);
  if (numbers.open) fill();
  made.append(numbers);
  return specs.length ? [element('h2', {id: name, textContent: heading}), element('p', {className: 'small', textContent: meaning}), made] : [];
}

const barFigure = (name, heading, meaning, chart) => figure({name, heading, meaning, specs: chart.groups.length ? [bars(chart)] : [],
  alt: `Bars in ${chart.unit}: ` + chart.series.map(s => s.name).join(', '), heads: ['', '', ...chart.series.map(s => s.name), `total, ${chart.unit}`],
  rows: () => chart.groups.flatMap(g => g.reason ? [[g.name, {reason: g.reason}]] : g.bars.map(bar => [g.name, bar.label ?? '', ...bar.values.map(short), short(sum(bar.values))]))});

const plotFigure = (name, heading, meaning, chart) => figure({name, heading, meaning, specs: chart.sets.some(set => set.points.length) ? [plot(chart)] : [],
  alt: chart.sets.filter(set => set.points.length).map(set => `${set.points.length} points: ${set.name}`).join('; '), heads: ['', chart.x.name, chart.y.name, {text: '', left: true}],
  rows: () => chart.sets.flatMap(set => set.points.map(p => [set.name, short(p.x), short(p.y), p.hint ?? '']))});

const ganttFigure = (name, heading, meaning, pipelines) => figure({name, heading, meaning,
  specs: pipelines.map(p => gantt(p, Math.max(...pipelines.filter(q => q.unit === p.unit).map(q => q.makespan)))),
  alt: 'What each stage does when: forward, backward, idle', heads: ['', 'stage', {text: 'action', left: true}],
  rows: () => pipelines.flatMap(p => p.stages.flatMap((actions, stage) => actions.map(a => [p.heading, stage, actionOf(p, a)])))});

// The page, again where light becomes dark. `ready` ends when all is drawn.
function show() {
  const data = JSON.parse(document.getElementById('data').textContent), {title, parts} = PAGES[data.kind](data);
  colours = scheme.matches ? DARK : LIGHT;
  for (const name in views) delete views[name];
  drawing.length = 0;
  document.title = 'Trivium: ' + title;
  const missing = typeof vega === 'undefined' ? [element('p', {className: 'reason', textContent: 'Pictures are missing: the program that wrote this page was built without Vega. tools/install-deps pictures installs it; then make, and run the command again.'})] : [];
  document.querySelector('main').replaceChildren(element('h1', {textContent: title}), ...missing, ...parts().flat(Infinity).filter(part => part));
  return Promise.all(drawing);
}
