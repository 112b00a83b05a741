// What is set: option names and values, as on the command line. The same three ways everywhere: the page's fragment
// (#model=gpt3-175b&tp=8), the controls, and the words of a command.
//
// Five words are the page's own: rank (whose memory to draw), ask (a question that hides the results until the reader
// has an answer), answer (which number the question is about: predict.js), pin (the layout A, as a fragment: compare.js)
// and puzzle (which is then alone on the page).
'use strict';

const OWN_WORDS = ['rank', 'ask', 'answer', 'pin', 'puzzle'];
const DEFAULTS = {cluster: 'dgx-a100'};

const state = {
  values: {},

  read() { this.values = this.of(location.hash.slice(1)); },
  of(fragment) { return {...DEFAULTS, ...Object.fromEntries(new URLSearchParams(fragment))}; },
  // The layout alone, without the page's own words.
  layout() {
    return this.fragment(Object.entries(this.values).filter(([name]) => !OWN_WORDS.includes(name))) || 'model=tiny';
  },
  fragment(entries) {
    return new URLSearchParams(entries.filter(([name, value]) => value !== '' && value !== DEFAULTS[name])).toString();
  },
  write() {
    const fragment = this.fragment(Object.entries(this.values));
    history.replaceState(null, '', fragment ? '#' + fragment : location.pathname + location.search);
  },
  get(name) { return this.values[name] ?? ''; },
  set(name, value) {
    if (value === '' && !(name in DEFAULTS)) delete this.values[name];
    else this.values[name] = value;
    this.write();
  },

  // A cluster whose file says `cores` is made of CPU cores; the others' ranks are GPUs.
  device(clusterFiles, values) {
    if (values.device) return values.device;
    return /^cores *=/m.test(clusterFiles[`configs/clusters/${values.cluster}.ini`] ?? '') ? 'cpu' : 'cuda';
  },
  // The words that show, plan and train share.
  words(clusterFiles, values = this.values) {
    const given = Object.entries(values).filter(([name]) => !OWN_WORDS.includes(name) && name !== 'device');
    return ['--device', this.device(clusterFiles, values), ...given.flatMap(([name, value]) => ['--' + name, value])];
  },
};
