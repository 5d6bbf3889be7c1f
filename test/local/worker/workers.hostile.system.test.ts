/**
 * Workers whose code does to its process and its pipes what it can. The item that does it may fail; the next one is
 * answered, with its own result, and the service goes on.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { SDK } from '../../lib/workers/child.ts';
import { until } from '../../support/until.ts';
import { type Envelope, encodeJson, type Service, startService } from './http/service.ts';

/** Frames are written as the loop writes them, to its descriptor. An item names a method; any other is its own result. */
const WORKER = `import { spawn } from 'node:child_process';
import { closeSync, writeSync } from 'node:fs';
import { WKRHardWorker } from './SDK';

const OUT = 4;
function write(bytes) {
  for (let at = 0; at < bytes.length; ) {
    try { at += writeSync(OUT, bytes, at); } catch (error) { if (error.code !== 'EAGAIN') throw error; }
  }
}
function frame(header) {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text]);
}
const result = (id, value) => frame({ type: 'result', id, outcomes: [{ value }], statistics: {} });
const GARBAGE = Buffer.alloc(64, 0xff);

export class Worker extends WKRHardWorker {
  runs = 0;
  getModel() {}
  predict(_model, items) {
    this.runs++;
    const one = (item) => (typeof this[item] === 'function' ? this[item](item) : [item, process.pid]);
    return Promise.all(items.map(one));
  }
  garbage(item) { write(GARBAGE); return item; }
  answerThenGarbage(item) { write(Buffer.concat([result(this.runs, item), GARBAGE])); return item; }
  twice(item) { write(result(this.runs, item)); return item; }
  foreign(item) { write(result(this.runs + 100, 'foreign')); return item; }
  later(item) { setTimeout(() => write(result(this.runs + 1, 'foreign')), 100); return item; }
  again(item) { setTimeout(() => write(result(1, item)), 200); return item; }
  wait(item) { return new Promise((resolve) => setTimeout(() => resolve([item, process.pid]), 1_000)); }
  other(item) { write(frame({ type: 'ready', retryAlone: true, imageAs: 'bytes' })); return item; }
  hugeHeader(item) { write(Buffer.from([0x10, 0, 0, 0])); return item; }
  hugeBlocks(item) { write(frame({ type: 'result', id: this.runs, blocks: [300 * 2 ** 20] })); return item; }
  hugeValue() { return new Uint8Array(300 * 2 ** 20); }
  unfinished(item) { write(result(this.runs, item).subarray(0, 20)); return item; }
  closed(item) { setTimeout(() => closeSync(OUT), 50); return item; }
  leaves() { process.exit(0); }
  aborts() { process.abort(); }
  forks() {
    spawn('sleep', ['30'], { stdio: ['ignore', 'inherit', 'inherit', OUT, OUT], detached: true }).unref();
    process.exit(0);
  }
  offModel() { if (this.stays) return new Promise(() => setInterval(() => {}, 1000)); }
  stay(item) { this.stays = true; return item; }
}
`.replace('./SDK', SDK);

async function serve(t: TestContext): Promise<Service> {
  const service = await startService({ language: 'typescript', source: WORKER, batchSize: 4 });
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= service.close());
  t.after(close);
  return { ...service, close };
}

const outcomeOf = ({ error_code, data, error_message }: Envelope) =>
  error_code === 0 ? data : error_message;

/** The process that answers an item which does nothing. */
async function pidOf(service: Service, item: string): Promise<number> {
  const { error_code, data, error_message } = await encodeJson(service, item);
  assert.equal(error_code, 0, error_message);
  const [answered, pid] = data as [string, number];
  assert.equal(answered, item);
  return pid;
}

for (const [method, expected] of [
  ['garbage', /malformed frame/],
  ['answerThenGarbage', /^answerThenGarbage$/],
  ['twice', /^twice$/],
  ['foreign', /broke the protocol/],
  ['other', /broke the protocol/],
  ['hugeHeader', /malformed frame: a header of 268435456 bytes is over/],
  ['hugeBlocks', /malformed frame: the blocks are over/],
  ['unfinished', /malformed frame/],
  ['leaves', /exit code 0/],
  ['aborts', /SIGABRT/],
  ['forks', /exit code 0/],
] as const) {
  test(`${method}: the next items get their own results from another process`, async (t) => {
    const service = await serve(t);
    const before = await pidOf(service, 'before');
    assert.match(String(outcomeOf(await encodeJson(service, method))), expected);
    for (const item of ['a', 'b']) assert.notEqual(await pidOf(service, item), before);
  });
}

for (const method of ['later', 'closed']) {
  test(`${method}: what a process does between two batches fails neither`, async (t) => {
    const service = await serve(t);
    const before = await pidOf(service, 'before');
    assert.equal(outcomeOf(await encodeJson(service, method)), method);
    await until(() => !existsSync(`/proc/${before}`), 20_000);
    for (const item of ['a', 'b']) assert.notEqual(await pidOf(service, item), before);
  });
}

test('again: an answer that comes again while the next batch runs fails no item of that', async (t) => {
  const service = await serve(t);
  const before = await pidOf(service, 'before');
  assert.equal(outcomeOf(await encodeJson(service, 'again')), 'again');
  assert.notEqual(await pidOf(service, 'wait'), before);
});

test('hugeValue: a result of 300 MiB fails its item, and nothing else', async (t) => {
  const service = await serve(t);
  const { error_code, code, error_message } = await encodeJson(service, 'hugeValue');
  assert.deepEqual([error_code, code], [422, 'model_failed']);
  assert.match(error_message, /268435456 bytes/);
  await pidOf(service, 'a');
});

test('stay: an off_model that does not end is ended, and the service stops', async (t) => {
  const service = await serve(t);
  const pid = await pidOf(service, 'a');
  assert.equal(outcomeOf(await encodeJson(service, 'stay')), 'stay');
  const startedMs = performance.now();
  await service.close();
  assert.ok(!existsSync(`/proc/${pid}`));
  // After 5 s. After 30 s a pool that closes would end what is left.
  assert.ok(performance.now() - startedMs < 25_000);
});
