// trivium budget --out
const CURVES = ['batch stays', 'batch grows'],
  MFU_COLOURS = [['sky', 'blue'], ['orange', 'vermilion']],
  LINE_COLOURS = ['blue', 'green', 'orange', 'purple', 'vermilion'];

PAGES.budget = (d) => {
  const longest = d.curves[0].length >= d.curves[1].length ? d.curves[0] : d.curves[1],
    searched = d.curves.flat().some((line) => line.parts_s);
  const group = (i) => {
    const lines = d.curves.map((curve, k) => ({ ...curve[i], label: CURVES[k] })).filter((line) => line.parts_s);
    return {
      name: `${longest[i].ranks} ranks` +
        lines.map((l, k) => `${k ? ', and' : ':'} batch ${l.global_batch} in ${short(l.step_s)} s`).join(''),
      reason: lines.length ? null : 'nothing fits, or can be',
      bars: lines.map((l) => ({ label: l.label, values: l.parts_s.map((s) => 100 * s / l.step_s) })),
    };
  };
  const mfuSet = (k, key, name, word) => ({
    name,
    colour: MFU_COLOURS[k][word === 'left' ? 1 : 0],
    shape: 'line',
    points: d.curves[k].filter((l) => l.fits)
      .map((l) => ({
        x: l.ranks,
        y: 100 * l[key],
        hint: `${l.ranks} ranks, batch ${l.global_batch}: ${word} ${short(100 * l[key])}%`,
      })),
  });
  const mark = (l, whose, [interval, lost]) => ({
    x: interval,
    y: 100 * lost,
    hint: `${l.ranks} ranks, ${whose}: every ${interval.toFixed(0)} s, goodput ${(100 - 100 * lost).toFixed(2)}%`,
  });
  const lines = d.goodput.map((l, i) => ({
    name: `${l.ranks} ranks`,
    colour: LINE_COLOURS[i],
    shape: 'line',
    points: l.line.map(([x, lost]) => ({ x, y: 100 * lost })),
  }));
  return {
    title: `What ${d.budget.model} takes on ${d.budget.cluster}`,
    parts: () => [
      barFigure(
        'shares',
        'Where a step goes',
        'Of the best layout at each number of ranks. A batch that stays is strong scaling: every rank ' +
          'has less to do. One that grows with ranks is weak scaling. Parts are those of the busiest stage.',
        {
          title: 'Where a step goes, by the number of ranks',
          unit: '% of the step',
          series: partSeries(d.parts),
          groups: searched ? range(longest.length).map(group) : [],
        },
      ),
      plotFigure(
        'mfu',
        'mfu, and what is left of it',
        'Left is what counts in the end: mfu x goodput, divided by how much longer a step is for the ' +
          'slowest machine.',
        {
          title: 'mfu by the number of ranks',
          x: { name: 'ranks', kind: 'doubles' },
          y: { name: '% of the peak', kind: 'linear' },
          sets: [0, 1].flatMap(
            (k) => [
              mfuSet(k, 'mfu', `mfu, ${CURVES[k]}`, 'mfu'),
              mfuSet(k, 'mfu_left', `what is left of it, ${CURVES[k]}`, 'left'),
            ],
          ),
        },
      ),
      plotFigure(
        'goodput',
        'How often to save',
        'Saves stop training, and a failure undoes the steps since the last one: between the two lies ' +
          'the interval that loses least. Young’s and Daly’s formulas find it; they part where a save ' +
          'takes long beside the time between failures. Both axes are logarithmic.',
        {
          title: 'Time lost to failures and saves',
          x: { name: 's of training between saves', kind: 'log' },
          y: { name: '% of the time: 100 - goodput', kind: 'log', cap: 100 },
          sets: [...lines, {
            name: 'Young’s interval',
            colour: 'pale',
            shape: 'rimmed',
            points: d.goodput.map((l) => mark(l, 'Young', l.young)),
          }, {
            name: 'Daly’s',
            colour: 'sky',
            shape: 'dot',
            points: d.goodput.map((l) => mark(l, 'Daly', l.daly)),
          }],
        },
      ),
      heading('lines', 'The lines'),
      table({
        id: 'lines-table',
        heads: ['ranks', 'global batch', 'mfu, %', 'step, s', 'goodput', 'days', 'GPU-hours', {
          text: 'layout',
          left: true,
        }],
        rows: d.budget.lines.map((l) =>
          l.fits
            ? [
              l.ranks,
              l.global_batch,
              (100 * l.mfu).toFixed(1),
              short(l.step_s),
              short(l.goodput),
              short(l.wall_s / 86400),
              short(l.gpu_hours),
              l.layout ?? 'mfu as given',
            ]
            : [l.ranks, l.global_batch, { reason: 'nothing fits, or can be' }]
        ),
      }),
    ],
  };
};

// ---- trivium budget --walls --out ----
const WALLS = [['memory: nothing fits', 'grey'], ['communication: over a third of the step', 'vermilion'], [
  'compute: over 90% of what products reach',
  'green',
], ['efficiency: what takes most is named', 'sky']];

PAGES.walls = (d) => {
  const models = [...new Map(d.walls.map((w) => [w.model, `${w.model}, batch ${w.global_batch}`])).values()],
    sizes = [...new Set(d.walls.map((w) => w.ranks))];
  const rows = d.walls.map((w, i) => [w.model, w.ranks, d.cells[i].first, d.cells[i].second, w.layout]);
  return {
    title: `Which resource ends scaling on ${d.cluster}`,
    parts: () => [
      figure({
        name: 'walls',
        heading: 'The four walls',
        meaning: 'The best layout of each model on each number of ranks, with a batch that stays, and the first ' +
          'of these that it meets. Memory: nothing fits. Communication: exchanges of tp, pp, dp, cp and ep ' +
          'take more than a third of the step. Compute: mfu is more than 90% of what the model’s products ' +
          'reach, so that little but arithmetic is left. Efficiency: none of them, and what takes most ' +
          'time is named. The mfu in a cell is what slow machines and failures leave of it. Pipelines are ' +
          'those of zb-h1.',
        specs: [grid({
          title: 'Which resource ends scaling',
          rows: models,
          columns: sizes.map((n) => `${n} ranks`),
          series: WALLS.map(([name, colour]) => ({ name, colour })),
          cells: d.cells.map((c, i) => ({
            ...c,
            hint: `${d.walls[i].model} on ${d.walls[i].ranks} ranks: ${c.first}, ${c.second}; ${d.walls[i].layout}`,
          })),
        })],
        alt: rows.map((row) => row.slice(0, 4).join(' ')).join('; '),
        heads: ['model', 'ranks', { text: 'wall', left: true }, { text: 'why', left: true }, {
          text: 'layout',
          left: true,
        }],
        rows: () => rows,
      }),
    ],
  };
};
