// A file of another program, pasted: the program reads it as --from does (lib/stacks), and says what becomes of each
// key. The options that it makes of the file are then set in the page, in place of those of the file before. Sizes in
// the file replace the model and its sizes, too; cluster and layout stay where the file does not say them. A dp that is
// set counts as typed: some files leave it to their launcher, and their batch with it.
'use strict';

const PASTED = 'pasted';                                    // the file's name, for the program
const SIZES_OF_A_MODEL = ['model', 'arch', ...CONTROLS[FOLDED]];

const paste = {
  set: [],                                                  // options of the file before

  // onOptions(): they have changed
  form(onOptions) {
    this.onOptions = onOptions;
    this.text = element('textarea', {id: 'paste-text', rows: 6, spellcheck: false,
      placeholder: 'config.json of Hugging Face, a script with Megatron-LM’s arguments, ' +
        'ds_config.json, torchtitan’s TOML'});
    this.text.setAttribute('aria-label', 'the file');
    const read = element('button', {type: 'button', id: 'paste-read', textContent: 'Read it'});
    read.addEventListener('click', () => this.read(this.text.value, []));
    return element('details', {id: 'paste'}, element('summary', {textContent: 'Paste a file of another program'}),
      this.text, read);
  },

  async read(text, ignored) {
    const leave = ignored.length ? ['--ignore', ignored.join()] : [];
    const typed = this.set.includes('dp') || !state.get('dp') ? [] : ['--dp', state.get('dp')];
    const words = ['--device', state.device(clusterFiles, state.values), '--cluster', state.get('cluster'),
      '--from', PASTED, ...typed];
    const {code, err} = await aside.ask(['show', 'options', ...words, ...leave, '--json'], {[PASTED]: text});
    if (code === 0) this.take(this.options(err));
    this.show(err, code === 0 ? [] : this.refused(err), name => this.read(text, [...ignored, name]));
    if (code === 0) await this.onOptions();
  },

  // {option: value} of the table's line "options: --layers 2 --tp 4"
  options(table) {
    const line = table.match(/^ {2}options: (--.*)$/m)?.[1] ?? '';
    return Object.fromEntries(line.split(/(?:^| )--/).filter(word => word).map(word => {
      const blank = word.indexOf(' ');
      return [word.slice(0, blank), word.slice(blank + 1)];
    }));
  },
  // The keys whose lines say that they cannot be said. A key is one word.
  refused(table) {
    const rows = [...table.matchAll(/^ {2}(\S{32,}|\S+ ) .* cannot be said: /gm)];
    return [...new Set(rows.map(row => row[1].trim()))];
  },
  take(options) {
    const sizes = 'layers' in options ? SIZES_OF_A_MODEL : [];
    for (const name of [...this.set, ...sizes]) state.set(name, '');
    for (const [name, value] of Object.entries(options)) state.set(name, value);
    this.set = Object.keys(options);
  },

  show(table, refused, leaveOut) {
    const place = at('keys');
    place.hidden = false;
    place.querySelector('pre').textContent = table;
    place.querySelector('p.buttons').replaceChildren(...refused.map(name => {
      const button = element('button', {type: 'button', textContent: `Leave out ${name}`});
      button.addEventListener('click', () => leaveOut(name));
      return button;
    }));
  },
};
