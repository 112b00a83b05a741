// Bars of bytes: memory by role of each rank, and what it sends by axis. Lengths and colours only; the numbers are the
// command's.
'use strict';

const ROLES = {
  param: 'weights', grad: 'gradients', optim: 'moments and masters', act: 'activations and their gradients',
  comm: 'buckets, gathered weights, staging', work: 'scratch of kernels', save: 'checkpoints', host: 'host memory', disk: 'disk',
};

// 12345678 -> "11.8 MiB"
function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit++; }
  return `${unit && bytes < 100 ? bytes.toPrecision(3) : Math.round(bytes)} ${units[unit]}`;
}
const exactly = n => n.toLocaleString('en').replaceAll(',', ' ');   // thin spaces

// Ranks of one stage with the same bytes are one row.
function alike(ranks) {
  const rows = [];
  for (const rank of ranks) {
    const key = JSON.stringify([rank.pp_rank, rank.bytes, rank.host, rank.disk]);
    const row = rows.find(other => other.key === key);
    if (row) row.ranks.push(rank);
    else rows.push({key, first: rank, ranks: [rank]});
  }
  return rows;
}

function rowName(row, all) {
  const at = row.first, n = row.ranks.length;
  const stages = all.some(other => other.first.pp_rank !== at.pp_rank) ? `stage ${at.pp_rank}: ` : '';
  const members = row.ranks.map(rank => rank.rank);
  const list = n > 4 ? `${members[0]} … ${members[n - 1]}` : members.join(', ');
  return `${stages}${n > 1 ? 'ranks' : 'rank'} ${list}`;
}

function drawLegend(at, ranks) {
  const used = Object.keys(ROLES).filter(role => ranks.some(rank => (rank.bytes[role] ?? rank[role]) > 0));
  at.replaceChildren(...used.map(role => element('span', {className: 'key', title: ROLES[role]},
    element('i', {className: 'role-' + role}), `${role} `, element('small', {textContent: ROLES[role]}))));
}

// A bar of its roles' bytes; end: the bytes of its whole length.
function roleBar(parts, end) {
  const bar = element('span', {className: 'bar'});
  for (const [role, bytes] of Object.entries(parts).filter(([, n]) => n > 0))
    bar.append(element('i', {className: 'role-' + role, style: `width:${100 * bytes / end}%`,
      title: `${role}: ${exactly(bytes)} bytes`}));
  return bar;
}

// room: bytes that a rank of the cluster has; a wall where it lies. onRank(number): a row was chosen.
function drawMemory(at, memory, room, chosen, onRank) {
  const rows = alike(memory.ranks), parts = rank => ({...rank.bytes, host: rank.host, disk: rank.disk});
  const sum = rank => rank.total + rank.host + rank.disk;
  const most = Math.max(...memory.ranks.map(sum)), end = room && room < 3 * most ? Math.max(most, room) : most;
  at.replaceChildren(...rows.map(row => {
    const bar = roleBar(parts(row.first), end);
    if (room && room <= end) bar.append(element('b', {className: 'wall', style: `left:${100 * room / end}%`, title: `${bytesText(room)}: what a rank of the cluster has`}));
    const over = room && row.first.total > room;
    const picked = row.ranks.some(rank => rank.rank === chosen);
    const button = element('button', {type: 'button', className: 'row' + (over ? ' over' : ''), title: `${exactly(row.first.total)} bytes`},
      element('span', {className: 'name', textContent: rowName(row, rows)}), bar,
      element('span', {className: 'number', textContent: bytesText(row.first.total)}));
    button.setAttribute('aria-pressed', picked);
    button.setAttribute('aria-label', `${rowName(row, rows)}: ${bytesText(row.first.total)}` + Object.entries(parts(row.first)).filter(([, b]) => b > 0).map(([role, b]) => `, ${role} ${bytesText(b)}`).join(''));
    button.addEventListener('click', () => onRank(row.first.rank));
    return button;
  }));
  at.append(table(['rank', 'stage', ...Object.keys(memory.ranks[0].bytes), 'total'],
    rows.map(row => [rowName(row, [row]), row.first.pp_rank, ...Object.values(row.first.bytes).map(exactly), exactly(row.first.total)]), 'the same as numbers, in bytes'));
}

function table(heads, lines, title) {
  const made = element('table', {});
  made.append(element('tr', {}, ...heads.map(head => element('th', {textContent: head, scope: 'col'}))));
  for (const line of lines) made.append(element('tr', {}, ...line.map(cell => element('td', {textContent: cell}))));
  return element('details', {className: 'scroll'}, element('summary', {textContent: title}), made);
}

function drawWire(at, rank) {
  const axes = Object.entries(rank.wire_bytes).filter(([, bytes]) => bytes > 0), most = Math.max(...axes.map(([, bytes]) => bytes), 1);
  if (axes.length === 0) { at.replaceChildren(element('p', {textContent: 'Nothing is sent.'})); return; }
  at.replaceChildren(...axes.map(([axis, bytes]) => element('div', {className: 'row', title: `${exactly(bytes)} bytes`},
    element('span', {className: 'name', textContent: axis}),
    element('span', {className: 'bar'}, element('i', {className: 'wire', style: `width:${100 * bytes / most}%`})),
    element('span', {className: 'number', textContent: bytesText(bytes)}))));
}

// ---- memory over a step: each role stands on the ones before it, as a staircase ----
const PLOT = {left: 74, right: 844, top: 30, bottom: 280};

// The corners of a role's area within a piece of the step: along its upper edge, and back along its lower one.
function corners(t, role, floors, piece, y) {
  const inside = t.row.flatMap((row, i) => row < piece.to && (t.row[i + 1] ?? t.rows) > piece.from ? [i] : []);
  const edge = level => inside.flatMap(i => [t.row[i], t.row[i + 1] ?? t.rows].map(at => [piece.x(at), y(level(i))]));
  return [...edge(i => floors[i] + t.alive_bytes[role][i]), ...edge(i => floors[i]).reverse()]
    .map(corner => corner.map(n => n.toFixed(1)).join()).join(' ');
}

// A word that would run into the one before it is left out, and so is a line that stands too close.
function marksOf(t, piece) {
  let wordFrom = 0, lineFrom = 0, made = '';
  for (const [row, word] of t.marks.filter(([row]) => row >= piece.from && row < piece.to)) {
    const at = piece.x(row);
    if (at < lineFrom) continue;
    lineFrom = at + 3;
    made += `<path class="mark" d="M${at.toFixed(1)} ${PLOT.top - 4}V${PLOT.bottom}"/>`;
    if (at < wordFrom) continue;
    wordFrom = at + 4 + 6.4 * word.length;
    made += `<text x="${(at + 2).toFixed(1)}" y="${PLOT.top - 6}">${word}</text>`;
  }
  return made;
}

// Which rows to draw of a step of p stages: the first p + 4 forwards, the peak, the last p backwards. Or null: all.
function piecesOfMemory(t, sums, stages) {
  const rowsOf = letter => t.marks.filter(([, word]) => word[0] === letter).map(([row]) => row);
  const forwards = rowsOf('F'), backwards = rowsOf('B'), last = t.marks.length - 1;
  const microbatches = 1 + Math.max(0, ...t.marks.map(([, word]) => parseInt(word.slice(1))));
  if (microbatches <= 2 * stages + 4) return null;
  const chunks = Math.round(forwards.length / microbatches), peak = t.row[sums.indexOf(Math.max(...sums))];
  const before = t.marks.filter(([row]) => row <= peak).length, near = step => t.marks[Math.min(Math.max(before + step, 0), last)][0];
  const end = backwards[backwards.length - stages * chunks] ?? t.rows;
  return piecesOf([[0, forwards[(stages + 4) * chunks] ?? 0], [near(-3), near(2)], [end, t.rows]], t.rows);
}

// t: the timeline of show memory --json --rank R. All that is written here are numbers, roles and "F3.1". most: the bytes
// of the whole height. whole: all of many microbatches. Returns whether some are left out.
function drawOverStep(at, t, stages, most, whole) {
  const sums = t.row.map((_, i) => Object.values(t.alive_bytes).reduce((sum, alive) => sum + alive[i], 0));
  const floors = t.row.map(() => 0);
  const short = whole ? null : piecesOfMemory(t, sums, stages);
  const pieces = placed(short ?? [[0, Math.max(1, t.rows)]], PLOT.left, PLOT.right);
  const y = bytes => PLOT.bottom - (PLOT.bottom - PLOT.top) * bytes / (1.08 * most);
  const label = (at, height, text) => `<text x="${at}" y="${height}" text-anchor="end">${text}</text>`;
  let made = '';
  for (const [role, alive] of Object.entries(t.alive_bytes)) {
    if (alive.some(bytes => bytes > 0))
      made += `<g style="fill:var(--${role})"><title>${role}</title>` +
        pieces.map(piece => `<polygon points="${corners(t, role, floors, piece, y)}"/>`).join('') + '</g>';
    alive.forEach((bytes, i) => floors[i] += bytes);
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1])
    made += label(PLOT.left - 6, y(share * most) + 4, bytesText(share * most));
  const plan = y(t.planned_bytes);
  at.innerHTML = `<svg viewBox="0 0 860 310" role="img" aria-label="Bytes alive by role over a step of rank ${t.rank}">` +
    made + pieces.map(piece => marksOf(t, piece)).join('') + gaps(pieces, PLOT.bottom) +
    `<path class="plan" d="M${PLOT.left} ${plan}H${PLOT.right}"/>` +
    label(PLOT.right - 4, plan - 5, 'planned peaks of all roles together: ' + bytesText(t.planned_bytes)) +
    label(PLOT.right, PLOT.bottom + 18, 'rows of a step, in their order: F forward, B backward of a microbatch') + '</svg>';
  return short !== null;
}
