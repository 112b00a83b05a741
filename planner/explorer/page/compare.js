// Two layouts side by side: A, which the reader has pinned, and B, which the controls make. A stands in the address,
// too (pin=, a fragment in the fragment), and its commands run as B's do.
'use strict';

const pinned = {
  fragment: null,                                         // of which layout memory, plan and picture are
  done: false,                                            // all of them have come
  memory: null, plan: null, picture: undefined, options: {}, refusal: '',

  wanted() { return 'pin' in state.values ? state.get('pin') : null; },

  // A's commands, where they have not run yet.
  jobs(clusterFiles) {
    const fragment = this.wanted();
    if (fragment === this.fragment && this.done) return [];
    Object.assign(this, {fragment, done: fragment === null, memory: null, plan: null, picture: undefined});
    Object.assign(this, {options: {}, refusal: ''});
    if (this.done) return [];
    const values = state.of(fragment), words = state.words(clusterFiles, values);
    const draw = Number(values.pp) > 1 ? ['--svg', 'pipeline.svg'] : [];
    return [{name: 'A options', args: ['show', 'options', ...words, '--json']},
      {name: 'A memory', args: ['show', 'memory', ...words, '--json', '--rank', '0']},
      {name: 'A plan', args: ['plan', ...words, '--json', ...draw]}];
  },
  take(result) {
    if (result.name === 'A plan') this.done = true;
    if (result.name === 'A memory' && result.code) this.refusal = readRefusal(result.err).sentence;
    if (result.code) return;
    if (result.name === 'A options') this.options = optionsByName(JSON.parse(result.out));
    else if (result.name === 'A memory') this.memory = JSON.parse(result.out);
    else Object.assign(this, {plan: JSON.parse(result.out).plan, picture: result.written['pipeline.svg']});
  },
};

// The options that differ, of each: [["tp", "2", "8"], ...]; of a word that is not set, what the program uses.
function differences(a, b) {
  const names = Object.keys({...a.values, ...b.values}).filter(name => !OWN_WORDS.includes(name));
  const value = (side, name) => side.values[name] || side.options[name]?.value || 'not set';
  return names.map(name => [name, value(a, name), value(b, name)]).filter(([, one, other]) => one !== other);
}

// [what, A's, B's, kind] of the fullest rank of each.
function comparedRows(a, b) {
  const [one, other] = [fullest(a.memory), fullest(b.memory)];
  const roles = rank => ({...rank.bytes, host: rank.host, disk: rank.disk});
  const sent = ({wire_bytes}, axis) => wire_bytes[axis] ?? 0;
  const rows = Object.keys(roles(other)).map(role => [role, roles(one)[role], roles(other)[role], 'bytes']);
  rows.push(['all of the device', one.total, other.total, 'bytes']);
  for (const axis of Object.keys({...one.wire_bytes, ...other.wire_bytes}))
    rows.push([`sent along ${axis} in a step`, sent(one, axis), sent(other, axis), 'bytes']);
  rows.push(['ranks', a.memory.n_ranks, b.memory.n_ranks, 'count']);
  rows.push(['microbatches per step', a.memory.microbatches, b.memory.microbatches, 'count']);
  if (a.plan && b.plan) rows.push(['a step', a.plan.step_s, b.plan.step_s, 'time']);
  return rows.filter(([, x, y]) => x || y);
}

const KINDS = {
  bytes: {text: bytesText, difference: n => exactly(n) + ' bytes'},
  count: {text: exactly, difference: exactly},
  time: {text: secondsText, difference: secondsText},
};
const same = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(a);   // times are sums in another order
function differenceText(a, b, kind) {
  return same(a, b) ? 'the same' : (b > a ? '+' : '−') + KINDS[kind].difference(Math.abs(b - a));
}

// a, b: {memory, plan, values, options}
function drawCompared(at, a, b) {
  const changed = differences(a, b), most = Math.max(fullest(a.memory).total, fullest(b.memory).total);
  const words = column => changed.map(line => `${line[0]} ${line[column]}`).join(', ') || 'the same layout';
  const side = (name, {memory}, column) => {
    const {rank, bytes, total} = fullest(memory);
    return element('div', {className: 'row', title: `its fullest rank, ${rank}`},
      element('span', {className: 'name', textContent: `${name}: ${words(column)}`}), roleBar(bytes, most),
      element('span', {className: 'number', textContent: bytesText(total)}));
  };
  const cell = (name, text) => element(name, {textContent: text}), heads = ['of the fullest rank', 'A', 'B', 'B − A', 'B / A'];
  const made = element('table', {}, element('tr', {}, ...heads.map(text => cell('th', text))));
  for (const [what, x, y, kind] of comparedRows(a, b)) {
    const {text} = KINDS[kind], ratio = x ? Number((y / x).toPrecision(3)) : '';
    made.append(element('tr', {className: same(x, y) ? 'same' : ''},
      ...[what, text(x), text(y), differenceText(x, y, kind), ratio].map(said => cell('td', said))));
  }
  at.replaceChildren(side('A', a, 1), side('B', b, 2), element('div', {className: 'scroll'}, made));
}
