// The body of a function that check.py runs in a page: it draws made-up numbers (axes, hostile names, zeros, NaN) and
// returns what stands in the pictures.
const at = async (made) => {
  const box = element('div', {});
  document.body.append(box);
  await draw(box, 'test', made);
  return box;
};
const texts = (box, name) => [...box.querySelectorAll('.' + name + ' text')].map((t) => t.textContent);
const centre = (path) => {
  const r = path.getBoundingClientRect();
  return [(r.left + r.right) / 2, (r.top + r.bottom) / 2];
};
const series = [{ name: 'first <1>', colour: 'blue' }, { name: 'second', colour: 'orange' }],
  axis = (kind) => ({ name: kind, kind });
const dot = (name, points) => ({ name, colour: 'green', shape: 'dot', points });
const b = await at(
  bars({
    title: 'bars "here"',
    unit: 'MiB',
    series,
    groups: [
      {
        name: 'a & b',
        bars: [{ label: 'predicted', values: [1e6, 2e6] }, { label: 'measured', values: [1e6, 0] }],
      },
      { name: 'tiny', bars: [{ values: [1e-3, 0] }] },
      { name: 'zero', bars: [{ values: [0, 0] }] },
      { name: 'unknown', bars: [{ values: [NaN, 1] }] },
      { name: 'no', reason: 'refused: <E_CONFIG>', bars: [{ values: [77, 0] }] },
    ],
  }),
);
const wide = [...b.querySelectorAll('.box path')].map((p) => p.getBoundingClientRect().width);
const p = await at(
  plot({
    title: 'plot',
    x: axis('log'),
    y: axis('linear'),
    wall: { at: 10, name: '74 GiB' },
    sets: [
      { name: 'line', colour: 'blue', shape: 'line', points: [{ x: 1, y: 1 }, { x: 100, y: 10 }] },
      dot('dots', [
        { x: 1, y: 2, hint: 'one <&>' },
        { x: 10, y: 4, hint: 'two' },
        { x: 100, y: 8, hint: 'x' },
        { x: NaN, y: 1 },
        { x: 0, y: 1 },
        { x: Infinity, y: 1 },
      ]),
      dot('none', []),
    ],
  }),
);
const [left, middle, right] = [...p.querySelectorAll('.dot path')].map(centre),
  wall = p.querySelector('.wall path').getBoundingClientRect().left;
const d = await at(
  plot({
    title: 'sizes',
    x: axis('doubles'),
    y: axis('linear'),
    sets: [dot('', [{ x: 64, y: 1 }, { x: 256, y: 1 }])],
  }),
);
const c = await at(
  plot({
    title: 'capped',
    x: axis('linear'),
    y: { ...axis('linear'), cap: 40 },
    sets: [dot('', [{ x: 1, y: 5 }, { x: 1, y: 40 }, { x: 1, y: 4000 }])],
  }),
);
const high = [...c.querySelectorAll('.dot path')].map((path) => Math.round(centre(path)[1]));
const e = await Promise.all(
  ['linear', 'log', 'doubles'].map((kind) =>
    at(plot({ title: 'nothing', x: axis(kind), y: axis(kind), sets: [dot('none', [])] }))
  ),
);
const g = await at(
  grid({
    title: 'grid',
    rows: ['a & b', 'c'],
    columns: ['a & b', 'c'],
    series,
    cells: [{ row: 0, column: 0, series: 0, first: 'memory', second: '2 > 1', hint: 'why' }, {
      row: 0,
      column: 1,
      series: 1,
      first: 'compute',
      second: '',
      hint: 'x',
    }, { row: 1, column: 1, series: 1, first: 'compute', second: '57%', hint: 'y' }],
  }),
);
const s = await at(
  areas({
    title: 'areas',
    xName: 'rows',
    unit: 'MiB',
    series,
    x: [0, 1, 3],
    values: [[1, 2, 3], [1, 0, 1]],
    end: 4,
    marks: [[0, 'F0'], [3, 'B0']],
    level: { at: 4.5, name: 'planned' },
    highest: 0,
  }),
);
const many = await at(
  areas({
    title: 'areas',
    xName: 'rows',
    unit: 'MiB',
    series,
    x: [0],
    values: [[1], [1]],
    end: 1e5,
    marks: range(1e5).map((i) => [i, 'F']),
    level: { at: 1, name: '' },
    highest: 0,
  }),
);
const tops = [...s.querySelectorAll('.pile path')].map((path) => path.getBoundingClientRect()),
  plan = s.querySelector('.plan line').getBoundingClientRect().top;
return {
  names: texts(b, 'words-text'),
  totals: texts(b, 'totals-text'),
  boxes: wide.length,
  twice: Math.round(100 * wide[1] / wide[0]) / 100,
  broken: [b, p, d, c, ...e, g, s].some((box) => box.innerHTML.includes('NaN')),
  dots: p.querySelectorAll('.dot path').length,
  lines: p.querySelectorAll('.curve path').length,
  half: Math.abs(left[0] + right[0] - 2 * middle[0]) < 1,
  wall: Math.abs(wall - middle[0]) < 1,
  wallName: texts(p, 'walls-text'),
  legend: texts(p, 'role-legend-label'),
  doubles: [64, 128, 256].every((n) => texts(d, 'role-axis-label').includes(String(n))),
  capped: high.length === 3 && high[1] === high[2] && high[0] > high[1],
  empty: e.map((x) => [x.querySelectorAll('svg').length, x.querySelectorAll('.dot path').length].join()),
  cells: g.querySelectorAll('.box path').length,
  words: texts(g, 'words-text'),
  sides: texts(g, 'names-text'),
  piles: tops.length,
  marks: texts(s, 'words-text'),
  under: tops.every((t) => t.top > plan),
  many: many.querySelectorAll('.mark line').length,
  short: [0, 1234.4, 99.96, 12.34, 0.00123, 123456, NaN, Infinity].map(short),
  colours: new Set(Object.values(LIGHT).slice(0, 8)).size + new Set(Object.values(DARK).slice(0, 8)).size,
};
