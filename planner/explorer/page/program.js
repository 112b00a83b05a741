// The tables that show program prints: of the model, and after each rewrite. Two beside each other, with what differs.
'use strict';

// -> [{name, lines}]; what follows the last table (what is saved, the schedule) is the last entry.
function readTables(text) {
  const tables = [];
  for (const part of text.split(/\n(?=after \S+, on rank|saved from forward|schedule)/)) {
    const name = part.match(/^after (\S+),/)?.[1] ?? (part.startsWith('the model:') ? 'model' : part.match(/^\w+/)[0]);
    const lines = part.split('\n').filter(line => line && !/^(after |the model:|axes:|H 2\/4)/.test(line));
    if (name === 'schedule' || name === 'saved') tables.push({name: name === 'saved' ? 'what is saved' : 'the schedule', lines, alone: true});
    else tables.push({name, lines});
  }
  return tables;
}

// A line is a number, which changes when a step is put in before it; what the step does; and its type: "fp32 (B 1/8@0, T 64)".
function readLine(line) {
  const [, number, does, type] = line.match(/^( *\d* *)(.*?)(  \w+ \([^)]*\))?$/);
  return {number, does: does.replace(/ +/g, ' ').trim(), line: line.slice(0, line.length - (type ?? '').length), type: type ?? ''};
}

// A step that the other table has not is marked; of one that has another type there, the type.
function marked(lines, others, className) {
  const known = new Map(others.map(readLine).map(other => [other.does, other.type])), made = element('pre', {tabIndex: 0});
  for (const {does, line, type} of lines.map(readLine)) {
    if (!known.has(does)) made.append(element('mark', {className: className + ' whole', textContent: line + type}), '\n');
    else if (known.get(does) !== type) made.append(line, element('mark', {className, textContent: type}), '\n');
    else made.append(line + type + '\n');
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
