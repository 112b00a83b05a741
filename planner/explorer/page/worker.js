// The worker's side of session.js: runs the jobs that it is sent, one after another, and answers each as it is done.
'use strict';

let program, clusterFiles;

onmessage = ({data}) => {
  if (data.module) { program = data.module; clusterFiles = data.files; return; }
  for (const job of data.jobs) {
    const started = performance.now();
    const result = runCommand(program, job.args, {...clusterFiles, ...job.files});
    postMessage({list: data.list, name: job.name, args: job.args, ms: performance.now() - started, ...result});
  }
  postMessage({list: data.list, name: null});
};
