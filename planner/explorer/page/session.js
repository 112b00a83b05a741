// Commands run in a worker, so that the page never freezes. A new list of jobs replaces one that is still running: that
// worker is ended, and another one takes over.
//
//   session.run([{name, args, files}], onResult)   onResult({name, code, out, err, written, ms}) for each, in order
//   session.ask(args)                              one command by itself: a promise of its result
'use strict';

class Session {
  constructor(module, files, source) {
    Object.assign(this, {module, files, source, list: 0, busy: false});
    this.start();
  }

  start() {
    if (this.worker) this.worker.terminate();
    const url = URL.createObjectURL(new Blob([this.source], {type: 'text/javascript'}));
    this.worker = new Worker(url);
    this.worker.postMessage({module: this.module, files: this.files});
    this.busy = false;
  }

  run(jobs, onResult) {
    if (this.busy) this.start();
    const list = ++this.list;
    this.busy = true;
    return new Promise(done => {
      this.worker.onmessage = ({data}) => {
        if (data.list !== list) return;
        if (data.name !== null) onResult(data);
        else { this.busy = false; done(); }
      };
      this.worker.postMessage({list, jobs});
    });
  }

  async ask(args, files) {
    let answer;
    await this.run([{name: 'ask', args, files}], result => { answer = result; });
    return answer;
  }
}

// What join.py has put into the page: packed, as text.
async function unpack(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}
