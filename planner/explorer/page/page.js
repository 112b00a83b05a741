// The page: it turns every change into a few commands, and puts what they print in its place.
'use strict';

const at = id => document.getElementById(id);
const clusterFiles = JSON.parse(at('cluster-files').textContent);
const clusterNames = Object.keys(clusterFiles).map(path => path.match(/^configs.*\/([^/]+)\.ini$/)?.[1]).filter(name => name);
let session, aside;                                        // the layout's commands; and the console's

// ---- one change ----
function jobs() {
  const words = state.words(clusterFiles), rank = String(Number(state.get('rank')) || 0);
  const hasPipeline = Number(state.get('pp')) > 1;
  return [
    {name: 'options', args: ['show', 'options', ...words, '--json']},
    {name: 'memory', args: ['show', 'memory', ...words, '--json', '--rank', rank]},
    {name: 'plan', args: ['plan', ...words, '--json', ...(hasPipeline ? ['--svg', 'pipeline.svg'] : [])]},
    {name: 'comm', args: ['show', 'comm', ...words, '--rank', rank]},
    ...pinned.jobs(clusterFiles),
    ...(at('program').open ? [{name: 'program', args: ['show', 'program', ...words, '--rank', rank]}] : []),
  ];
}

const shown = {memory: null, plan: null, picture: undefined};

function take(result) {
  if (result.name.startsWith('A ')) { pinned.take(result); drawPinned(); return; }
  if (result.code !== 0) { refuse(result); return; }
  if (result.name === 'options') controls.show(JSON.parse(result.out));
  if (result.name === 'memory') takeMemory(JSON.parse(result.out));
  if (result.name === 'plan') takePlan(JSON.parse(result.out).plan, result.written['pipeline.svg']);
  if (result.name === 'comm') at('comm').querySelector('pre').textContent = result.out;
  if (result.name === 'program') drawProgram(at('rewrites'), at('tables'), result.out);
}

// The first refusal is the reason; those of the later commands are the same one. Old results stay, greyed.
function refuse(result) {
  if (result.name === 'plan' && shown.memory) { takePlanRefusal(result); return; }
  if (at('refusal').hidden) drawRefusal(at('refusal'), result.err, change);
  at('results').classList.add('stale');
}

const chosenRank = () => shown.memory.ranks.find(rank => rank.rank === (Number(state.get('rank')) || 0)) ?? shown.memory.ranks[0];

function takeMemory(memory) {
  shown.memory = memory;
  at('results').classList.remove('empty');
  const rank = chosenRank();
  for (const word of document.querySelectorAll('.which-rank')) word.textContent = `rank ${rank.rank}`;
  drawLegend(at('legend'), memory.ranks);
  drawBars();
  drawSaved(at('saved'), memory, rank);
  drawWire(at('wire'), rank);
  drawSummary(at('summary'), memory, null);
  drawCommands(at('commands'), state.words(clusterFiles), memory.n_ranks, rank.rank);
  drawSteps();
}
function drawBars() {
  drawMemory(at('memory'), shown.memory, shown.plan?.room_bytes, chosenRank().rank, rank => change('rank', String(rank)));
}

function takePlan(plan, picture) {
  shown.plan = plan;
  drawSummary(at('summary'), shown.memory, plan);
  drawBars();
  drawTime(at('time'), plan);
  shown.picture = picture;
  drawPipelines();
  drawPinned();
}
const NO_PIPELINE = '<p class="note">pp is 1: there is no pipeline. Choose pp 2 or more.</p>';
// A's picture above B's, or B's alone. draw(figure, side, whole) returns whether something is left out.
function drawSides(at, draw) {
  const sides = pinned.memory && shown.memory ? [['A', pinned], ['B', shown]] : [['', shown]];
  at.replaceChildren(...sides.map(([name, side]) => {
    const figure = element('figure', {});
    drawShort(figure, whole => draw(figure, side, whole));
    if (name) return element('div', {}, element('h3', {textContent: name}), figure);
    return figure;
  }));
}
function drawSteps() {
  if (!shown.memory) return;
  const most = Math.max(1, ...[pinned, shown].map(side => side.memory?.timeline.planned_bytes ?? 0));
  drawSides(at('over-step'), (figure, {memory}, whole) => {
    const stages = 1 + Math.max(...memory.ranks.map(rank => rank.pp_rank));
    return drawOverStep(figure, memory.timeline, stages, most, whole);
  });
}
function drawPipelines() {
  if (!pinned.picture && !shown.picture) { at('pipeline').innerHTML = NO_PIPELINE; return; }
  drawSides(at('pipeline'), (figure, {picture}, whole) => {
    figure.innerHTML = picture ?? NO_PIPELINE;
    const svg = figure.querySelector('svg');
    return !whole && svg !== null && shortenPipeline(svg);
  });
}

// ---- A and B ----
function drawPinned() {
  const section = at('compared');
  section.hidden = pinned.wanted() === null;
  if (section.hidden || !shown.memory) return;
  const place = section.querySelector('div');
  const a = {...pinned, values: state.of(pinned.fragment)}, b = {...shown, values: state.values, options: controls.table};
  const instead = pinned.refusal ? 'A cannot be: ' + pinned.refusal : 'A is being computed …';
  if (pinned.memory) drawCompared(place, a, b);
  else place.replaceChildren(element('p', {textContent: instead}));
}
function pin(fragment) {
  if (fragment === null) delete state.values.pin;
  else state.values.pin = fragment;
  state.write();
  update();
}
function swapPinned() {
  const [a, b] = [pinned.wanted(), state.layout()];
  state.values = {...state.of(a), pin: b};
  change(null);
}
// A layout can be legal on a cluster that cannot price it: then only the time is missing.
function takePlanRefusal(result) {
  shown.plan = null;
  at('time').replaceChildren(element('p', {textContent: readRefusal(result.err).sentence}));
  shown.picture = '<p class="note">No time line without times.</p>';
  drawPinned();
}

async function update() {
  const alone = state.get('puzzle') in PUZZLES;
  document.body.classList.toggle('alone', alone);
  at('results').setAttribute('aria-busy', String(!alone));
  if (alone) return;                                       // a puzzle has commands of its own
  at('results').classList.remove('stale');
  at('refusal').hidden = true;
  shown.memory = null;
  const wasPinned = pinned.memory !== null;
  await session.run(jobs(), take);
  if (wasPinned || pinned.memory) { drawSteps(); drawPipelines(); }
  if (shown.memory) prediction.settle(shown);
  at('results').setAttribute('aria-busy', 'false');
}

function change(name, value) {
  if (name) state.set(name, value);
  if (name && name !== 'rank') state.set('rank', state.get('rank') && '0');
  controlsFollow();
  update();
}
// What was typed stands in its control at once, also when it is refused and no table of options comes.
function controlsFollow() {
  for (const [name, value] of Object.entries(state.values)) {
    const input = at('option-' + name);
    if (input) input.value = value;
  }
}

// ---- a question: results are hidden until the reader has thought of an answer ----
function askQuestion() { prediction.ask(state.get('ask'), state.get('answer')); }
function answerQuestion() {
  state.set('ask', '');
  state.set('answer', '');
  askQuestion();
  if (shown.memory) prediction.settle(shown);
}

// ---- other commands ----
const PRINTED = {
  'show memory': words => ['show', 'memory', ...words], 'show mesh': words => ['show', 'mesh', ...words],
  'show comm': words => ['show', 'comm', ...words], 'show types': words => ['show', 'types', ...words],
  'show options': words => ['show', 'options', ...words], 'plan': words => ['plan', ...words],
  'plan --gpus (a search)': words => ['plan', ...words, '--gpus', String(shown.memory?.n_ranks ?? 1)],
  'schedule --all': () => ['schedule', '--all', '--pp', state.get('pp') || '4', '--microbatches', String(shown.memory?.microbatches ?? 8)],
};
function buildConsole() {
  at('console-buttons').append(...Object.entries(PRINTED).map(([name, args]) => {
    const button = element('button', {type: 'button', textContent: name});
    button.addEventListener('click', async () => {
      const screen = at('console').querySelector('pre');
      screen.textContent = '…';
      const result = await aside.ask(args(state.words(clusterFiles)));
      screen.textContent = `$ build/trivium ${result.args.join(' ')}\n${result.out}${result.err}`;
    });
    return button;
  }));
}

// ---- the start ----
async function presetNames() {
  const {err} = await session.ask(['show', 'options', '--model', '?']);
  return err.match(/use one of (.*)/)[1].trim().split(', ');
}

async function start() {
  const module = await WebAssembly.compile(await unpack('wasm'));
  const newSession = () => new Session(module, clusterFiles, at('worker').textContent);
  session = newSession();
  aside = newSession();
  state.read();
  const options = await session.ask(['show', 'options', '--json']);
  controls.build(at('controls'), JSON.parse(options.out), {model: await presetNames(), cluster: clusterNames}, change);
  buildConsole();
  prediction.build(answerQuestion);
  puzzles.build(newSession, id => { state.set('puzzle', id); update(); });
  at('puzzles').addEventListener('toggle', () => { if (at('puzzles').open && !puzzles.text.value) puzzles.show(puzzles.choice.value); });
  at('program').addEventListener('toggle', () => { if (at('program').open) update(); });
  at('leave-puzzle').addEventListener('click', () => { state.set('puzzle', ''); update(); });
  at('pin').addEventListener('click', () => pin(state.layout()));
  at('unpin').addEventListener('click', () => pin(null));
  at('swap').addEventListener('click', swapPinned);
  at('reset').addEventListener('click', () => { state.values = {...DEFAULTS}; change(null); });
  at('copy-link').addEventListener('click', event => copyText(location.href, event.target));
  addEventListener('hashchange', () => {
    state.read();
    askQuestion();
    puzzles.show(state.get('puzzle'));
    controlsFollow();
    update();
  });
  askQuestion();
  puzzles.show(state.get('puzzle'));
  at('loading').hidden = true;
  await update();
}

const ready = start();
