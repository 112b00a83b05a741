// The controls, made of the project's own table of options (show options --json): its choices, meanings and units.
'use strict';

// What has a control, by heading. All other options of train can be typed into "more options".
const CONTROLS = {
  'Model and cluster': ['model', 'cluster'],
  'Sizes of the model': ['layers', 'hidden', 'heads', 'seq', 'experts', 'attention', 'dropout'],
  'Batch': ['global-batch', 'micro-batch'],
  'Layout': ['dp', 'tp', 'sp', 'pp', 'cp', 'cp-by', 'ep'],
  'Pipeline': ['schedule', 'chunks'],
  'Memory': ['zero', 'recompute', 'offload', 'offload-to', 'precision', 'grad-fp32'],
};
const FOLDED = 'Sizes of the model';                       // opened by a click, or by a link that sets one of them
const HAS_A_FACTOR = ['dp', 'tp', 'pp', 'cp', 'ep', 'global-batch', 'micro-batch', 'chunks', 'seq', 'layers', 'hidden',
  'heads', 'experts'];
const optionsByName = table => Object.fromEntries(table.map(option => [option.name, option]));

const controls = {
  table: {},                                              // option's name -> its line of show options

  // names: {option: [values]} where the table does not say them
  build(form, table, names, onChange) {
    this.table = optionsByName(table);
    this.onChange = onChange;
    form.append(this.buttons());
    let group;
    for (const [heading, options] of Object.entries(CONTROLS)) {
      const lines = options.filter(name => this.table[name]).map(name => this.line(name, names[name]));
      if (heading === FOLDED) {
        this.folded = element('details', {}, element('summary', {textContent: heading}), ...lines);
        group.append(this.folded, this.more(), paste.form(() => this.onChange(null)));
      } else {
        group = element('fieldset', {}, element('legend', {textContent: heading}), ...lines);
        form.append(group);
      }
    }
    form.addEventListener('submit', event => event.preventDefault());
  },

  line(name, values) {
    const label = document.createElement('label'), option = this.table[name];
    const choices = values ?? (option.choices.includes('|') ? option.choices.split('|').filter(choice => !/:(N|PATH)$/.test(choice)) : null);
    const input = choices ? this.choice(choices) : this.number();
    label.innerHTML = `<span>${name}</span>`;
    label.title = `--${name}: ${option.meaning}${option.unit ? ` (${option.unit})` : ''}`;
    input.id = 'option-' + name;
    input.addEventListener('change', () => this.onChange(name, input.value));
    label.append(input);
    if (HAS_A_FACTOR.includes(name)) label.append(this.factor(name, 0.5, '÷2'), this.factor(name, 2, '×2'));
    return label;
  },
  choice(values) {
    const select = document.createElement('select');
    for (const value of values) select.add(new Option(value));
    return select;
  },
  number() {
    const input = document.createElement('input');
    Object.assign(input, {type: 'text', inputMode: 'numeric', autocomplete: 'off', spellcheck: false});
    return input;
  },
  factor(name, by, text) {
    const button = document.createElement('button');
    Object.assign(button, {type: 'button', textContent: text, tabIndex: -1});
    button.setAttribute('aria-label', `${name} ${text}`);
    button.addEventListener('click', event => {
      const input = document.getElementById('option-' + name), value = Math.max(1, Math.round((Number(input.value) || 1) * by));
      event.preventDefault();
      this.onChange(name, String(value));
    });
    return button;
  },
  more() {
    const input = element('input', {id: 'more', type: 'text', placeholder: '--grad-codec int8', autocomplete: 'off'});
    input.spellcheck = false;
    input.addEventListener('change', () => this.readMore(input.value));
    const name = element('span', {textContent: 'More options'});
    return element('label', {className: 'wide', title: 'any option of train'}, name, input);
  },
  readMore(text) {
    for (const name of this.typed()) state.set(name, '');
    const words = text.trim().split(/\s+/).filter(word => word);
    for (let i = 0; i < words.length; i++) {
      const [name, value] = words[i].replace(/^--/, '').split('=');
      const next = value ?? (words[i + 1] && !words[i + 1].startsWith('--') ? words[++i] : 'on');
      state.set(name, next);
    }
    this.onChange(null);
  },
  // Options that are set and have no control of their own.
  typed() {
    const shown = Object.values(CONTROLS).flat();
    return Object.keys(state.values).filter(name => !shown.includes(name) && !OWN_WORDS.includes(name));
  },
  buttons() {
    const group = document.createElement('p');
    group.className = 'buttons';
    const button = (id, textContent, title = '') => element('button', {type: 'button', id, textContent, title});
    group.append(button('pin', 'Pin as A', 'keep this layout, and compare the next ones with it'),
      button('copy-link', 'Copy a link'), button('reset', 'Start again'));
    return group;
  },

  // Values as they are set, and below them what a run would use (table: show options of this layout).
  show(table) {
    this.table = optionsByName(table);
    for (const name of Object.values(CONTROLS).flat()) {
      const input = document.getElementById('option-' + name), set = state.get(name);
      if (!input) continue;
      const value = set || (this.table[name] ? this.table[name].value : '');
      if (input.tagName === 'SELECT' && ![...input.options].some(option => option.value === value)) input.add(new Option(value));
      input.value = value;
      input.classList.toggle('set', set !== '');
    }
    if (CONTROLS[FOLDED].some(name => state.get(name))) this.folded.open = true;
    document.getElementById('more').value = this.typed().map(name => `--${name} ${state.get(name)}`).join(' ');
  },
};
