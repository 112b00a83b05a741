// Pictures of a step, and a grid, as specifications of Vega.
// Stacked areas as staircases: a value holds until the next point.
// values: [series][point]; marks: [[x, word]]; level: {at, name}
function areas({ title, xName, unit, series, x, values, end, marks, level, highest }) {
  const rows = [], x0 = (at) => WIDTH * at / end;
  series.forEach((s, i) => {
    let before;
    x.forEach((at, k) => {
      const low = sum(values.slice(0, i).map((v) => v[k])), high = low + values[i][k];
      if (before && before.low === low && before.high === high) return;
      before = { series: s.name, x: at, low, high };
      rows.push(before);
    });
    rows.push({ ...before, x: end });
  });
  let free = 0, from = 0;
  const lines = [], words = [];
  marks.forEach(([at, text], i) => {
    const px = x0(at), next = i + 1 < marks.length ? x0(marks[i + 1][0]) : WIDTH, wide = 6.4 * text.length;
    if (px < from) return;
    lines.push({ x: at }), from = px + 3;
    if (px + 2 >= free && px + 2 + wide <= next + 6.4) words.push({ x: at, text }), free = px + 2 + wide;
  });
  const used = series.map((s, i) => ({ name: s.name, colour: colours[s.colour], used: values[i].some((v) => v > 0) }))
    .filter((s) => s.used);
  return spec(title, 250, {
    rows: rows.filter((r) => used.some((s) => s.name === r.series)),
    lines,
    words,
    level: [level],
  }, [{ name: 'x', domain: [0, end], range: [0, WIDTH] }, {
    name: 'y',
    domain: [0, 1.08 * Math.max(highest, level.at)],
    nice: true,
    range: [250, 0],
  }], [{ orient: 'bottom', scale: 'x', title: xName, format: '.7~r', grid: false }, {
    orient: 'left',
    scale: 'y',
    title: unit,
    format: '.7~r',
    tickCount: 8,
  }], [
    {
      type: 'group',
      from: { facet: { name: 'area', data: 'rows', groupby: 'series' } },
      marks: [{
        type: 'area',
        name: 'pile',
        from: { data: 'area' },
        encode: {
          enter: {
            interpolate: { value: 'step-after' },
            x: field('x', 'x'),
            y: field('high', 'y'),
            y2: field('low', 'y'),
            fill: field('series', 'colour'),
            tooltip: field('series'),
          },
        },
      }],
    },
    {
      type: 'rule',
      name: 'mark',
      from: { data: 'lines' },
      encode: {
        enter: {
          x: field('x', 'x'),
          y: { value: -4 },
          y2: { value: 250 },
          stroke: { value: colours.ink },
          strokeOpacity: { value: 0.25 },
        },
      },
    },
    said('words', { scale: 'x', field: 'x', offset: 2 }, { value: -6 }, 'text'),
    {
      type: 'rule',
      name: 'plan',
      from: { data: 'level' },
      encode: {
        enter: {
          x: { value: 0 },
          x2: { value: WIDTH },
          y: field('at', 'y'),
          stroke: { value: colours.ink },
          strokeDash: { value: [5, 4] },
        },
      },
    },
    said('level', { value: WIDTH - 4 }, { scale: 'y', field: 'at', offset: -5 }, 'name', {
      align: { value: 'right' },
    }),
  ], used);
}

// ---- pipelines: a row a stage, time to the right ----
const KINDS = {
  F: ['forward', [200, 222, 243], [24, 92, 164]],
  B: ['backward', [253, 214, 170], [198, 84, 8]],
  W: ['weight gradients', [205, 233, 205], [34, 120, 60]],
};
const shade = (chunks, chunk) => chunks === 1 ? 0.4 : chunk / (chunks - 1);
const shadeOf = (kind, chunks, chunk) =>
  `rgb(${KINDS[kind][1].map((light, i) => Math.round(light + shade(chunks, chunk) * (KINDS[kind][2][i] - light)))})`;
const actionOf = (p, [kind, microbatch, chunk, start, end]) =>
  `${KINDS[kind][0]} of microbatch ${microbatch}, chunk ${chunk}: ${short(start)} to ${short(end)} ${p.unit}`;

// As schedule_chart_json writes it. longest: what is as wide as the picture, so that pictures have one scale.
function gantt(p, longest) {
  const row = Math.max(5, Math.min(26, 900 / p.stages.length)),
    wide = WIDTH * p.makespan / longest,
    px = wide / p.makespan;
  const boxes = p.stages.flatMap((actions, stage) =>
    actions.map((a) => ({
      y: stage * row + 1,
      from: a[3],
      to: a[4],
      height: row - 2,
      fill: shadeOf(a[0], p.chunks, a[2]),
      hint: actionOf(p, a),
    }))
  );
  const numbers = p.stages.flatMap((actions, stage) =>
    actions.filter((a) => px * (a[4] - a[3]) >= 4 + 6.2 * String(a[1]).length && row >= 12)
      .map((a) => ({
        x: (a[3] + a[4]) / 2,
        y: stage * row + row / 2 + 4,
        text: a[1],
        ink: shade(p.chunks, a[2]) > 0.55 ? '#ffffff' : '#1a1a1a',
      }))
  );
  const idle = p.stages.map((_, stage) => ({ y: stage * row + 1, height: row - 2 })),
    names = p.stages.map((_, stage) => ({
      y: stage * row + row / 2 + 4,
      text: row >= 12 || stage % 10 === 0 ? `stage ${stage}` : '',
    }));
  const kinds = Object.keys(KINDS).filter((kind) => p.stages.some((actions) => actions.some((a) => a[0] === kind)));
  const series = kinds.flatMap((kind) =>
    range(p.chunks).map((k) => ({
      name: KINDS[kind][0] + (p.chunks > 1 ? (p.pipes > 1 ? ', way ' : ', chunk ') + k : ''),
      colour: shadeOf(kind, p.chunks, k),
    }))
  );
  const made = spec(
    p.heading || p.title,
    row * p.stages.length,
    { idle, boxes, numbers, names },
    [{ name: 'x', domain: [0, p.makespan], range: [0, wide] }],
    [{ orient: 'bottom', scale: 'x', title: p.unit, format: '.7~r', grid: false }],
    [
      {
        type: 'rect',
        name: 'wait',
        from: { data: 'idle' },
        encode: {
          enter: {
            x: { value: 0 },
            width: { value: wide },
            y: field('y'),
            height: field('height'),
            fill: { value: colours.idle },
          },
        },
      },
      boxesOf(field('height'), field('fill'), { stroke: { value: colours.paper }, strokeWidth: { value: 0.7 } }),
      said('numbers', field('x', 'x'), field('y'), 'text', {
        align: { value: 'center' },
        fill: field('ink'),
        fontSize: { value: 11 },
      }),
      said('names', { value: -8 }, field('y'), 'text', { align: { value: 'right' } }),
    ],
    [...series, { name: 'idle', colour: colours.idle }],
  );
  made.title.subtitle = `${p.heading ? p.title + '; ' : ''}a step takes ${short(p.makespan)} ${p.unit}: ${
    short(p.work)
  } of work, ${short(p.idle)} idle (${(100 * p.idle / p.makespan).toFixed(1)}% of the step)`;
  return made;
}

// A grid of coloured cells with two lines of words. cells: [{row, column, series, first, second, hint}]
function grid({ title, rows, columns, series, cells }) {
  const left = 130,
    wide = (WIDTH - left) / columns.length,
    most = Math.floor(wide / 6.4),
    cut = (text) => text.length > most ? text.slice(0, most - 1) + '…' : text;
  const boxes = cells.map((c) => ({
    ...c,
    x: left + c.column * wide + 1,
    y: c.row * 46 + 1,
    fill: colours[series[c.series].colour],
    ink: series[c.series].colour === 'blue' ? '#ffffff' : '#1a1a1a',
  }));
  const words = boxes.flatMap(
    (b) => [{ x: b.x + wide / 2, y: b.y + 18, text: cut(b.first), ink: b.ink, weight: 'bold' }, {
      x: b.x + wide / 2,
      y: b.y + 35,
      text: cut(b.second),
      ink: b.ink,
      weight: 'normal',
    }],
  );
  const names = [
    ...rows.map((text, i) => ({ x: left - 8, y: i * 46 + 27, text, align: 'right' })),
    ...columns.map((text, i) => ({ x: left + (i + 0.5) * wide, y: -8, text, align: 'center' })),
  ];
  return spec(
    title,
    46 * rows.length,
    { boxes, words, names },
    [],
    [],
    [
      {
        type: 'rect',
        name: 'box',
        from: { data: 'boxes' },
        encode: {
          enter: {
            x: field('x'),
            y: field('y'),
            width: { value: wide - 2 },
            height: { value: 44 },
            fill: field('fill'),
            tooltip: field('hint'),
          },
        },
      },
      said('words', field('x'), field('y'), 'text', {
        align: { value: 'center' },
        fill: field('ink'),
        fontWeight: field('weight'),
      }),
      said('names', field('x'), field('y'), 'text', { align: field('align') }),
    ],
    series.filter((s, i) => cells.some((c) => c.series === i)).map((s) => ({
      name: s.name,
      colour: colours[s.colour],
    })),
  );
}
