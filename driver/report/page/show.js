// trivium show memory --out, show comm --out
function timelineFigure(timelines, meaning) {
  const highest = Math.max(...timelines.map((t) => t.planned_bytes)) / MIB;
  return figure({
    name: 'timeline',
    heading: 'Memory over a step',
    meaning: `Bytes alive in each row of a step, ${meaning}; from the plan alone. What is allocated is the dashed ` +
      'line: the peaks of the roles, which need not come at one time, and what packing wastes.',
    specs: timelines.map((t) =>
      areas({
        title: `${t.strategy}: rank ${t.rank} of ${t.ranks}`,
        xName: 'rows of a step, in their order: F forward, B backward of a microbatch',
        unit: 'MiB',
        series: ROLES_PILED.map(role),
        x: t.row,
        values: ROLES_PILED.map((r) => t.alive_bytes[r].map((b) => b / MIB)),
        end: t.rows,
        marks: t.marks,
        level: {
          at: t.planned_bytes / MIB,
          name: `planned peaks of all roles together: ${short(t.planned_bytes / MIB)} MiB`,
        },
        highest,
      })
    ),
    alt: 'Bytes alive by role, piled up, from the first row of a step to the last',
    heads: ['', 'row', ...ROLES_PILED],
    rows: () =>
      timelines.flatMap((t) => t.row.map((at, k) => [t.strategy, at, ...ROLES_PILED.map((r) => t.alive_bytes[r][k])])),
  });
}

PAGES.memory = (d) => ({
  title: `Memory over a step, rank ${d.timeline.rank} of ${d.timeline.ranks}`,
  parts: () => [timelineFigure([d.timeline], 'on one rank')],
});

const STATES = ['param', 'grad', 'optim'];
PAGES.states = (d) => ({
  title: d.title,
  parts: () => [
    barFigure('states', 'The four stages of ZeRO', 'By formula, without a model: no activations and no padding.', {
      title: d.title,
      unit: 'GB (1e9 bytes)',
      series: STATES.map(role),
      groups: [
        'zero=0: every rank has all of it',
        'zero=1: optimizer states sharded',
        'zero=2: and gradients',
        'zero=3: and weights',
      ].map((name, zero) => ({ name, bars: [{ values: STATES.map((of) => d.stages[zero][of] / 1e9) }] })),
    }),
  ],
});

// ---- a collective over time: each rank has a row of sends above a row of sums, with messages between ranks ----
const EVENTS = [{ name: 'sends within its node', colour: 'blue' }, {
  name: 'sends to another node',
  colour: 'orange',
}, {
  name: 'adds',
  colour: 'green',
}];
const eventOf = ([kind, rank, peer, from, to]) =>
  `rank ${rank} ${{ send: 'sends to', add: 'adds from', receive: 'has from' }[kind]} rank ${peer}: ` +
  `${short(from)} to ${short(to)} ms`;

function hops({ nodes, events, ms, title }) {
  const sent = {}, boxes = [], messages = [], top = (rank) => 44 * rank;
  for (const e of events) {
    const [kind, rank, peer, from, to] = e;
    if (kind === 'send') (sent[`${rank} ${peer}`] ??= []).push(to);
    if (kind !== 'receive' && to > from) {
      const series = EVENTS[kind === 'add' ? 2 : nodes[rank] === nodes[peer] ? 0 : 1].name;
      boxes.push({ from, to, y: top(rank) + (kind === 'add' ? 14 : 0), series, hint: eventOf(e) });
    }
  }
  // the k-th message that a rank takes from another is the k-th that this one sends it
  for (const [kind, rank, peer, from] of events) {
    const at = kind === 'send' ? undefined : sent[`${peer} ${rank}`].shift();
    if (at !== undefined) messages.push({ from: at, to: from, y: top(peer) + 12, y2: top(rank) + 12 });
  }
  const names = nodes.map((_, rank) => ({ y: top(rank) + 13, text: `rank ${rank}` }));
  return spec(
    title,
    44 * nodes.length,
    { names, boxes, messages },
    [{ name: 'x', domain: [0, ms || 1], range: [0, WIDTH] }],
    [{ orient: 'bottom', scale: 'x', title: 'ms', format: '.7~r', grid: false }],
    [
      boxesOf({ value: 12 }, field('series', 'colour')),
      {
        type: 'rule',
        name: 'message',
        from: { data: 'messages' },
        encode: {
          enter: {
            x: field('from', 'x'),
            x2: field('to', 'x'),
            y: field('y'),
            y2: field('y2'),
            stroke: { value: colours.grey },
          },
        },
      },
      said('names', { value: -8 }, field('y'), 'text', { align: { value: 'right' } }),
    ],
    EVENTS.filter((s) => boxes.some((b) => b.series === s.name)).map((s) => ({ ...s, colour: colours[s.colour] })),
  );
}

PAGES.comm = (d) => {
  const title = `${d.op} of ${d.nodes.length} ranks by ${d.algorithm}: ${short(d.ms)} ms, simulated`;
  return {
    title,
    parts: () =>
      figure({
        name: 'hops',
        heading: 'Who sends what when',
        meaning: 'A row a rank: above what it sends, below what it adds; a line is a message, from the end of its ' +
          'sending to where it is taken.',
        specs: [hops({ ...d, title })],
        alt: 'What each rank sends and adds when, and the messages between ranks',
        heads: ['rank', { text: 'what', left: true }],
        rows: () => d.events.map((e) => [e[1], eventOf(e)]),
      }),
  };
};
