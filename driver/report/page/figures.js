// The elements of a page: around each picture its heading, its meaning, a description for screen readers, and its
// numbers as a table. PAGES has a function for each kind of JSON, which returns {title, parts}; parts() makes the
// elements of the page, after the colours are chosen.
const PAGES = {}, views = {}, drawing = [];

// heads: words, or {text, title, left}; a row's first cell names it; a cell {reason} is all of its row.
function table({ id, caption, heads, rows }) {
  const told = heads.map((head) => typeof head === 'string' ? { text: head } : head),
    side = (i) => told[i]?.left ? 'text' : '';
  const cell = (value, i, row) =>
    value?.reason
      ? element('td', { className: 'reason', colSpan: 1 + heads.length - row.length, textContent: value.reason })
      : element(i ? 'td' : 'th', { className: side(i), textContent: value ?? '', ...(i ? {} : { scope: 'row' }) });
  return element(
    'div',
    { className: 'wide' },
    element(
      'table',
      { id: id ?? '' },
      ...(caption ? [element('caption', { textContent: caption })] : []),
      element(
        'thead',
        {},
        element(
          'tr',
          {},
          ...told.map((head, i) =>
            element('th', { scope: 'col', className: side(i), title: head.title ?? '', textContent: head.text })
          ),
        ),
      ),
      element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map(cell)))),
    ),
  );
}

async function draw(at, name, made) {
  const view = new vega.View(vega.parse(made, null, { ast: true }), {
    expr: vega.expressionInterpreter,
    renderer: 'svg',
    container: at,
  });
  (views[name] ??= []).push(view);
  await view.runAsync();
}

async function save(view, name) {
  const link = element('a', {
    href: URL.createObjectURL(new Blob([await view.toSVG()], { type: 'image/svg+xml' })),
    download: name + '.svg',
  });
  link.click();
  URL.revokeObjectURL(link.href);
}

// specs: of the pictures, one under another; alt: the same in words; heads, rows(): the same as numbers, made when the
// reader opens them.
function figure({ name, heading, meaning, specs, alt, heads, rows }) {
  const made = element('figure', {}),
    numbers = element(
      'details',
      { open: typeof vega === 'undefined' },
      element('summary', { textContent: 'the same as numbers' }),
    );
  for (const one of typeof vega === 'undefined' ? [] : specs) {
    const at = element('div', {}), button = element('button', { type: 'button', textContent: 'Save as SVG' });
    drawing.push(draw(at, name, one));
    button.addEventListener('click', () => save(views[name][specs.indexOf(one)], name));
    made.append(element('div', { role: 'img', 'aria-label': `${one.description}. ${alt}` }, at), button);
  }
  const fill = () => numbers.querySelector('table') || numbers.append(table({ heads, rows: rows() }));
  numbers.addEventListener('toggle', fill);
  if (numbers.open) fill();
  made.append(numbers);
  return specs.length
    ? [
      element('h2', { id: name, textContent: heading }),
      element('p', { className: 'small', textContent: meaning }),
      made,
    ]
    : [];
}

const barFigure = (name, heading, meaning, chart) =>
  figure({
    name,
    heading,
    meaning,
    specs: chart.groups.length ? [bars(chart)] : [],
    alt: `Bars in ${chart.unit}: ` + chart.series.map((s) => s.name).join(', '),
    heads: ['', '', ...chart.series.map((s) => s.name), `total, ${chart.unit}`],
    rows: () =>
      chart.groups.flatMap((g) =>
        g.reason
          ? [[g.name, { reason: g.reason }]]
          : g.bars.map((bar) => [g.name, bar.label ?? '', ...bar.values.map(short), short(sum(bar.values))])
      ),
  });

const plotFigure = (name, heading, meaning, chart) =>
  figure({
    name,
    heading,
    meaning,
    specs: chart.sets.some((set) => set.points.length) ? [plot(chart)] : [],
    alt: chart.sets.filter((set) => set.points.length).map((set) => `${set.points.length} points: ${set.name}`).join(
      '; ',
    ),
    heads: ['', chart.x.name, chart.y.name, { text: '', left: true }],
    rows: () => chart.sets.flatMap((set) => set.points.map((p) => [set.name, short(p.x), short(p.y), p.hint ?? ''])),
  });

const ganttFigure = (name, heading, meaning, pipelines) =>
  figure({
    name,
    heading,
    meaning,
    specs: pipelines.map((p) =>
      gantt(p, Math.max(...pipelines.filter((q) => q.unit === p.unit).map((q) => q.makespan)))
    ),
    alt: 'What each stage does when: forward, backward, idle',
    heads: ['', 'stage', { text: 'action', left: true }],
    rows: () =>
      pipelines.flatMap((p) =>
        p.stages.flatMap((actions, stage) => actions.map((a) => [p.heading, stage, actionOf(p, a)]))
      ),
  });

// Draws the whole page.
function show() {
  const data = JSON.parse(document.getElementById('data').textContent), { title, parts } = PAGES[data.kind](data);
  colours = scheme.matches ? DARK : LIGHT;
  for (const name in views) delete views[name];
  drawing.length = 0;
  document.title = 'Trivium: ' + title;
  const missing = typeof vega === 'undefined'
    ? [
      element('p', {
        className: 'reason',
        textContent: 'Pictures are missing: the program that wrote this page was built without Vega. ' +
          'tools/install-deps pictures installs it; then make, and run the command again.',
      }),
    ]
    : [];
  document.querySelector('main').replaceChildren(
    element('h1', { textContent: title }),
    ...missing,
    ...parts().flat(Infinity).filter((part) => part),
  );
  return Promise.all(drawing);
}

// ---- what several kinds share ----
const MIB = 2 ** 20, GIB = 2 ** 30;
const ROLE_COLOURS = {
  param: 'blue',
  grad: 'vermilion',
  optim: 'green',
  act: 'orange',
  comm: 'purple',
  work: 'sky',
  save: 'grey',
};
const ROLES = Object.keys(ROLE_COLOURS), role = (name) => ({ name, colour: ROLE_COLOURS[name] });
// from below: what is always there, then what moves
const ROLES_PILED = ['param', 'grad', 'optim', 'save', 'comm', 'work', 'act'];
const heading = (id, text) => element('h2', { id, textContent: text });
const paragraph = (text, className = '') => element('p', { className, textContent: text });
const most = (list, of) => list.reduce((best, x) => of(x) > of(best) ? x : best, list[0]);
const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;
