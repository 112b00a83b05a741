// C's library in a browser: the system calls (WASI) that the commands make, over files that are only in memory.
//
// runCommand(module, args, files) runs one command as a process of its own: a new instance, whose memory goes with it.
// files: {path: text} that it can read. Returns {code, out, err, written}: what it printed, and the files it wrote.
// A function that a browser cannot have (a kernel, MPI) traps when it is called: code is then -1, and err says so.
'use strict';

const WASI_OK = 0, WASI_BADF = 8, WASI_NOENT = 44, WASI_NOSYS = 52;
const DIRECTORY = 3, REGULAR = 4;
const ROOT = 3;                                            // the one directory that is open at the start

class Exit { constructor(code) { this.code = code; } }

function runCommand(module, args, files) {
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const written = {}, printed = [[], [], []], open = new Map([[ROOT, {path: ''}]]);
  let memory, nextDescriptor = ROOT + 1;

  const view = () => new DataView(memory.buffer);
  const bytesAt = (at, n) => new Uint8Array(memory.buffer, at, n);
  const textAt = (at, n) => decoder.decode(bytesAt(at, n).slice());
  const setSize = (at, n) => view().setUint32(at, n, true);
  const setLong = (at, n) => view().setBigUint64(at, BigInt(n), true);
  const words = ['trivium', ...args].map(word => encoder.encode(word + '\0'));

  // The pieces of memory that a read or a write goes to, one after another.
  function* pieces(at, n) {
    for (let i = 0; i < n; i++) yield [view().getUint32(at + 8 * i, true), view().getUint32(at + 8 * i + 4, true)];
  }
  const isDirectory = path => Object.keys(files).some(name => name.startsWith(path === '' ? '' : path + '/'));
  const clean = path => path.split('/').filter(part => part && part !== '.').join('/');
  function namesIn(path) {
    const inside = Object.keys(files).filter(name => name.startsWith(path + '/')).map(name => name.slice(path.length + 1).split('/')[0]);
    return [...new Set(inside)];
  }

  const calls = {
    args_sizes_get(count, size) {
      setSize(count, words.length);
      setSize(size, words.reduce((sum, word) => sum + word.length, 0));
      return WASI_OK;
    },
    args_get(pointers, at) {
      words.forEach((word, i) => { setSize(pointers + 4 * i, at); bytesAt(at, word.length).set(word); at += word.length; });
      return WASI_OK;
    },
    environ_sizes_get(count, size) { setSize(count, 0); setSize(size, 0); return WASI_OK; },
    environ_get: () => WASI_OK,
    clock_time_get(_clock, _precision, at) { setLong(at, Math.round(performance.now() * 1e6)); return WASI_OK; },
    proc_exit(code) { throw new Exit(code); },

    // ---- files ----
    fd_prestat_get(fd, at) {
      if (fd !== ROOT) return WASI_BADF;
      setSize(at, 0);
      setSize(at + 4, 1);
      return WASI_OK;
    },
    fd_prestat_dir_name(_fd, at) { bytesAt(at, 1)[0] = 47; return WASI_OK; },         // "/"
    path_open(_fd, _flags, at, length, create, _rights, _inheriting, _fdflags, result) {
      const path = clean(textAt(at, length)), mayCreate = (create & 1) !== 0;
      if (!(path in files) && !mayCreate && !isDirectory(path)) return WASI_NOENT;
      const file = {path, at: 0, text: encoder.encode(files[path] ?? ''), parts: mayCreate ? [] : null};
      open.set(nextDescriptor, file);
      setSize(result, nextDescriptor++);
      return WASI_OK;
    },
    path_filestat_get(_fd, _flags, at, length, result) {
      const path = clean(textAt(at, length));
      if (!(path in files) && !isDirectory(path)) return WASI_NOENT;
      bytesAt(result, 64).fill(0);
      bytesAt(result + 16, 1)[0] = path in files ? REGULAR : DIRECTORY;
      setLong(result + 32, encoder.encode(files[path] ?? '').length);
      return WASI_OK;
    },
    fd_filestat_get(fd, result) {
      bytesAt(result, 64).fill(0);
      bytesAt(result + 16, 1)[0] = open.has(fd) && !(open.get(fd).path in files) ? DIRECTORY : REGULAR;
      setLong(result + 32, open.get(fd)?.text?.length ?? 0);
      return WASI_OK;
    },
    fd_fdstat_get(fd, result) {
      bytesAt(result, 24).fill(0);
      bytesAt(result, 1)[0] = fd < ROOT ? 2 : open.has(fd) && isDirectory(open.get(fd).path) ? DIRECTORY : REGULAR;
      bytesAt(result + 8, 16).fill(255);                                                // every right
      return WASI_OK;
    },
    fd_fdstat_set_flags: () => WASI_OK,
    fd_read(fd, at, n, result) {
      const file = open.get(fd);
      if (!file) return WASI_BADF;
      let sum = 0;
      for (const [to, size] of pieces(at, n)) {
        const part = file.text.subarray(file.at, file.at + size);
        bytesAt(to, part.length).set(part);
        file.at += part.length;
        sum += part.length;
      }
      setSize(result, sum);
      return WASI_OK;
    },
    fd_write(fd, at, n, result) {
      const parts = fd < ROOT ? printed[fd] : open.get(fd) && open.get(fd).parts;
      if (!parts) return WASI_BADF;
      let sum = 0;
      for (const [from, size] of pieces(at, n)) {
        parts.push(bytesAt(from, size).slice());
        sum += size;
      }
      setSize(result, sum);
      return WASI_OK;
    },
    fd_seek(fd, offset, from, result) {
      const file = open.get(fd);
      if (!file || !file.text) return 70;                                               // a pipe
      file.at = Number(offset) + (from === 0 ? 0 : from === 1 ? file.at : file.text.length);
      setLong(result, file.at);
      return WASI_OK;
    },
    fd_close(fd) {
      const file = open.get(fd);
      if (file && file.parts) written[file.path] = text(file.parts);
      open.delete(fd);
      return WASI_OK;
    },
    fd_readdir(fd, at, size, cookie, result) {
      let used = 0;
      const names = namesIn(open.get(fd).path);
      for (let i = Number(cookie); i < names.length && used < size; i++) {
        const name = encoder.encode(names[i]), entry = new Uint8Array(24 + name.length), head = new DataView(entry.buffer);
        head.setBigUint64(0, BigInt(i + 1), true);
        head.setUint32(16, name.length, true);
        head.setUint8(20, REGULAR);
        entry.set(name, 24);
        bytesAt(at + used, Math.min(entry.length, size - used)).set(entry.subarray(0, size - used));
        used += Math.min(entry.length, size - used);
      }
      setSize(result, used);
      return WASI_OK;
    },
  };

  function text(parts) {
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) { all.set(part, at); at += part.length; }
    return decoder.decode(all);
  }

  const imports = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module))
    (imports[from] ??= {})[name] = calls[name] ?? (() => WASI_NOSYS);

  let code = 0, failure = '';
  try {
    const instance = new WebAssembly.Instance(module, imports);
    memory = instance.exports.memory;
    instance.exports._start();
  } catch (stop) {
    if (stop instanceof Exit) code = stop.code;
    else { code = -1; failure = `E_INTERNAL the page's program stopped: ${stop.message}; please report it\n`; }
  }
  return {code, out: text(printed[1]), err: text(printed[2]) + failure, written};
}
