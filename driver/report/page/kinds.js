// What each kind of JSON becomes: {title, parts}; parts() makes what stands in the page, once its colours are known.
'use strict';

const MIB = 2 ** 20, GIB = 2 ** 30;
const ROLE_COLOURS = {param: 'blue', grad: 'vermilion', optim: 'green', act: 'orange', comm: 'purple', work: 'sky', save: 'grey'};
const ROLES = Object.keys(ROLE_COLOURS), role = name => ({name, colour: ROLE_COLOURS[name]});
const ROLES_PILED = ['param', 'grad', 'optim', 'save', 'comm', 'work', 'act'];       // from below: what is always there, what moves
const heading = (id, text) => element('h2', {id, textContent: text});
const paragraph = (text, className = '') => element('p', {className, textContent: text});
const most = (list, of) => list.reduce((best, x) => of(x) > of(best) ? x : best, list[0]);
const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

// ---- trivium compare ----
const SHOWN = ['tp', 'dp', 'shard', 'replicate', 'pp'], along = (of, axes, unit) => sum(axes.map(axis => of[`comm_${axis}_${unit}`] ?? 0));
const axesOf = of => Object.keys(of).map(key => key.match(/^comm_(\w+)_ms$/)?.[1]).filter(axis => axis && !SHOWN.includes(axis));
const DP = ['dp', 'shard', 'replicate'], byAxis = (of, unit) => [along(of, DP, unit), along(of, ['tp'], unit), along(of, ['pp'], unit), along(of, axesOf(of), unit)];

PAGES.compare = d => {
  const rows = d.compare.strategies, name = row => row.strategy || '(as it is)', fullest = row => most(row.per_rank, r => r.predicted_total_bytes);
  const groups = barsOf => rows.map(row => ({name: name(row), reason: row.status === 'ran' ? null : `${row.status}: ${row.error}`, bars: row.status === 'ran' ? barsOf(row) : []}));
  const memory = row => ['total', 'host', 'disk'].flatMap(tier => {
    const rank = fullest(row), of = which => ROLES.map(r => (tier === 'total' ? rank[`${which}_${r}_bytes`] : rank[`${which}_${tier}_roles`]?.[r] ?? 0) / MIB);
    const label = {total: 'predicted', host: 'on host', disk: 'on disk'}[tier];
    return tier !== 'total' && !rank[`predicted_${tier}_bytes`] ? [] : [{label, values: of('predicted')}, {label: 'measured', values: of('measured')}];
  });
  const time = row => {
    const [dp, tp, pp, rest] = byAxis(row, 'ms'), bubble = Math.min(row.bubble_ms, pp), parts = [dp, tp, pp - bubble, bubble, rest];
    const step = sum(row.per_rank.map(r => r.step_ms)) / row.ranks;
    return [{values: [Math.max(0, step - sum(parts)), ...parts]}];
  };
  const sent = of => byAxis(of, 'bytes');
  const highest = Math.max(...d.timelines.map(t => t.planned_bytes)) / MIB;
  return {title: `A comparison of ${plural(d.about.strategies, 'strategy', 'strategies')}`, parts: () => [
    paragraph(`Begun ${d.about.date}. ${d.about.machine}.`, 'small'),
    rows.length < d.about.strategies && element('p', {}, element('strong', {textContent: 'Not complete:'}), ` ${rows.length} of them are done.`),
    heading('results', 'Results'), paragraph(d.conclusion), ...d.tables.map(table),
    paragraph('Bytes are those of the rank that has most, for each column by itself, so that roles need not sum to the total. A column’s key in compare.json and compare.csv shows while the pointer is over its head; these files have all digits, and every rank.', 'small'),
    barFigure('memory', 'Memory', 'Bytes of the rank whose planned total is largest. Predicted: the static memory plan, made before the first step. Measured: the high-water mark of bytes that were written, in arenas that started full of canaries. The two have to agree to the byte.',
      {title: 'Memory of the fullest rank, by role', unit: 'MiB', series: ROLES.map(role), groups: groups(memory)}),
    barFigure('throughput', 'Throughput', 'Global batch x sequence length / median time of a timed step.',
      {title: 'Throughput', unit: 'tokens/s', series: [{name: 'tokens', colour: 'blue'}], groups: groups(row => [{values: [row.tokens_per_s ?? NaN]}])}),
    barFigure('time', 'Time of a step', 'Mean of the ranks over the timed steps. What a rank does not wait is counted as computing; communication that hides behind computation is not seen.',
      {title: 'Where the time of a step goes', unit: 'ms, mean of the ranks', series: [{name: 'computing', colour: 'blue'}, {name: 'waiting for dp', colour: 'orange'}, {name: 'tp', colour: 'green'},
        {name: 'pp', colour: 'purple'}, {name: 'bubble (pipeline neighbors)', colour: 'pale'}, {name: 'rest', colour: 'vermilion'}], groups: groups(time)}),
    barFigure('wire', 'Bytes on the wire', 'Algorithm bytes, as a ring sends them: all-reduce 2 S (n-1)/n, all-gather and reduce-scatter S (n-1)/n, send S.',
      {title: 'Bytes on the wire in a step, by axis', unit: 'MiB sent by the rank that sends most', series: [{name: 'dp', colour: 'orange'}, {name: 'tp', colour: 'green'}, {name: 'pp', colour: 'purple'},
        {name: 'rest (tied embedding; loss, norm)', colour: 'vermilion'}], groups: groups(row => [{values: sent(most(row.per_rank, r => sum(sent(r)))).map(b => b / MIB)}])}),
    ganttFigure('pipeline', 'Pipelines', 'Predicted: the schedule run against a clock. All stages are alike, a forward or backward (with its replays) is as long as its floating-point operations, mean of the ranks, and messages take no time. Traced: the fastest of up to four timed steps as it was, the first replica’s ranks on one clock; ranks that share a core take turns inside of their boxes. Predicted charts have one scale, and traced ones another.', d.pipelines),
    figure({name: 'timeline', heading: 'Memory over a step', meaning: 'Bytes alive in each row of a step, on the rank whose planned total is largest; from the plan alone. What is allocated is the dashed line: the peaks of the roles, which need not come at one time, and what packing wastes.',
      specs: d.timelines.map(t => areas({title: `${t.strategy}: rank ${t.rank} of ${t.ranks}`, xName: 'rows of a step, in their order: F forward, B backward of a microbatch', unit: 'MiB', series: ROLES_PILED.map(role),
        x: t.row, values: ROLES_PILED.map(r => t.alive_bytes[r].map(b => b / MIB)), end: t.rows, marks: t.marks, level: {at: t.planned_bytes / MIB, name: `planned peaks of all roles together: ${short(t.planned_bytes / MIB)} MiB`}, highest})),
      alt: 'Bytes alive by role, piled up, from the first row of a step to the last', heads: ['', 'row', ...ROLES_PILED], rows: () => d.timelines.flatMap(t => t.row.map((at, k) => [t.strategy, at, ...ROLES_PILED.map(r => t.alive_bytes[r][k])]))}),
    heading('options', 'What was run'), paragraph('Every strategy trained the same steps on the same samples from the same seed, one after the other in one launch. What they have in common, beside the defaults:'),
    table({heads: ['option', {text: 'value', left: true}, {text: 'from', left: true}, {text: 'meaning', left: true}], rows: d.about.options.map(o => [o.name, o.value, o.from, o.meaning])})]};
};

// ---- trivium plan --gpus --out ----
const PART_COLOURS = ['blue', 'sky', 'orange', 'vermilion', 'pale', 'purple', 'green', 'grey'];
const WHY_SHAPES = ['rimmed', 'ring'], WHY_COLOURS = ['sky', 'grey', 'blue', 'orange', 'vermilion', 'purple', 'green'];
const FAR = 3;                                              // times as slow as the fastest: the upper edge of the picture
const partSeries = names => names.map((name, i) => ({name, colour: PART_COLOURS[i]}));

PAGES.plan = d => {
  const {search, dots} = d, n = search.stat, noFit = n.too_large + n.no_fit, timed = n.priced - n.no_fit, all = [...dots.no_fit, ...dots.fit];
  const set = (name, i) => ({name, colour: WHY_COLOURS[i], shape: WHY_SHAPES[i] ?? 'dot', points: all.filter(dot => dot.why === name)
    .map(dot => ({x: dot.memory_bytes / GIB, y: dot.step_s, hint: `${dot.layout}: ${short(dot.step_s)} s, ${short(dot.memory_bytes / GIB)} GiB; ${name}`}))});
  const sets = dots.whys.map(set), room = d.room_bytes / GIB;
  return {title: `${search.model} on ${search.ranks} x ${search.cluster}, global batch ${d.global_batch}`, parts: () => [
    paragraph(`${n.seen} layouts: ${n.refused} cannot be, ${noFit} do not fit, ${n.bound} are cut by a bound, ${timed} timed.`, 'small'),
    d.fastest ? [] : element('p', {}, element('strong', {textContent: 'Nothing fits.'})),
    d.command ? [paragraph('The first of these, as a command:'), element('pre', {textContent: d.command})] : [],
    search.best.length ? [heading('layouts', 'What was found'), paragraph(d.ties, 'small'),
      table({id: 'layouts-table', heads: ['tied', 'step, s', 'mfu, %', 'GiB', {text: 'layout', left: true}],
        rows: search.best.map(b => [b.tied ? '=' : '', Number(b.step_s.toPrecision(4)), (100 * b.mfu).toFixed(1), (b.memory_bytes / GIB).toFixed(1), b.layout])})] : [],
    d.fastest ? [heading('tipping', 'What would win otherwise'), paragraph(`What the fastest, ${d.fastest}, rests on, and the nearest value at which another layout wins.`, 'small'),
      table({id: 'tipping-table', heads: ['assumption', 'now', {text: 'another wins', left: true}, {text: 'which', left: true}], rows: d.tipping})] : [],
    plotFigure('memory-time', 'Memory and time', `A dot is a layout that was priced: ${dots.fit.length - dots.refined} of the ${timed} that were timed, ${dots.refined} of the list that were refined after the search (block:N, uneven stages), and ${dots.no_fit.length} of the ${noFit} that do not fit, evenly over those that no bound had cut and with the time that they would take. Right of the line a rank’s memory is full. A colour says why a layout is not the one to take: the part of its step that differs most from the fastest’s. What is more than ${FAR} times as slow as the fastest lies on the upper edge; what a bound has cut is not drawn. Both axes are logarithmic.`,
      {title: 'Memory and time of the layouts', x: {name: 'GiB of the fullest rank', kind: 'log'}, y: {name: 's of a step', kind: 'log', cap: FAR * d.fastest_step_s}, sets: [...sets.slice(1), sets[0]],
        wall: {at: room, name: `${room.toFixed(1)} GiB: what a rank has`}}),
    barFigure('phases', 'Where a step goes', 'The layouts that were found, the first at the top; of tied ones the one that needs least memory comes first. Parts are those of the busiest stage, and add up to the step.',
      {title: 'Where a step goes', unit: 's of a step', series: partSeries(d.parts), groups: search.best.map((b, i) => ({name: `${b.layout}: mfu ${(100 * b.mfu).toFixed(1)}%, ${(b.memory_bytes / GIB).toFixed(1)} GiB${b.tied ? '; tied' : ''}`, bars: [{values: d.parts_s[i]}]}))}),
    d.pipeline ? ganttFigure('pipeline', 'The pipeline of the first', 'Each stage with its own times; the last one has the head, so stages are not alike. What follows the last backward is not drawn: sums over replicas, and the update.', [d.pipeline]) : [],
    heading('families', 'Why others lose'), paragraph('The best layout of each choice, beside the fastest of all: how much longer its step is, and the phases that differ most.', 'small'),
    table({id: 'families-table', heads: ['decision', {text: 'choice', left: true}, 'step, s', 'longer by', {text: 'where it goes', left: true}, {text: 'layout', left: true}], rows: d.families})]};
};

scheme.addEventListener('change', () => { ready = show(); });
let ready = show();
