// trivium compare
const SHOWN = ['tp', 'dp', 'shard', 'replicate', 'pp'],
  along = (of, axes, unit) => sum(axes.map((axis) => of[`comm_${axis}_${unit}`] ?? 0));
const axesOf = (of) =>
  Object.keys(of).map((key) => key.match(/^comm_(\w+)_ms$/)?.[1]).filter((axis) => axis && !SHOWN.includes(axis));
const DP = ['dp', 'shard', 'replicate'],
  byAxis = (
    of,
    unit,
  ) => [along(of, DP, unit), along(of, ['tp'], unit), along(of, ['pp'], unit), along(of, axesOf(of), unit)];

// ---- a sentence for each row: what its layout saves and costs, against the first that ran ----
const mib = (bytes) => `${short(Math.abs(bytes) / MIB)} MiB`;
const list = (parts) => parts.join(', ').replace(/, ([^,]*)$/, ' and $1');

// "saves 5.6 MiB of optim, adds 3.6 MiB of comm: 2 MiB less in all"; what is below a percent of the whole is not said.
function memoryWords(row, first) {
  const of = (r, role) => r[`predicted_${role}_bytes`], change = of(row, 'total') - of(first, 'total');
  const told = ROLES.map((role) => [role, of(row, role) - of(first, role)])
    .filter(([, bytes]) => Math.abs(bytes) > 0.01 * of(first, 'total'));
  const which = (verb, sign) => {
    const parts = told.filter(([, bytes]) => sign * bytes > 0).map(([role, bytes]) => `${mib(bytes)} of ${role}`);
    return parts.length ? [`${verb} ${list(parts)}`] : [];
  };
  const parts = [...which('saves', -1), ...which('adds', 1)].join(', ');
  return !parts ? 'needs about the same memory' : `${parts}: ${mib(change)} ${change < 0 ? 'less' : 'more'} in all`;
}
function timeWords(row, first) {
  const ratio = row.step_ms / first.step_ms - 1, percent = `${short(Math.abs(100 * ratio))} %`;
  return `A step takes ${percent} ${ratio < 0 ? 'less' : 'more'} time`;
}
function rowSentence(row, first) {
  const sent = (r) => sum(byAxis(r, 'bytes')), change = sent(row) - sent(first), flops = row.extra_flops;
  const alike = Math.abs(change) < 0.01 * Math.max(sent(row), sent(first));
  const traffic = alike ? 'it sends as much' : `it sends ${mib(change)} ${change < 0 ? 'less' : 'more'}`;
  const again = flops > 0.005 ? `, and it computes ${short(100 * flops)} % more` : '';
  return `${memoryWords(row, first)}. ${timeWords(row, first)}; ${traffic}${again}.`;
}
function sentences(rows, name) {
  const [first, ...others] = rows.filter((row) => row.status === 'ran');
  if (!others.length) return null;
  const bold = (row) => element('strong', { textContent: name(row) });
  return element(
    'ul',
    { id: 'sentences' },
    element('li', {}, bold(first), ', the first that ran, is what the others are compared with.'),
    ...others.map((row) => element('li', {}, bold(row), ' ', rowSentence(row, first))),
  );
}
const KEY =
  'Axes: ranks along dp share the batch, along tp each matrix, along pp the layers, along cp each sequence, along ' +
  'ep the experts. Memory: param weights, grad gradients, optim moments and masters, act activations and their ' +
  'gradients, comm buckets, gathered weights and messages, work scratch of kernels, save checkpoints.';

PAGES.compare = (d) => {
  const rows = d.compare.strategies,
    name = (row) => row.strategy || '(as it is)',
    fullest = (row) => most(row.per_rank, (r) => r.predicted_total_bytes);
  const groups = (barsOf) =>
    rows.map((row) => ({
      name: name(row),
      reason: row.status === 'ran' ? null : `${row.status}: ${row.error}`,
      bars: row.status === 'ran' ? barsOf(row) : [],
    }));
  const memory = (row) =>
    ['total', 'host', 'disk'].flatMap((tier) => {
      const rank = fullest(row),
        of = (which) =>
          ROLES.map((r) =>
            (tier === 'total' ? rank[`${which}_${r}_bytes`] : rank[`${which}_${tier}_roles`]?.[r] ?? 0) / MIB
          );
      const label = { total: 'predicted', host: 'on host', disk: 'on disk' }[tier];
      return tier !== 'total' && !rank[`predicted_${tier}_bytes`]
        ? []
        : [{ label, values: of('predicted') }, { label: 'measured', values: of('measured') }];
    });
  const time = (row) => {
    const [dp, tp, pp, rest] = byAxis(row, 'ms'),
      bubble = Math.min(row.bubble_ms, pp),
      parts = [dp, tp, pp - bubble, bubble, rest];
    const step = sum(row.per_rank.map((r) => r.step_ms)) / row.ranks;
    return [{ values: [Math.max(0, step - sum(parts)), ...parts] }];
  };
  const sent = (of) => byAxis(of, 'bytes');
  return {
    title: `A comparison of ${plural(d.about.strategies, 'strategy', 'strategies')}`,
    parts: () => [
      paragraph(`Begun ${d.about.date}. ${d.about.machine}.`, 'small'),
      rows.length < d.about.strategies &&
      element('p', {}, element('strong', { textContent: 'Not complete:' }), ` ${rows.length} of them are done.`),
      heading('results', 'Results'),
      paragraph(d.conclusion),
      sentences(rows, name),
      paragraph(KEY, 'small'),
      ...d.tables.map(table),
      paragraph(
        'Bytes are those of the rank that has most, for each column by itself, so that roles need not ' +
          'sum to the total. A column’s key in compare.json and compare.csv shows while the pointer is ' +
          'over its head; these files have all digits, and every rank.',
        'small',
      ),
      barFigure(
        'memory',
        'Memory',
        'Bytes of the rank whose planned total is largest. Predicted: the static memory plan, made ' +
          'before the first step. Measured: the high-water mark of bytes that were written, in arenas that ' +
          'started full of a pattern that no number has. The two have to agree to the byte.',
        {
          title: 'Memory of the fullest rank, by role',
          unit: 'MiB',
          series: ROLES.map(role),
          groups: groups(memory),
        },
      ),
      barFigure('throughput', 'Throughput', 'Global batch x sequence length / median time of a timed step.', {
        title: 'Throughput',
        unit: 'tokens/s',
        series: [{ name: 'tokens', colour: 'blue' }],
        groups: groups((row) => [{ values: [row.tokens_per_s ?? NaN] }]),
      }),
      barFigure(
        'time',
        'Time of a step',
        'Mean of the ranks and of all timed steps. The table’s “step, ms” is the median step, which a slow ' +
        'step ' +
          'does not move, so the two differ. What a rank does not wait is counted as computing; communication ' +
          'that hides behind computation is not seen.',
        {
          title: 'Where the time of a step goes',
          unit: 'ms, mean of the ranks',
          series: [
            { name: 'computing', colour: 'blue' },
            { name: 'waiting for dp', colour: 'orange' },
            { name: 'tp', colour: 'green' },
            { name: 'pp', colour: 'purple' },
            { name: 'bubble (pipeline neighbors)', colour: 'pale' },
            { name: 'rest', colour: 'vermilion' },
          ],
          groups: groups(time),
        },
      ),
      barFigure(
        'wire',
        'Bytes on the wire',
        'Algorithm bytes, as a ring sends them: all-reduce 2 S (n-1)/n, all-gather and reduce-scatter S ' +
          '(n-1)/n, send S.',
        {
          title: 'Bytes on the wire in a step, by axis',
          unit: 'MiB sent by the rank that sends most',
          series: [{ name: 'dp', colour: 'orange' }, { name: 'tp', colour: 'green' }, {
            name: 'pp',
            colour: 'purple',
          }, { name: 'rest (tied embedding; loss, norm)', colour: 'vermilion' }],
          groups: groups((row) => [{ values: sent(most(row.per_rank, (r) => sum(sent(r)))).map((b) => b / MIB) }]),
        },
      ),
      ganttFigure(
        'pipeline',
        'Pipelines',
        'Predicted: the schedule run against a clock. All stages are alike, a forward or backward (with ' +
          'its replays) is as long as its floating-point operations, mean of the ranks, and messages take ' +
          'no time. Traced: the fastest of up to four timed steps as it was, the first replica’s ranks on ' +
          'one clock; ranks that share a core take turns inside of their boxes. Predicted charts have one ' +
          'scale, and traced ones another.',
        d.pipelines,
      ),
      timelineFigure(d.timelines, 'on the rank whose planned total is largest'),
      heading('options', 'What was run'),
      paragraph(
        'Every strategy trained the same steps on the same samples from the same seed, one after the ' +
          'other in one launch. What they have in common, beside the defaults:',
      ),
      table({
        heads: ['option', { text: 'value', left: true }, { text: 'from', left: true }, {
          text: 'meaning',
          left: true,
        }],
        rows: d.about.options.map((o) => [o.name, o.value, o.from, o.meaning]),
      }),
    ],
  };
};
