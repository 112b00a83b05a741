// The tables that show program prints: of the model, and after each rewrite. Two beside each other, with what differs.
'use strict';

// -> [{name, lines}]; what follows the last table (what is saved, the schedule) is the last entry.
function readTables(text) {
  const tables = [];
  for (const part of text.split(/\n(?=after \S+, on rank|saved from forward|schedule)/)) {
    const name = part.match(/^after (\S+),/)?.[1] ?? (part.startsWith('the model:') ? 'model' : part.match(/^\S+/)[0]);
    const lines = part.split('\n').filter(line => line && !/^(after |the model:|axes:|H 2\/4)/.test(line));
    if (name === 'schedule' || name === 'saved') tables.push({name: name === 'saved' ? 'what is saved' : 'the schedule', lines, alone: true});
    else tables.push({name, lines});
  }
  return tables;
}

// A step's number changes when one is put in before it; what the step does not.
const withoutNumber = line => line.replace(/^ *\d+ {2}/, '');

function marked(lines, others, className) {
  const known = new Set(others.map(withoutNumber)), made = element('pre', {tabIndex: 0});
  for (const line of lines) {
    if (known.has(withoutNumber(line))) made.append(line + '\n');
    else made.append(element('mark', {className, textContent: line}), '\n');
  }
  return made;
}

function pane(title, content) { return element('div', {className: 'pane'}, element('h3', {textContent: title}), content); }

function drawProgram(buttons, at, text) {
  const tables = readTables(text);
  function show(index) {
    const now = tables[index], before = tables[index - 1];
    [...buttons.children].forEach((button, i) => button.setAttribute('aria-pressed', i === index));
    if (now.alone || !before) at.replaceChildren(pane(now.name, element('pre', {tabIndex: 0, textContent: now.lines.join('\n')})));
    else at.replaceChildren(pane(`before ${now.name}`, marked(before.lines, now.lines, 'gone')), pane(`after ${now.name}`, marked(now.lines, before.lines, 'new')));
  }
  buttons.replaceChildren(...tables.map((made, index) => {
    const button = element('button', {type: 'button', textContent: made.name});
    button.addEventListener('click', () => show(index));
    return button;
  }));
  show(Math.min(1, tables.length - 1));
}
