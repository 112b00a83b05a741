// trivium plan --gpus --out
const PART_COLOURS = ['blue', 'sky', 'orange', 'vermilion', 'pale', 'purple', 'green', 'grey'];
const WHY_SHAPES = ['rimmed', 'ring'],
  WHY_COLOURS = ['sky', 'grey', 'blue', 'orange', 'vermilion', 'purple', 'green'];
const FAR = 3; // times as slow as the fastest: the upper edge of the picture
const partSeries = (names) => names.map((name, i) => ({ name, colour: PART_COLOURS[i] }));

PAGES.plan = (d) => {
  const { search, dots } = d,
    n = search.stat,
    noFit = n.too_large + n.no_fit,
    timed = n.priced - n.no_fit,
    all = [...dots.no_fit, ...dots.fit];
  const set = (name, i) => ({
    name,
    colour: WHY_COLOURS[i],
    shape: WHY_SHAPES[i] ?? 'dot',
    points: all.filter((dot) => dot.why === name)
      .map((dot) => ({
        x: dot.memory_bytes / GIB,
        y: dot.step_s,
        hint: `${dot.layout}: ${short(dot.step_s)} s, ${short(dot.memory_bytes / GIB)} GiB; ${name}`,
      })),
  });
  const sets = dots.whys.map(set), room = d.room_bytes / GIB;
  return {
    title: `${search.model} on ${search.ranks} x ${search.cluster}, global batch ${d.global_batch}`,
    parts: () => [
      paragraph(
        `${n.seen} layouts: ${n.refused} cannot be, ${noFit} do not fit, ${n.bound} are cut by a bound, ` +
          `${timed} timed.`,
        'small',
      ),
      d.fastest ? [] : element('p', {}, element('strong', { textContent: 'Nothing fits.' })),
      d.command ? [paragraph('The first of these, as a command:'), element('pre', { textContent: d.command })] : [],
      search.best.length
        ? [
          heading('layouts', 'What was found'),
          paragraph(d.ties, 'small'),
          table({
            id: 'layouts-table',
            heads: ['tied', 'step, s', 'mfu, %', 'GiB', { text: 'layout', left: true }],
            rows: search.best.map(
              (b) => [
                b.tied ? '=' : '',
                Number(b.step_s.toPrecision(4)),
                (100 * b.mfu).toFixed(1),
                (b.memory_bytes / GIB).toFixed(1),
                b.layout,
              ],
            ),
          }),
        ]
        : [],
      d.fastest
        ? [
          heading('tipping', 'What would win otherwise'),
          paragraph(
            `What the fastest, ${d.fastest}, rests on, and the nearest value at which another layout wins.`,
            'small',
          ),
          table({
            id: 'tipping-table',
            heads: ['assumption', 'now', { text: 'another wins', left: true }, { text: 'which', left: true }],
            rows: d.tipping,
          }),
        ]
        : [],
      plotFigure(
        'memory-time',
        'Memory and time',
        `A dot is a layout that was priced: ${dots.fit.length - dots.refined} of the ${timed} that were timed, ` +
          `${dots.refined} of the list that were refined after the search (block:N, uneven stages), and ` +
          `${dots.no_fit.length} of the ${noFit} that do not fit, evenly over those that no bound had cut and with ` +
          'the time that they would take. Right of the line a rank’s memory is full. A colour says why a layout is ' +
          'not the one to take: the part of its step that differs most from the fastest’s. What is more than ' +
          `${FAR} times as slow as the fastest lies on the upper edge; what a bound has cut is not drawn. Both axes ` +
          'are logarithmic.',
        {
          title: 'Memory and time of the layouts',
          x: { name: 'GiB of the fullest rank', kind: 'log' },
          y: { name: 's of a step', kind: 'log', cap: FAR * d.fastest_step_s },
          sets: [...sets.slice(1), sets[0]],
          wall: { at: room, name: `${room.toFixed(1)} GiB: what a rank has` },
        },
      ),
      barFigure(
        'phases',
        'Where a step goes',
        'The layouts that were found, the first at the top; of tied ones the one that needs least memory ' +
          'comes first. Parts are those of the busiest stage, and add up to the step.',
        {
          title: 'Where a step goes',
          unit: 's of a step',
          series: partSeries(d.parts),
          groups: search.best.map((b, i) => ({
            name: `${b.layout}: mfu ${(100 * b.mfu).toFixed(1)}%, ${(b.memory_bytes / GIB).toFixed(1)} GiB${
              b.tied ? '; tied' : ''
            }`,
            bars: [{ values: d.parts_s[i] }],
          })),
        },
      ),
      d.pipeline
        ? ganttFigure(
          'pipeline',
          'The pipeline of the first',
          'Each stage with its own times; the last one has the head, so stages are not alike. What follows ' +
            'the last backward is not drawn: sums over replicas, and the update.',
          [d.pipeline],
        )
        : [],
      heading('families', 'Why others lose'),
      paragraph(
        'The best layout of each choice, beside the fastest of all: how much longer its step is, and the ' +
          'phases that differ most.',
        'small',
      ),
      table({
        id: 'families-table',
        heads: ['decision', { text: 'choice', left: true }, 'step, s', 'longer by', {
          text: 'where it goes',
          left: true,
        }, { text: 'layout', left: true }],
        rows: d.families,
      }),
    ],
  };
};
