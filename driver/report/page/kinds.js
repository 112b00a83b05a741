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

// ---- trivium budget --out ----
const CURVES = ['batch stays', 'batch grows'], MFU_COLOURS = [['sky', 'blue'], ['orange', 'vermilion']], LINE_COLOURS = ['blue', 'green', 'orange', 'purple', 'vermilion'];

PAGES.budget = d => {
  const longest = d.curves[0].length >= d.curves[1].length ? d.curves[0] : d.curves[1], searched = d.curves.flat().some(line => line.parts_s);
  const group = i => {
    const lines = d.curves.map((curve, k) => ({...curve[i], label: CURVES[k]})).filter(line => line.parts_s);
    return {name: `${longest[i].ranks} ranks` + lines.map((l, k) => `${k ? ', and' : ':'} batch ${l.global_batch} in ${short(l.step_s)} s`).join(''), reason: lines.length ? null : 'nothing fits, or can be',
      bars: lines.map(l => ({label: l.label, values: l.parts_s.map(s => 100 * s / l.step_s)}))};
  };
  const mfuSet = (k, key, name, word) => ({name, colour: MFU_COLOURS[k][word === 'left' ? 1 : 0], shape: 'line', points: d.curves[k].filter(l => l.fits)
    .map(l => ({x: l.ranks, y: 100 * l[key], hint: `${l.ranks} ranks, batch ${l.global_batch}: ${word} ${short(100 * l[key])}%`}))});
  const mark = (l, whose, [interval, lost]) => ({x: interval, y: 100 * lost, hint: `${l.ranks} ranks, ${whose}: every ${interval.toFixed(0)} s, goodput ${(100 - 100 * lost).toFixed(2)}%`});
  const lines = d.goodput.map((l, i) => ({name: `${l.ranks} ranks`, colour: LINE_COLOURS[i], shape: 'line', points: l.line.map(([x, lost]) => ({x, y: 100 * lost}))}));
  return {title: `What ${d.budget.model} takes on ${d.budget.cluster}`, parts: () => [
    barFigure('shares', 'Where a step goes', 'Of the best layout at each number of ranks. A batch that stays is strong scaling: every rank has less to do. One that grows with ranks is weak scaling. Parts are those of the busiest stage.',
      {title: 'Where a step goes, by the number of ranks', unit: '% of the step', series: partSeries(d.parts), groups: searched ? range(longest.length).map(group) : []}),
    plotFigure('mfu', 'mfu, and what is left of it', 'Left is what counts in the end: mfu x goodput, divided by how much longer a step is for the slowest machine.',
      {title: 'mfu by the number of ranks', x: {name: 'ranks', kind: 'doubles'}, y: {name: '% of the peak', kind: 'linear'},
        sets: [0, 1].flatMap(k => [mfuSet(k, 'mfu', `mfu, ${CURVES[k]}`, 'mfu'), mfuSet(k, 'mfu_left', `what is left of it, ${CURVES[k]}`, 'left')])}),
    plotFigure('goodput', 'How often to save', 'Saves stop training, and a failure undoes the steps since the last one: between the two lies the interval that loses least. Young’s and Daly’s formulas find it; they part where a save takes long beside the time between failures. Both axes are logarithmic.',
      {title: 'Time lost to failures and saves', x: {name: 's of training between saves', kind: 'log'}, y: {name: '% of the time: 100 - goodput', kind: 'log', cap: 100},
        sets: [...lines, {name: 'Young’s interval', colour: 'pale', shape: 'rimmed', points: d.goodput.map(l => mark(l, 'Young', l.young))}, {name: 'Daly’s', colour: 'sky', shape: 'dot', points: d.goodput.map(l => mark(l, 'Daly', l.daly))}]}),
    heading('lines', 'The lines'), table({id: 'lines-table', heads: ['ranks', 'global batch', 'mfu, %', 'step, s', 'goodput', 'days', 'GPU-hours', {text: 'layout', left: true}],
      rows: d.budget.lines.map(l => l.fits ? [l.ranks, l.global_batch, (100 * l.mfu).toFixed(1), short(l.step_s), short(l.goodput), short(l.wall_s / 86400), short(l.gpu_hours), l.layout ?? 'mfu as given'] : [l.ranks, l.global_batch, {reason: 'nothing fits, or can be'}])})]};
};

// ---- trivium budget --walls --out ----
const WALLS = [['memory: nothing fits', 'grey'], ['communication: over a third of the step', 'vermilion'], ['compute: over 90% of what products reach', 'green'], ['efficiency: what takes most is named', 'sky']];

PAGES.walls = d => {
  const models = [...new Map(d.walls.map(w => [w.model, `${w.model}, batch ${w.global_batch}`])).values()], sizes = [...new Set(d.walls.map(w => w.ranks))];
  const rows = d.walls.map((w, i) => [w.model, w.ranks, d.cells[i].first, d.cells[i].second, w.layout]);
  return {title: `Which resource ends scaling on ${d.cluster}`, parts: () => [
    figure({name: 'walls', heading: 'The four walls', meaning: 'The best layout of each model on each number of ranks, with a batch that stays, and the first of these that it meets. Memory: nothing fits. Communication: exchanges of tp, pp, dp, cp and ep take more than a third of the step. Compute: mfu is more than 90% of what the model’s products reach, so that little but arithmetic is left. Efficiency: none of them, and what takes most time is named. The mfu in a cell is what slow machines and failures leave of it. Pipelines are those of zb-h1.',
      specs: [grid({title: 'Which resource ends scaling', rows: models, columns: sizes.map(n => `${n} ranks`), series: WALLS.map(([name, colour]) => ({name, colour})),
        cells: d.cells.map((c, i) => ({...c, hint: `${d.walls[i].model} on ${d.walls[i].ranks} ranks: ${c.first}, ${c.second}; ${d.walls[i].layout}`}))})],
      alt: rows.map(row => row.slice(0, 4).join(' ')).join('; '), heads: ['model', 'ranks', {text: 'wall', left: true}, {text: 'why', left: true}, {text: 'layout', left: true}], rows: () => rows})]};
};

// ---- trivium oracle check --out ----
const HEATS = [['right: 0 or less', 'green'], ['to 1', 'pale'], ['to 3', 'orange'], ['further', 'vermilion'], ['ranks differ, or have not all of it', 'purple']];
const PHASES = ['forward', 'backward', 'norm', 'update'], MOST_STEPS = 5, MOST_ROWS = 20;

// A cell is its worst tensor: the power of ten of how many times too far, and its name; the one with the finding is that tensor.
function heatMap(d, times) {
  const cells = new Map(), steps = Math.min(MOST_STEPS, d.rows.at(-1)?.step ?? 0), layers = 1 + Math.max(-1, ...d.rows.map(r => r.layer));
  d.rows.forEach((r, i) => {
    const row = r.layer + 1, column = (r.step - 1) * PHASES.length + Math.max(0, PHASES.indexOf(r.phase)), key = row + ' ' + column, now = cells.get(key), first = i === d.first;
    if (r.verdict === 'not recorded' || r.step > steps || now?.second) return;
    const power = Math.log10(times(r)), series = r.verdict === 'right' ? 0 : r.verdict !== 'wrong' ? 4 : times(r) <= 10 ? 1 : times(r) <= 1000 ? 2 : 3;
    if (now && !first && series <= now.series && !(series === now.series && power > now.power)) return;
    cells.set(key, {row, column, series, power, first: Number.isFinite(power) ? power.toFixed(1) : '', second: first ? 'first' : '', hint: r.name});
  });
  return {title: 'Digits lost: log10 of (error / what rounding explains)', rows: range(layers + 1).map(i => i ? `layer ${i - 1}` : 'ends, numbers'),
    columns: range(steps * PHASES.length).map(i => `${Math.floor(i / PHASES.length) + 1} ${'FBNU'[i % PHASES.length]}`), series: HEATS.map(([name, colour]) => ({name, colour})), cells: [...cells.values()]};
}

PAGES.check = d => {
  const allowed = r => d.factor * r.scale, times = r => r.error === null ? NaN : r.error / allowed(r), first = d.rows[d.first], map = heatMap(d, times), c = d.calls;
  const wrong = d.rows.filter(r => r.verdict !== 'right' && r.verdict !== 'not recorded'), two = x => Number((x ?? NaN).toPrecision(2));
  return {title: 'A run against its reference', parts: () => [
    d.first < 0 ? paragraph(`All right: ${d.compared} tensors, each within what rounding explains.`)
      : [element('p', {id: 'first'}, `First wrong: step ${first.step}, ${first.phase}: `, element('code', {textContent: first.name}), `, ${short(times(first))} times what rounding explains; ${d.wrong} of ${d.compared} tensors are wrong.`),
        element('ul', {}, ...d.suspects.map(s => element('li', {}, element('b', {textContent: s.id}), `: ${s.what} (${s.detail}). To confirm: ${s.confirm}`)))],
    figure({name: 'map', heading: 'Where it begins, and how it spreads', meaning: 'Rows are layers; columns are steps and their phases: F forward, B backward, N norm and clipping, U update. A cell shows its worst tensor (under the pointer: its name); the finding is marked. What comes after the first wrong one may be wrong because of it.',
      specs: map.cells.length ? [grid(map)] : [], alt: `${map.cells.filter(x => x.series).length} of ${map.cells.length} cells have a tensor that is not right`, heads: ['layer', 'step and phase', 'digits', {text: 'tensor', left: true}],
      rows: () => map.cells.map(x => [map.rows[x.row], map.columns[x.column], x.first, x.hint + (x.second ? ': the first' : '')])}),
    wrong.length ? [heading('wrong', 'What is wrong, in order'), table({id: 'wrong-table', heads: ['step', {text: 'phase', left: true}, {text: 'tensor', left: true}, 'off by', 'rounding explains', 'times too far'],
      rows: wrong.slice(0, MOST_ROWS).map(r => [r.step, r.phase, r.name, two(r.apart ?? r.error), two(allowed(r)), short(times(r))])}), wrong.length > MOST_ROWS ? paragraph(`${wrong.length - MOST_ROWS} more: check.json.`) : []] : [],
    c.ranks ? [heading('calls', 'What ranks called of each other'), paragraph(c.findings.length ? 'Members of a group did not make the same calls:' : 'Members of each group made the same calls.'),
      ...c.findings.slice(0, MOST_ROWS).map(text => paragraph(text)), table({id: 'calls-table', heads: ['group', 'calls', 'bytes sent'], rows: c.groups.map(g => [g.group, g.calls, g.bytes])})] : []]};
};

scheme.addEventListener('change', () => { ready = show(); });
let ready = show();
