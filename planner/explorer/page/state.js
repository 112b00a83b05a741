// What is set: option names and values, as on the command line. The same three ways everywhere: the page's fragment
// (#model=gpt3-175b&tp=8), the controls, and the words of a command.
//
// Beside the options of a run there are three words of the page's own: rank (whose memory to draw), ask (a question that
// hides the results until the reader has an answer) and puzzle.
'use strict';

const OWN_WORDS = ['rank', 'ask', 'puzzle'];
const DEFAULTS = {cluster: 'dgx-a100'};

const state = {
  values: {},

  read() {
    this.values = {...DEFAULTS, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1)))};
  },
  write() {
    const kept = Object.entries(this.values).filter(([name, value]) => value !== '' && value !== DEFAULTS[name]);
    const fragment = new URLSearchParams(kept).toString();
    history.replaceState(null, '', fragment ? '#' + fragment : location.pathname + location.search);
  },
  get(name) { return this.values[name] ?? ''; },
  set(name, value) {
    if (value === '' && !(name in DEFAULTS)) delete this.values[name];
    else this.values[name] = value;
    this.write();
  },

  // A cluster whose file says `cores` is made of CPU cores; the others' ranks are GPUs.
  device(clusterFiles) {
    if (this.get('device')) return this.get('device');
    return /^cores *=/m.test(clusterFiles[`configs/clusters/${this.get('cluster')}.ini`] ?? '') ? 'cpu' : 'cuda';
  },
  // The words that show, plan and train share.
  words(clusterFiles) {
    const given = Object.entries(this.values).filter(([name]) => !OWN_WORDS.includes(name) && name !== 'device');
    return ['--device', this.device(clusterFiles), ...given.flatMap(([name, value]) => ['--' + name, value])];
  },
};
