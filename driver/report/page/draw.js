// Pictures as specifications of Vega: bars, points and lines. The files of this folder are one script (report.html).
'use strict';

const WIDTH = 828, MOST_LABELS = 11;
// Eight colours that differ also to the colour-blind (Okabe and Ito, "Color universal design", 2008); lighter ones on
// black.
const LIGHT = {
  blue: '#0072b2',
  orange: '#e69f00',
  green: '#009e73',
  vermilion: '#d55e00',
  purple: '#cc79a7',
  sky: '#56b4e9',
  grey: '#8c8c8c',
  pale: '#dcdcd8',
  ink: '#1a1a1a',
  paper: '#fdfdfb',
  line: '#dcdcd8',
  idle: '#eeeeec',
};
const DARK = {
  ...LIGHT,
  blue: '#3b96d2',
  green: '#27b48c',
  vermilion: '#e8772a',
  pale: '#6a6e72',
  ink: '#e8e6e1',
  paper: '#16181b',
  line: '#34383d',
  idle: '#2b2f34',
};
const scheme = matchMedia('(prefers-color-scheme: dark)');
let colours = LIGHT;

// "1234", "12.3", "0.00123": about three digits
function short(x) {
  if (!Number.isFinite(x)) return 'not known';
  return Math.abs(x) >= 99.95 && Math.abs(x) < 1e7 ? x.toFixed(0) : String(Number(x.toPrecision(3)));
}
const sum = (list) => list.reduce((a, b) => a + b, 0);
const range = (n) => [...Array(n).keys()];

// ---- specifications ----
// A rectangle for each row of "boxes", from its field `from` to its field `to` along x.
const boxesOf = (height, fill, more = {}) => ({
  type: 'rect',
  name: 'box',
  from: { data: 'boxes' },
  encode: {
    enter: {
      x: field('from', 'x'),
      x2: field('to', 'x'),
      y: field('y'),
      height,
      fill,
      tooltip: field('hint'),
      ...more,
    },
  },
});
const said = (name, x, y, text, more = {}) => ({
  type: 'text',
  name: name + '-text',
  from: { data: name },
  encode: {
    enter: {
      x,
      y,
      text: { field: text },
      fill: { value: colours.ink },
      fontSize: { value: 12 },
      limit: { value: WIDTH },
      ...more,
    },
  },
});
const field = (name, scale) => scale ? { scale, field: name } : { field: name };

function spec(title, height, data, scales, axes, marks, series, more = {}) {
  const { ink, line, paper } = colours,
    plain = { labelColor: ink, titleColor: ink, titleFontWeight: 'normal', labelFontSize: 12, titleFontSize: 12 };
  return {
    width: WIDTH,
    height,
    padding: 6,
    background: paper,
    autosize: 'pad',
    description: title,
    title: { text: title, color: ink, subtitleColor: ink, anchor: 'start', fontSize: 15, limit: WIDTH },
    data: Object.entries(data).map(([name, values]) => ({ name, values })),
    scales: [...scales, {
      name: 'colour',
      type: 'ordinal',
      domain: series.map((s) => s.name),
      range: series.map((s) => s.colour),
    }],
    axes: axes.map((axis) => ({
      grid: axis.orient === 'left' || axis.orient === 'bottom',
      gridColor: line,
      domainColor: ink,
      tickColor: ink,
      ...plain,
      ...axis,
    })),
    legends: series.length < 2 ? [] : [{
      fill: 'colour',
      orient: 'top',
      direction: 'horizontal',
      columns: 6,
      symbolType: 'square',
      labelLimit: 400,
      offset: 26,
      ...plain,
    }],
    marks,
    ...more,
  };
}

// Stacked bars, lying. groups: [{name, reason, bars: [{label, values}]}]; values of a bar as many as series.
function bars({ title, unit, series, groups }) {
  const words = [], boxes = [], labels = [], totals = [], hex = (s) => ({ name: s.name, colour: colours[s.colour] });
  const left = groups.some((g) => (g.bars ?? []).some((bar) => bar.label)) ? 80 : 0;
  let y = 0;
  for (const group of groups) {
    words.push({ y: y + 14, text: group.name, weight: 'bold', style: 'normal' });
    y += 19;
    if (group.reason) words.push({ y: y + 12, text: group.reason, weight: 'normal', style: 'italic' }), y += 18;
    for (const bar of group.reason ? [] : group.bars) {
      const total = bar.values.every(Number.isFinite) ? sum(bar.values) : NaN;
      bar.values.forEach((value, i) =>
        value > 0 && Number.isFinite(total) &&
        boxes.push({
          y,
          from: sum(bar.values.slice(0, i)),
          to: sum(bar.values.slice(0, i + 1)),
          series: series[i].name,
          hint: `${bar.label ? bar.label + ' ' : ''}${series[i].name}: ${short(value)} ${unit}`,
        })
      );
      labels.push({ y: y + 12, text: bar.label ?? '' });
      totals.push({ y: y + 12, at: Number.isFinite(total) ? total : 0, text: short(total) });
      y += 18;
    }
    y += 9;
  }
  const most = Math.max(...boxes.map((b) => b.to), 0) || 1,
    used = series.filter((s) => boxes.some((b) => b.series === s.name)).map(hex);
  return spec(
    title,
    y,
    { words, boxes, labels, totals },
    [{ name: 'x', domain: [0, most], nice: true, range: [left, WIDTH - 70] }],
    [{ orient: 'bottom', scale: 'x', title: unit, format: '.7~r', tickCount: 8 }],
    [
      boxesOf({ value: 15 }, field('series', 'colour')),
      said('words', { value: 0 }, field('y'), 'text', { fontWeight: field('weight'), fontStyle: field('style') }),
      said('labels', { value: left - 8 }, field('y'), 'text', { align: { value: 'right' } }),
      said('totals', { scale: 'x', field: 'at', offset: 6 }, field('y'), 'text'),
    ],
    used,
  );
}

// ---- points and lines; an axis is linear from 0, log, or doubles ----
const lies = (axis, value) => Number.isFinite(value) && (axis.kind === 'linear' ? value >= 0 : value > 0);

function ticks(kind, low, high) {
  const all = [];
  if (kind === 'doubles') { for (let at = low; at <= high * 1.000001; at *= 2) all.push(at); }
  else {for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
      for (let k = 1; k < 10; k++) {
        if (k * power >= low && k * power <= high && (high < 10 * low || [1, 2, 5].includes(k))) all.push(k * power);
      }
    }}
  const tens = all.filter((at) => Number.isInteger(Math.round(1e9 * Math.log10(at)) / 1e9));
  return kind === 'log' && all.length > MOST_LABELS ? tens : all;
}

function scaleOf(name, axis, values, across) {
  const least = Math.min(...values),
    most = Math.min(Math.max(...values), axis.cap || Infinity),
    low = values.length ? Math.min(least, most) : 1,
    high = values.length ? most : 1;
  const reach = across ? [0, WIDTH] : [360, 0];
  if (axis.kind === 'linear') {
    return [{ name, domain: [0, high || 1], nice: !axis.cap, range: reach }, { tickCount: 8 }];
  }
  const domain = axis.kind === 'log'
    ? [low / 1.15, axis.cap && most >= axis.cap ? axis.cap : high * 1.15]
    : [low, Math.max(high, 2 * low)];
  return [{ name, type: 'log', base: axis.kind === 'log' ? 10 : 2, domain, range: reach }, {
    values: ticks(axis.kind, ...domain),
  }];
}

const SHAPES = { line: [28, 1, 0.7], dot: [50, 0.85, 0.7], ring: [32, 0, 1.2], rimmed: [95, 1, 1.4] };

// sets: [{name, colour, shape, points: [{x, y, hint}]}]; a later one lies over an earlier one. wall: {at, name}
function plot({ title, x, y, sets, wall }) {
  const drawn = sets.map((set) => ({
    ...set,
    colour: colours[set.colour],
    points: set.points.filter((p) => lies(x, p.x) && lies(y, p.y)),
  })).filter((set) => set.points.length);
  const all = drawn.flatMap((set) => set.points), walls = wall && lies(x, wall.at) ? [wall] : [];
  const [xScale, xTicks] = scaleOf('x', x, [...all.map((p) => p.x), ...walls.map((w) => w.at)], true),
    [yScale, yTicks] = scaleOf('y', y, all.map((p) => p.y), false);
  const place = (p) => ({ ...p, y: y.cap ? Math.min(p.y, y.cap) : p.y });
  const dots = drawn.flatMap((set) =>
    set.points.filter((p) => p.hint || set.shape !== 'line').map((p) => {
      const [size, opacity, width] = SHAPES[set.shape];
      return {
        ...place(p),
        size,
        opacity,
        width,
        fill: set.colour,
        edge: set.shape === 'ring' ? set.colour : set.shape === 'rimmed' ? colours.ink : colours.paper,
      };
    })
  );
  const lines = drawn.flatMap((set) =>
    set.shape !== 'line' ? [] : set.points.map((p) => ({ ...place(p), set: set.name, stroke: set.colour }))
  );
  return spec(title, 360, { dots, lines, walls }, [xScale, yScale], [{
    orient: 'bottom',
    scale: 'x',
    title: x.name,
    format: '.7~r',
    ...xTicks,
  }, { orient: 'left', scale: 'y', title: y.name, format: '.7~r', ...yTicks }], [
    {
      type: 'rect',
      name: 'wall',
      from: { data: 'walls' },
      encode: {
        enter: {
          x: field('at', 'x'),
          x2: { value: WIDTH },
          y: { value: 0 },
          y2: { value: 360 },
          fill: { value: colours.vermilion },
          fillOpacity: { value: 0.1 },
        },
      },
    },
    {
      type: 'rule',
      from: { data: 'walls' },
      encode: {
        enter: {
          x: field('at', 'x'),
          y: { value: -9 },
          y2: { value: 360 },
          stroke: { value: colours.ink },
          strokeWidth: { value: 2 },
        },
      },
    },
    said('walls', field('at', 'x'), { value: -13 }, 'name', { align: { value: 'right' } }),
    {
      type: 'group',
      from: { facet: { name: 'line', data: 'lines', groupby: 'set' } },
      marks: [{
        type: 'line',
        name: 'curve',
        from: { data: 'line' },
        encode: {
          enter: { x: field('x', 'x'), y: field('y', 'y'), stroke: field('stroke'), strokeWidth: { value: 2 } },
        },
      }],
    },
    {
      type: 'symbol',
      name: 'dot',
      from: { data: 'dots' },
      encode: {
        enter: {
          x: field('x', 'x'),
          y: field('y', 'y'),
          size: field('size'),
          fill: field('fill'),
          fillOpacity: field('opacity'),
          stroke: field('edge'),
          strokeWidth: field('width'),
          tooltip: field('hint'),
        },
      },
    },
  ], drawn.filter((set, i) => set.name && drawn.findIndex((other) => other.name === set.name) === i));
}
