// What the reader says before the page does: a number, of one of these quantities, and the two compared.
//
// With a question in the address (ask=...) the results are hidden until the reader asks for them; answer=NAME says
// which quantity the question is about. Without one, a prediction is of the layout that the next change makes.
'use strict';

const fullest = memory => memory.ranks.reduce((most, rank) => rank.total > most.total ? rank : most);

// Name, as in answer=...: what is counted, its kind, and where it stands in what the commands print.
const QUANTITIES = {
  words: {text: 'a sentence'},
  memory: {text: 'memory of the fullest rank', kind: 'bytes', of: ({memory}) => fullest(memory).total},
  ...Object.fromEntries(['param', 'grad', 'optim', 'act', 'comm', 'host'].map(role => [role, {
    text: `${role} of the fullest rank`, kind: 'bytes', of: ({memory}) => fullest(memory).bytes[role] ?? fullest(memory)[role],
  }])),
  ...Object.fromEntries(['dp', 'tp', 'pp', 'cp', 'ep'].map(axis => ['wire-' + axis, {
    text: `bytes that a rank sends along ${axis}`, kind: 'bytes', of: ({memory}) => fullest(memory).wire_bytes[axis] ?? 0,
  }])),
  microbatches: {text: 'microbatches per step', kind: 'count', of: ({memory}) => memory.microbatches},
  ranks: {text: 'ranks', kind: 'count', of: ({memory}) => memory.n_ranks},
  step: {text: 'seconds of a step', kind: 'time', of: ({plan}) => plan?.step_s},
};
const UNITS = {
  count: {'': 1, K: 1e3, M: 1e6, B: 1e9},
  time: {s: 1, '': 1, ms: 1e-3, 'µs': 1e-6, us: 1e-6},
  bytes: {'': 1, B: 1, BYTES: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30, TIB: 2 ** 40},
};
const EXAMPLES = {bytes: '60 GB, 1.5 MiB or 1668608', time: '7.8 s or 12 ms', count: '8'};

// "60 GB", "1 668 608", "2.5e9", "7.8 s" -> {value, size, unit}; null: it is no number of this kind
function readNumber(text, kind) {
  const plain = text.replace(/(?<=\d)[\s,'](?=\d{3}(?!\d))/g, '');
  const [, digits, unit] = plain.match(/^\s*([\d.]+(?:e[+-]?\d+)?)\s*([a-zµ]*)\s*$/i) ?? [];
  const size = UNITS[kind][unit] ?? UNITS[kind][unit?.toUpperCase()] ?? UNITS[kind][unit?.toUpperCase() + 'B'];
  return size && isFinite(digits) ? {value: Number(digits) * size, size, unit} : null;
}

// "You said 60 GB; memory of the fullest rank is 100.3 GB: 40 % too little." In the unit that the reader chose.
function compared(text, name, found) {
  const {text: what, kind, of} = QUANTITIES[name];
  if (!kind) return `You said: “${text.trim()}”. The answer is below: is it so?`;
  const said = readNumber(text, kind), is = of(found);
  if (!said) return `“${text}” is no number of ${what}; write it as ${EXAMPLES[kind]}.`;
  if (is === undefined) return 'The planner has no time for this layout.';
  const amount = is / said.size, rounded = said.size > 1 || kind === 'time';
  const unit = said.unit || {bytes: 'bytes', time: 's', count: ''}[kind];
  const truth = `${rounded ? Number(amount.toPrecision(4)) : exactly(amount)} ${unit}`.trim();
  return `You said ${text.trim()}; ${what} is ${truth}: ${verdictOf(said.value, is)}.`;
}
function verdictOf(said, is) {
  if (said === is || Math.abs(said / is - 1) < 0.005) return 'right';
  if (said > 2 * is) return is ? `${Number((said / is).toPrecision(3))} times as much as it is` : 'too much';
  return `${Number((100 * Math.abs(said / is - 1)).toPrecision(2))} % too ${said < is ? 'little' : 'much'}`;
}

const prediction = {
  waits: false,                                           // typed, and not yet compared

  // onShow: the reader asks for the answer of a question
  build(onShow) {
    [this.what, this.text, this.said] = [at('predict-what'), at('predict-text'), at('said')];
    for (const [name, {text}] of Object.entries(QUANTITIES)) this.what.add(new Option(text, name));
    this.what.value = 'memory';
    const typed = () => {
      this.waits = this.text.value.trim() !== '';
      this.said.textContent = this.waits && !this.asked() ? 'Now change a control.' : '';
    };
    this.text.addEventListener('input', typed);
    this.what.addEventListener('change', typed);
    at('question').querySelector('form').addEventListener('submit', event => {
      event.preventDefault();
      if (this.asked()) onShow();
    });
  },
  asked() { return at('results').classList.contains('hidden-until-asked'); },

  // A question, or none: then the field is for the next change.
  ask(text, about) {
    const section = at('question'), asked = text !== '';
    section.querySelector('h2').textContent = asked ? 'Predict first' : 'Predict the next change';
    section.querySelector('p').textContent = text || 'Say what a number will be, then change a control: the page compares the two.';
    section.querySelector('button').hidden = !asked;
    section.classList.toggle('asks', asked);
    this.what.parentElement.hidden = asked && !QUANTITIES[about]?.kind;
    this.text.previousElementSibling.textContent = this.what.parentElement.hidden ? 'My answer' : 'is';
    this.text.placeholder = this.what.parentElement.hidden ? 'in your words' : '60 GB';
    at('results').classList.toggle('hidden-until-asked', asked);
    if (!asked) return;
    this.what.value = about in QUANTITIES ? about : 'words';
    this.what.disabled = about in QUANTITIES;
    [this.text.value, this.said.textContent, this.waits] = ['', '', false];
  },
  // A layout has been computed: one that was predicted, or one change more, of which nothing was said.
  settle(found) {
    if (this.asked()) return;
    this.said.textContent = this.waits ? compared(this.text.value, this.what.value, found) : '';
    if (!this.waits) this.text.value = '';
    this.waits = this.what.disabled = false;
    if (this.what.value === 'words') this.what.value = 'memory';
  },
};
