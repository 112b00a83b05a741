// What commands answered, in words and short tables: refusals, the summary, time on the cluster, command lines.
'use strict';

// ---- refusals: "E_CONFIG tp.c:61 tp_check: tp=3 does not divide heads=4; use 1, 2, 4" ----
function readRefusal(err) {
  const line = err.split('\n').find(text => /^E_[A-Z]+ /.test(text)) ?? err.trim();
  const [, code, where, sentence] = line.match(/^(E_[A-Z]+) (\S+ \S+): (.*)$/) ?? [null, '', '', line];
  return {code, where, sentence, remedies: readRemedies(sentence)};
}

// The values that a remedy names, as [option, value]: what the sentence begins with is the option that it is about.
function readRemedies(sentence) {
  const subject = sentence.match(/^(?:--)?([a-z0-9-]+)=/), remedy = sentence.split('; ').slice(1).join('; ');
  const list = remedy.match(/use (?:one of )?((?:[\w.-]+, )*[\w.-]+)$/), named = remedy.match(/use (?:--)?([a-z0-9-]+)[ =]([\w.]+)/);
  if (named && controls.table[named[1]]) return [[named[1], named[2]]];
  if (subject && list && controls.table[subject[1]]) return list[1].split(', ').slice(0, 24).map(value => [subject[1], value]);
  return [];
}

function drawRefusal(at, err, onChange) {
  const {code, where, sentence, remedies} = readRefusal(err);
  at.hidden = false;
  at.replaceChildren(element('h2', {textContent: 'This cannot be'}), element('p', {textContent: sentence}));
  if (remedies.length)
    at.append(element('p', {className: 'buttons'}, ...remedies.map(([name, value]) => {
      const button = element('button', {type: 'button', textContent: `${name} ${value}`});
      button.addEventListener('click', () => onChange(name, value));
      return button;
    })));
  if (code) at.append(element('p', {className: 'note', textContent: `${code}, said by ${where}`}));
}

// ---- numbers ----
function flopsText(flops) {
  const units = ['', 'K', 'M', 'G', 'T', 'P', 'E'];
  let unit = 0;
  while (flops >= 1000 && unit < units.length - 1) { flops /= 1000; unit++; }
  return `${flops.toPrecision(3)} ${units[unit]}FLOP`;
}
function secondsText(s) { return s >= 1 ? `${s.toPrecision(3)} s` : s >= 1e-3 ? `${(1e3 * s).toPrecision(3)} ms` : `${(1e6 * s).toPrecision(3)} µs`; }

function countText(n) { return n >= 1e9 ? `${(n / 1e9).toPrecision(3)} B` : n >= 1e6 ? `${(n / 1e6).toPrecision(3)} M` : exactly(n); }

function fact(number, words) { return element('div', {className: 'fact'}, element('strong', {textContent: number}), element('span', {textContent: words})); }

function drawSummary(at, memory, plan) {
  const most = fullest(memory);
  const facts = [fact(countText(memory.parameters), `parameters: ${exactly(memory.parameters)}`), fact(exactly(memory.n_ranks), memory.n_ranks === 1 ? 'rank' : 'ranks'),
    fact(exactly(memory.microbatches), memory.microbatches === 1 ? 'microbatch per step' : 'microbatches per step'),
    fact(bytesText(most.total), `on the fullest rank, ${most.rank}`)];
  if (plan) facts.push(fact(plan.fits ? 'fits' : 'does not fit', `${bytesText(plan.room_bytes)} per rank of ${plan.cluster}`),
    fact(secondsText(plan.step_s), `per step; ${(100 * plan.mfu).toFixed(1)} % MFU`));
  at.replaceChildren(...facts);
  at.classList.toggle('too-large', plan !== null && !plan.fits);
}

function drawSaved(at, memory, rank) {
  const flops = rank.flops, replay = flops.replay ? `, ${flopsText(flops.replay)} of them recomputed` : '';
  const all = flops.forward + flops.replay + flops.backward_input + flops.backward_weight;
  const layer = memory.activations.find(block => /^h0/.test(block.block)) ?? memory.activations[0];
  at.textContent = (layer ? `Block ${layer.block} saves ${bytesText(layer.bytes)} of activations per microbatch. ` : '') +
                   `Rank ${rank.rank} computes ${flopsText(all)} in a step${replay}.`;
}

// ---- time ----
const PHASES = {
  products: 'matrix products', memory: 'ops bound by memory', replay: 'recomputed', tp: 'tensor parallel', cp: 'context parallel',
  ep: 'expert parallel', bubble: 'pipeline bubble', pp: 'pipeline messages', dp: 'gradient all-reduce', gather: 'gathered weights',
  optim: 'update', offload: 'offload',
};

function drawTime(at, plan) {
  const phases = Object.entries(plan.phases_s).filter(([, s]) => s > 0);
  const bar = element('div', {className: 'bar tall', role: 'img'}, ...phases.map(([name, s]) =>
    element('i', {className: 'phase-' + name, style: `width:${100 * s / plan.step_s}%`, title: `${PHASES[name]}: ${secondsText(s)}`})));
  bar.setAttribute('aria-label', phases.map(([name, s]) => `${PHASES[name]} ${secondsText(s)}`).join(', '));
  at.replaceChildren(element('p', {textContent: `A step on ${plan.ranks} × ${plan.cluster} takes ${secondsText(plan.step_s)}, ${Math.round(plan.tokens_per_s).toLocaleString('en')} tokens/s, by the planner's model.`}),
    bar, element('ul', {className: 'keys'}, ...phases.map(([name, s]) => element('li', {className: 'key'}, element('i', {className: 'phase-' + name}),
      `${PHASES[name]} `, element('small', {textContent: `${secondsText(s)}, ${(100 * s / plan.step_s).toFixed(1)} %`})))));
}

// ---- command lines ----
function drawCommands(at, words, nRanks, rank) {
  const quoted = words.map(word => /^[\w.,:=/+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  const line = quoted.join(' '), lines = [`build/trivium show memory ${line} --rank ${rank}`, `build/trivium plan ${line}`];
  if (nRanks) lines.push(`build/trivium launch -n ${nRanks} train ${line.replace(/--device cuda ?/, '')}`.trim());
  at.replaceChildren(...lines.map(text => {
    const button = element('button', {type: 'button', textContent: 'Copy'});
    button.addEventListener('click', () => copyText(text, button));
    return element('div', {className: 'command'}, element('code', {textContent: text}), button);
  }));
}

async function copyText(text, button) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; }
  catch { button.textContent = 'Select it by hand'; }
  setTimeout(() => { button.textContent = before; }, 1500);
}
