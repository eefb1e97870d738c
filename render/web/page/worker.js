// The worker of the page that needs no install: runs the readers on the files that the user
// chose. The builder puts Go's wasm_exec.js before this script, and the page starts it from
// its own text, so it has the page's Content-Security-Policy: no connections.

// memoryFiles are the temporary files of the readers. They are in memory, but outside that of
// the program. Only the functions of Node's fs that a temporary file needs are there.
class MemoryFiles {
  constructor(missing) {
    for (const name of Object.keys(missing)) this[name] ??= missing[name];
    this.files = new Map();
    this.next = 3; // after the standard streams
  }

  open(path, flags, mode, done) {
    this.files.set(this.next, {parts: [], size: 0, at: 0});
    done(null, this.next++);
  }

  close(fd, done) {
    this.files.delete(fd);
    done(null);
  }

  unlink(path, done) { done(null); } // the readers do so while they have it open

  write(fd, data, offset, length, position, done) {
    const file = this.files.get(fd), bytes = data.subarray(offset, offset + length);
    if (!file) done(null, this.writeSync(fd, bytes));
    else done(null, this.move(file, length, position, (part, from, n, at) => part.set(bytes.subarray(at, at + n), from)));
  }

  read(fd, data, offset, length, position, done) {
    const file = this.files.get(fd), at = position ?? file.at;
    done(null, this.move(file, Math.max(0, Math.min(length, file.size - at)), position, (part, from, n, done) => data.set(part.subarray(from, from + n), offset + done)));
  }

  // move calls copy(part, from, n, done) for the parts of a range of a file, and returns its
  // length.
  move(file, length, position, copy) {
    const partSize = 1 << 20, start = position ?? file.at;
    for (let done = 0; done < length;) {
      const at = start + done, i = Math.floor(at / partSize), from = at % partSize;
      const n = Math.min(partSize - from, length - done);
      copy(file.parts[i] ??= new Uint8Array(partSize), from, n, done);
      done += n;
    }
    if (position === null) file.at += length;
    file.size = Math.max(file.size, start + length);
    return length;
  }
}

globalThis.fs = new MemoryFiles(globalThis.fs);

onmessage = async ({data}) => {
  if (data.address !== undefined) postMessage({answer: data.number, ...globalThis.answer(data.address)});
  else if (data.files) globalThis.choose(data.files);
  else await run(data.program);
};

// run runs the program until it ends.
async function run(program) {
  let told = '';
  fs.writeSync = (fd, bytes) => { told = (told + new TextDecoder().decode(bytes)).slice(0, 4000); return bytes.length; }; // of a panic
  try {
    const go = new Go();
    go.exit = () => {};
    const ended = go.run(new WebAssembly.Instance(program, go.importObject)); // synchronous: files come next
    await ended;
  } catch (error) {
    told ||= String(error);
  }
  // The program ends only after an error. If it ended otherwise, it told why.
  postMessage({error: told.split('\n')[0], large: /out of memory|RangeError|cannot allocate/.test(told), ended: true});
}
