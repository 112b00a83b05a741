// Puzzles with a par: those of the lessons' tables, played in the page. A solution is drawn as it is typed. What it is
// worth, commands say: the schedule's checker and clock, the planner. They are what make grade asks, too. A puzzle in
// the address is alone on the page.
//
// A puzzle: {name, task, start, commands(text), judge(results, text, par), par}. judge gives claims [{holds, text}] and a
// score beside the par, less is better. par, where there is one, is a command that takes long: the planner's search.
'use strict';

// ---- schedules: lesson 07, exercise table ----
// "F0 F1 . B0" per stage -> its lines that say something: {at: the line as typed, cells, actions: which are no dots}
function typedLines(text) {
  const lines = text.split('\n').map((line, i) => ({at: i + 1, cells: line.replace(/#.*/, '').trim().split(/[\s,]+/)}));
  return lines.filter(({cells}) => cells[0]).map(({at, cells}) => ({at, cells, actions: [...cells.keys()].filter(i => cells[i] !== '.')}));
}
// The file that schedule --schedule file: reads. split: B is the input's gradient alone.
function scheduleFile(text, split) {
  const action = (stage, cell) => stage + (split ? cell.replace(/^B/, 'I') : cell);
  return typedLines(text).map(({cells, actions}, stage) => actions.map(i => action(stage, cells[i])).join(', ') + '\n').join('');
}

// The file's refusal in the words of what was typed: its lines and cells (dots count), and no stage before an action.
function asTyped(sentence, text, split) {
  const lines = typedLines(text);
  let line;                                               // the one that the sentence speaks of
  return sentence.replace(/[^ ]*yours\.csv[,:] /, '').replace(/[^ ]*yours\.csv/, 'your table').replace('its I', 'its B')
    .replace('0F3 and 0B3, or 0I3 and 0W3', split ? 'F3, B3 or W3' : 'F3 or B3')
    .replace(/line (\d+)|cell (\d+)(: "[^"]*")?|\b\d+([FBIW])(\d+)\b/g, (all, number, cell, quoted, letter, microbatch) => {
      if (letter) return (letter === 'I' ? 'B' : letter) + microbatch;
      if (number) { line = lines[number - 1]; return `line ${line?.at ?? number}`; }
      const typed = line?.actions[cell - 1];
      return typed === undefined ? all : `cell ${typed + 1}` + (quoted ? `: "${line.cells[typed]}"` : '');
    });
}

function schedulePuzzle(name, task, {f, b, w, longest, held}) {
  const split = w > 0, stages = held.length;
  return {
    name, task, start: held.map(() => '?').join('\n'),
    commands: text => [{name: 'schedule', files: {'yours.csv': scheduleFile(text, split)},
      args: ['schedule', '--schedule', 'file:yours.csv', '--time-f', String(f), '--time-b', String(b + w), ...(split ? ['--time-w', String(w)] : []), '--json', '--svg', 'yours.svg']}],
    judge({schedule}, text) {
      const wanted = `write a line of actions for each of the ${stages} stages, as in F0 B0, in place of each ?`;
      if (text.includes('?')) return {claims: [{holds: false, text: wanted}]};
      if (schedule.code) return {claims: [{holds: false, text: asTyped(readRefusal(schedule.err).sentence, text, split)}]};
      const found = JSON.parse(schedule.out), whole = found.pp === stages && found.microbatches === 4;
      const peaks = found.peak_in_flight, small = whole && peaks.every((peak, i) => peak <= held[i]);
      // What breaks a rule has no score, so that nothing looks like a win that is none.
      return {picture: schedule.written['yours.svg'], score: small ? found.makespan : undefined, par: longest, unit: '', claims: [
        {holds: whole, text: `${stages} stages and 4 microbatches (yours: ${found.pp} and ${found.microbatches})`},
        {holds: whole && found.makespan <= longest, text: `a step takes at most ${longest} (yours: ${found.makespan})`},
        {holds: small, text: `stages hold at most ${held.join(', ')} microbatches (yours: ${peaks.join(', ')})`}]};
    },
  };
}

// ---- layouts: lesson 16, exercise puzzle; the par is what the planner's search finds ----
const CLUSTERS = 'lessons/16-choosing-a-layout/puzzle/';
const LAYOUT_WORDS = ['dp', 'tp', 'pp', 'cp', 'sp', 'zero', 'recompute', 'micro-batch', 'schedule', 'chunks', 'pp-split'];

// given: what all solutions have. ranks: how many they may use. best: the words that ask the planner for its own.
function plannedPuzzle(name, task, start, {given, ranks, best, words}) {
  const plan = ['plan', '--device', 'cuda', '--precision', 'bf16', ...given];
  return {
    name, task, start,
    par: [...plan, ...best, '--json'],
    commands: text => [{name: 'yours', args: [...plan, ...text.trim().split(/\s+/), '--json']}],
    judge({yours}, text, answer) {
      const foreign = text.split(/\s+/).find(word => word.startsWith('--') && !words.includes(word.slice(2).replace(/=.*/, '')));
      if (foreign) return {claims: [{holds: false, text: `${foreign} is not for this puzzle; it takes ${words.join(', ')}`}]};
      if (/\bauto\b/.test(text)) return {claims: [{holds: false, text: "auto is the planner's choice; here yours counts"}]};
      if (yours.code) return {claims: [{holds: false, text: readRefusal(yours.err).sentence}]};
      const mine = JSON.parse(yours.out).plan, all = answer && answer.code === 0 ? JSON.parse(answer.out) : null;
      const par = all ? (all.search ? all.search.best[0] : all.plan).step_s : null;
      const valid = mine.ranks === ranks && mine.fits;
      const claims = [{holds: mine.ranks === ranks, text: `${ranks} ranks (yours: ${mine.ranks})`},
        {holds: mine.fits, text: `it fits ${bytesText(mine.room_bytes)} per rank (yours: ${bytesText(mine.memory_bytes)})`}];
      if (par) claims.push(
        {holds: mine.fits && mine.step_s < 1.25 * par, text: `a step takes at most 1.25 times the planner's ${secondsText(par)} (yours: ${secondsText(mine.step_s)})`},
        {holds: mine.fits && mine.step_s < 1.033 * par, text: 'as good as the planner: at most 3.3 % longer, its own error'});
      return {score: valid ? mine.step_s : undefined, par, unit: ' s per step', claims};
    },
  };
}
const searched = (given, ranks) => ({given, ranks, best: ['--gpus', String(ranks), '--top', '1'], words: LAYOUT_WORDS});

const PUZZLES = {
  'schedule-1': schedulePuzzle('Schedule 1: three stages', 'Three stages, four microbatches. A forward (F0 … F3) takes 1, a backward (B0 … B3) 2. One line per stage, in order; a dot is an idle cell, for your eyes only. A step may take 18, and stage i may hold 3 − i microbatches.',
    {f: 1, b: 2, w: 0, longest: 18, held: [3, 2, 1]}),
  'schedule-2': schedulePuzzle('Schedule 2: little memory', 'Four stages, four microbatches; F takes 1, B 2. No stage may hold more than 2 microbatches. A step may take 27.',
    {f: 1, b: 2, w: 0, longest: 27, held: [2, 2, 2, 2]}),
  'schedule-3': schedulePuzzle('Schedule 3: weight gradients apart', 'Three stages, four microbatches. B takes 1 and makes the gradient of the input; W takes 1, makes that of the weights, any time after its B. A step may take 14, and no stage may hold more than 3 microbatches, from F until W.',
    {f: 1, b: 1, w: 1, longest: 14, held: [3, 3, 3]}),
  'layout-1': plannedPuzzle('Layout 1: eight GPUs on PCIe', 'gpt3-1.3b, global batch 64, on 8 ranks with 24 GiB each and 12 GB/s between them. Choose dp, tp, pp, zero, recompute, micro-batch …', '--dp 8 --zero 1 --micro-batch 2 --recompute full',
    searched(['--model', 'gpt3-1.3b', '--global-batch', '64', '--cluster', CLUSTERS + 'pcie.ini'], 8)),
  'layout-2': plannedPuzzle('Layout 2: nodes of four', 'llama2-13b, global batch 128, on 64 ranks: nodes of 4, 200 GB/s inside and 2.5 GB/s beyond, 39.5 GiB each.', '--dp 8 --tp 8 --zero 1 --micro-batch 1',
    searched(['--model', 'llama2-13b', '--global-batch', '128', '--cluster', CLUSTERS + 'four.ini'], 64)),
  'layout-3': plannedPuzzle('Layout 3: beat the planner', 'gpt3-6.7b, global batch 128, on 8 ranks with 24 GiB each. The planner does not search every schedule.', '--dp 2 --pp 4 --zero 1 --micro-batch 1 --recompute full',
    searched(['--model', 'gpt3-6.7b', '--global-batch', '128', '--cluster', CLUSTERS + 'pcie.ini'], 8)),
  'recompute': plannedPuzzle('Recompute: what to drop', 'gpt3-6.7b on 8 A100, tp 2, dp 4, ZeRO 1, global batch 256. Choose recompute (none, selective, full, uniform:N, block:N) and micro-batch.', '--recompute full --micro-batch 8',
    {given: ['--model', 'gpt3-6.7b', '--tp', '2', '--dp', '4', '--zero', '1', '--sp', 'on', '--global-batch', '256', '--cluster', 'dgx-a100'], ranks: 8,
     best: ['--recompute', 'auto', '--micro-batch', 'auto'], words: ['recompute', 'micro-batch']}),
};

// ---- the section ----
const puzzles = {
  pars: {},                                               // a puzzle's par is asked for once: a promise

  // newSession: a worker for solutions, and one for each par, so that typing does not end a search
  build(newSession, onChoose) {
    Object.assign(this, {newSession, session: newSession()});
    this.choice = at('puzzle-choice');
    this.text = at('puzzle-text');
    for (const [id, puzzle] of Object.entries(PUZZLES)) this.choice.add(new Option(puzzle.name, id));
    this.choice.addEventListener('change', () => { onChoose(this.choice.value); this.show(this.choice.value); });
    let timer;
    this.text.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(() => this.play(), 250); });
  },
  show(id) {
    const puzzle = PUZZLES[id];
    if (!puzzle) return;
    this.choice.value = id;
    at('puzzles').open = true;
    at('puzzle-task').textContent = puzzle.task;
    this.text.value = puzzle.start;
    this.text.rows = puzzle.start.split('\n').length + 1;
    this.play();
  },
  parOf(id) {
    const puzzle = PUZZLES[id];
    if (!puzzle.par) return Promise.resolve(null);
    if (!this.pars[id]) {
      const session = this.newSession();
      this.pars[id] = session.ask(puzzle.par).then(answer => { session.worker.terminate(); return answer; });
    }
    return this.pars[id];
  },
  // par: null while it is not known
  async judge(id, text, par) {
    const puzzle = PUZZLES[id], answers = {};
    await this.session.run(puzzle.commands(text), result => { answers[result.name] = result; });
    return puzzle.judge(answers, text, par);
  },
  async judgeBesidePar(id, text) { return this.judge(id, text, await this.parOf(id)); },

  async play() {
    const id = this.choice.value, text = this.text.value, asked = () => id === this.choice.value && text === this.text.value;
    const first = await this.judge(id, text, null);
    if (!asked()) return;
    this.draw(first, PUZZLES[id].par ? '; the planner searches for the par …' : '');
    const par = await this.parOf(id);
    if (par && asked()) this.draw(await this.judge(id, text, par), '');
  },
  draw({claims, score, par, unit, picture}, remark) {
    const points = score === undefined ? '' : `Score ${Number(score.toPrecision(4))}${unit}` + (par ? `; par ${Number(par.toPrecision(4))}` : remark);
    const solved = !remark && claims.every(claim => claim.holds);
    at('verdict').replaceChildren(...claims.map(claim => element('li', {className: claim.holds ? 'holds' : 'fails', textContent: claim.text})));
    const verdict = solved ? (par && score < par ? '. Below par!' : '. Solved.') : points && !remark ? '. Not solved yet.' : '';
    at('score').textContent = points + verdict;
    at('puzzle-picture').innerHTML = picture ?? '';
  },
};
