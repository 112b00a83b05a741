// trivium oracle check --out
const HEATS = [['right: 0 or less', 'green'], ['to 1', 'pale'], ['to 3', 'orange'], ['further', 'vermilion'], [
  'ranks differ, or have not all of it',
  'purple',
]];
const PHASES = ['forward', 'backward', 'norm', 'update'], MOST_STEPS = 5, MOST_ROWS = 20;

// A cell shows its worst tensor: its error in powers of ten of what rounding explains, and its name. The cell with the
// finding shows the tensor that was found.
function heatMap(d, times) {
  const cells = new Map(),
    steps = Math.min(MOST_STEPS, d.rows.at(-1)?.step ?? 0),
    layers = 1 + Math.max(-1, ...d.rows.map((r) => r.layer));
  d.rows.forEach((r, i) => {
    const row = r.layer + 1,
      column = (r.step - 1) * PHASES.length + Math.max(0, PHASES.indexOf(r.phase)),
      key = row + ' ' + column,
      now = cells.get(key),
      first = i === d.first;
    if (r.verdict === 'not recorded' || r.step > steps || now?.second) return;
    const power = Math.log10(times(r)),
      series = r.verdict === 'right' ? 0 : r.verdict !== 'wrong' ? 4 : times(r) <= 10 ? 1 : times(r) <= 1000 ? 2 : 3;
    if (now && !first && series <= now.series && !(series === now.series && power > now.power)) return;
    cells.set(key, {
      row,
      column,
      series,
      power,
      first: Number.isFinite(power) ? power.toFixed(1) : '',
      second: first ? 'first' : '',
      hint: r.name,
    });
  });
  return {
    title: 'Digits lost: log10 of (error / what rounding explains)',
    rows: range(layers + 1).map((i) => i ? `layer ${i - 1}` : 'ends, numbers'),
    columns: range(steps * PHASES.length).map((i) =>
      `${Math.floor(i / PHASES.length) + 1} ${'FBNU'[i % PHASES.length]}`
    ),
    series: HEATS.map(([name, colour]) => ({ name, colour })),
    cells: [...cells.values()],
  };
}

PAGES.check = (d) => {
  const allowed = (r) => d.factor * r.scale,
    times = (r) => r.error === null ? NaN : r.error / allowed(r),
    first = d.rows[d.first],
    map = heatMap(d, times),
    c = d.calls;
  const wrong = d.rows.filter((r) => r.verdict !== 'right' && r.verdict !== 'not recorded'),
    two = (x) => Number((x ?? NaN).toPrecision(2));
  return {
    title: 'A run against its reference',
    parts: () => [
      d.first < 0 ? paragraph(`All right: ${d.compared} tensors, each within what rounding explains.`) : [
        element(
          'p',
          { id: 'first' },
          `First wrong: step ${first.step}, ${first.phase}: `,
          element('code', { textContent: first.name }),
          `, ${short(times(first))} times what rounding explains; ${d.wrong} of ${d.compared} tensors are wrong.`,
        ),
        element(
          'ul',
          {},
          ...d.suspects.map((s) =>
            element(
              'li',
              {},
              element('b', { textContent: s.id }),
              `: ${s.what} (${s.detail}). To confirm: ${s.confirm}`,
            )
          ),
        ),
      ],
      figure({
        name: 'map',
        heading: 'Where it begins, and how it spreads',
        meaning: 'Rows are layers; columns are steps and their phases: F forward, B backward, N norm and ' +
          'clipping, U update. A cell shows its worst tensor (under the pointer: its name); the finding is ' +
          'marked. What comes after the first wrong one may be wrong because of it.',
        specs: map.cells.length ? [grid(map)] : [],
        alt: `${
          map.cells.filter((x) => x.series).length
        } of ${map.cells.length} cells have a tensor that is not right`,
        heads: ['layer', 'step and phase', 'digits', { text: 'tensor', left: true }],
        rows: () =>
          map.cells.map(
            (x) => [map.rows[x.row], map.columns[x.column], x.first, x.hint + (x.second ? ': the first' : '')],
          ),
      }),
      wrong.length
        ? [
          heading('wrong', 'What is wrong, in order'),
          table({
            id: 'wrong-table',
            heads: [
              'step',
              { text: 'phase', left: true },
              { text: 'tensor', left: true },
              'off by',
              'rounding explains',
              'times too far',
            ],
            rows: wrong.slice(0, MOST_ROWS).map(
              (r) => [r.step, r.phase, r.name, two(r.apart ?? r.error), two(allowed(r)), short(times(r))],
            ),
          }),
          wrong.length > MOST_ROWS ? paragraph(`${wrong.length - MOST_ROWS} more: check.json.`) : [],
        ]
        : [],
      c.ranks
        ? [
          heading('calls', 'What ranks called of each other'),
          paragraph(
            c.findings.length
              ? 'Members of a group did not make the same calls:'
              : 'Members of each group made the same calls.',
          ),
          ...c.findings.slice(0, MOST_ROWS).map((text) => paragraph(text)),
          table({
            id: 'calls-table',
            heads: ['group', 'calls', 'bytes sent'],
            rows: c.groups.map((g) => [g.group, g.calls, g.bytes]),
          }),
        ]
        : [],
    ],
  };
};
