// A step of many microbatches, made readable: its beginning, its turn and its end are drawn, with gaps for the rest.
'use strict';

const GAP = 30;                                           // pixels that a gap takes

// Pieces [from, to] of a step in their order; those that meet are one. null: nearly all of it, so nothing is left out.
function piecesOf(wanted, end) {
  const pieces = [];
  for (const [from, to] of wanted.map(([a, b]) => [Math.max(0, a), Math.min(end, b)]).sort((p, q) => p[0] - q[0])) {
    const last = pieces[pieces.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else pieces.push([from, to]);
  }
  return pieces.reduce((sum, [a, b]) => sum + b - a, 0) > 0.7 * end ? null : pieces;
}

// -> [{from, to, scale, x(at)}]: each piece's place between left and right, all in one scale
function placed(pieces, left, right) {
  const length = pieces.reduce((sum, [a, b]) => sum + b - a, 0), scale = (right - left - GAP * (pieces.length - 1)) / length;
  let begin = left;
  return pieces.map(([from, to]) => {
    const start = begin;
    begin += (to - from) * scale + GAP;
    return {from, to, scale, x: at => start + (Math.min(Math.max(at, from), to) - from) * scale};
  });
}
function gaps(all, y) {
  return all.slice(1).map(piece => textAt('gap', piece.x(piece.from) - GAP / 2, y, '⋯')).join('');
}
function textAt(name, x, y, text) { return `<text class="${name}" x="${x.toFixed(2)}" y="${y}" text-anchor="middle">${text}</text>`; }
function lineAt(x1, y1, x2, y2) { return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="#1a1a1a"/>`; }

// ---- the picture that plan --svg writes: its boxes say in their titles what they are, and when ----
const numberOf = (element, name) => Number(element.getAttribute(name));

function readBoxes(svg) {
  return [...svg.querySelectorAll('rect')].flatMap(rect => {
    const said = rect.querySelector('title')?.textContent.match(/of microbatch (\d+), chunk \d+: (\S+) to (\S+)$/);
    const hatch = rect.nextElementSibling?.getAttribute('fill') === 'url(#hatch)' ? rect.nextElementSibling : null;
    const [microbatch, start, end] = (said ?? []).slice(1).map(Number);
    return said ? [{rect, hatch, microbatch, start, end, y: numberOf(rect, 'y')}] : [];
  });
}

// Which pieces of the step to draw, of p stages: the first p + 4 microbatches, the first backward, the last p. Or null.
function piecesOfSchedule(boxes, stages) {
  const microbatches = 1 + Math.max(...boxes.map(box => box.microbatch)), end = Math.max(...boxes.map(box => box.end));
  if (microbatches <= 2 * stages + 4) return null;
  const own = boxes.filter(box => box.microbatch === 0 && box.y === boxes[0].y);
  const one = own.reduce((sum, box) => sum + box.end - box.start, 0);        // what a stage computes for a microbatch
  const turn = Math.min(...boxes.filter(box => box.rect.textContent.startsWith('backward')).map(box => box.start));
  return piecesOf([[0, (stages + 4) * one], [turn - 2 * one, turn + 2 * one], [end - stages * one, end]], end);
}

// The part of a rectangle that lies in a piece, as another one before it.
function putPart(rect, from, to, piece) {
  const part = rect.cloneNode(true), x = piece.x(from);
  part.setAttribute('x', x.toFixed(2));
  part.setAttribute('width', (piece.x(to) - x).toFixed(2));
  rect.before(part);
}
function putBox({rect, hatch, microbatch, start, end, y}, piece) {
  const x = piece.x(start), width = piece.x(end) - x, height = numberOf(rect, 'height');
  for (const part of [rect, hatch]) if (part) putPart(part, start, end, piece);
  if (width >= 4 + 6.2 * String(microbatch).length && height >= 10)
    (hatch ?? rect).insertAdjacentHTML('beforebegin', textAt('number', x + width / 2, y + height / 2 + 4, microbatch));
}

// Returns whether something is left out now.
function shortenPipeline(svg) {
  const boxes = readBoxes(svg), rows = [...svg.querySelectorAll('rect[fill="#eeeeec"]')].filter(row => numberOf(row, 'width') > 200);
  const pieces = boxes.length ? piecesOfSchedule(boxes, rows.length) : null;
  if (!pieces) return false;
  const left = numberOf(rows[0], 'x'), all = placed(pieces, left, left + numberOf(rows[0], 'width'));
  const lines = [...svg.querySelectorAll('line[x1]')], axis = lines.find(line => numberOf(line, 'y1') === numberOf(line, 'y2'));
  const bottom = numberOf(axis, 'y1'), texts = [...svg.querySelectorAll('text[text-anchor=middle]')];
  for (const row of rows) for (const piece of all) putPart(row, piece.from, piece.to, piece);
  for (const box of boxes) for (const piece of all.filter(({from, to}) => box.start < to && box.end > from)) putBox(box, piece);
  const drawn = all.map(piece => lineAt(piece.x(piece.from), bottom, piece.x(piece.to), bottom) + ticks(piece, bottom));
  axis.insertAdjacentHTML('beforebegin', drawn.join('') + gaps(all, bottom + 4));
  const old = [...rows, ...boxes.flatMap(({rect, hatch}) => hatch ? [rect, hatch] : [rect]), ...lines];
  for (const gone of [...old, ...texts.filter(text => numberOf(text, 'y') < bottom + 20)]) gone.remove();
  return true;
}
// The distance of ticks is that of driver/chart: 1, 2 or 5 times a power of ten, and at least 60 pixels.
function ticks(piece, bottom) {
  const least = 60 / piece.scale, power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= 0.999 * least);
  let made = '';
  for (let i = Math.ceil(piece.from / step); i * step <= piece.to; i++) {
    const x = piece.x(i * step);
    made += lineAt(x, bottom, x, bottom + 5) + textAt('tick', x, bottom + 18, Number((i * step).toPrecision(4)));
  }
  return made;
}

// ---- a figure, which begins short where it can be: draw(whole) fills it, and says whether something is left out ----
function drawShort(figure, draw) {
  const show = whole => {
    const short = draw(whole);
    if (!short && !whole) return;
    const textContent = whole ? 'Draw the beginning and the end' : 'Draw the whole step';
    const button = element('button', {type: 'button', textContent});
    button.addEventListener('click', () => show(!whole));
    figure.append(element('p', {className: 'note'}, whole ? '' : 'Microbatches in the middle are left out at ⋯. ', button));
  };
  show(false);
}
