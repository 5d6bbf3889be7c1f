/** Simulated processes, timers and the SDK's retries against real ones: the same code, or the same sequence of answers. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import diagnostics from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Inputs } from '../../../lib/contract/values.ts';
import { IsolatedRunner } from '../../../lib/inference/isolated-runner.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { getText } from '../../../lib/s3/objects.ts';
import { lineModel, modelFolder } from '../../support/faults/model.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { awsError } from '../models/aws.ts';
import { openLab } from './lab.ts';

type Runner = Pick<IsolatedRunner, 'run' | 'close'>;

const SETTINGS = {
  threads: 1,
  batchSize: 4,
  inputAlreadyBatched: false,
  image: {},
  batching: 'never',
} as const;

/** Returns the outcomes that a caller of the isolated process sees. @param kill ends the process @param wait for ms */
async function lifeOf(
  runner: Runner,
  record: Inputs,
  kill: () => void,
  wait: (ms: number) => Promise<unknown>,
): Promise<unknown[]> {
  const shown = async (work: Promise<readonly { readonly ok: boolean }[]>) =>
    work.then(
      (outcomes) => outcomes.map(({ ok }) => ok),
      (error: unknown) =>
        `${Reflect.get(Object(error), 'code')}: ${String(Reflect.get(Object(error), 'message')).replace(/within \d+ ms/, 'within … ms')}`,
    );
  const said: unknown[] = [await shown(runner.run([], 1)), await shown(runner.run([], 60_000))];
  said.push(await shown(runner.run([record], 60_000)), await shown(runner.run([record, record], 60_000)));
  kill();
  await wait(500);
  said.push(await shown(runner.run([record], 60_000)));
  await runner.close();
  said.push(await shown(runner.run([record], 60_000)));
  await runner.close();
  return said;
}

const tensor = (dtype: 'float32' | 'int64', data: Float32Array | BigInt64Array) =>
  Object({ kind: 'tensor', tensor: { dtype, shape: [data.length], data } });

test('the isolated process lives, is killed and starts again as a real one', async (t) => {
  const folder = await modelFolder(await temporaryFolder(t), lineModel());
  const children: { kill(signal: string): boolean }[] = [];
  const onChild = (message: unknown) => void children.push(Reflect.get(Object(message), 'process'));
  diagnostics.subscribe('child_process', onChild);
  t.after(() => diagnostics.unsubscribe('child_process', onChild));
  const real = new IsolatedRunner({ file: `${folder}/model.onnx`, version: 'v', settings: SETTINGS });
  const record = new Map([
    ['x', tensor('float32', Float32Array.of(1))],
    ['k', tensor('int64', BigInt64Array.of(1n))],
  ]);
  const killReal = () => void children.at(-1)?.kill('SIGKILL');
  const seen = await lifeOf(real, record, killReal, delay);

  const lab = await openLab();
  const { IsolatedRunner: Simulated }: { IsolatedRunner: typeof IsolatedRunner } = Object(lab.program);
  const simulated = new Simulated({ file: '/model/model.onnx', version: 'v', settings: SETTINGS });
  const number = new Map([['x', tensor('float32', Float32Array.of(1, 0))]]);
  const kill = () => {
    for (const child of lab.process.children) child.end('SIGKILL');
  };
  const wait = (ms: number) => new Promise((resolve) => lab.process.clock.setTimeout(resolve, ms));
  assert.deepEqual(await lab.run(() => lifeOf(simulated, number, kill, wait)), seen);
  assert.deepEqual(seen, [
    'timeout: the process of the model was not ready within … ms',
    [],
    [true],
    [true, true],
    [true],
    [true],
  ]);
});

test('a crash in a run is reported as that of a real process', async () => {
  const lab = await openLab();
  const { IsolatedRunner: Simulated }: { IsolatedRunner: typeof IsolatedRunner } = Object(lab.program);
  const simulated = new Simulated({ file: '/model/model.onnx', version: 'v', settings: SETTINGS });
  const crashes = new Map([['x', tensor('float32', Float32Array.of(1, 2))]]);
  const endless = new Map([['x', tensor('float32', Float32Array.of(1, 3))]]);
  const codes = await lab.run(async () => {
    const failure = (error: unknown) =>
      String(Reflect.get(Object(error), 'message')).replace(/\d+ ms/, '… ms');
    return [
      await simulated.run([crashes], 60_000).catch(failure),
      await simulated.run([endless], 5_000).catch(failure),
    ];
  });
  // The texts that test/lib/inference sees of real processes.
  assert.deepEqual(codes, [
    'the model ended its process (SIGSEGV) on this record',
    'the model did not end within … ms on this record',
  ]);
});

/** A program that says in which order its timers fire, and whether that is after the stop. */
const TIMERS = `
const startedAt = Date.now();
const say = (what) => console.log(what, Date.now() - startedAt >= 1900 ? 'after' : 'before');
setTimeout(() => say('short'), 400);
setTimeout(() => { say('long'); clearInterval(every); }, 2800);
let count = 0;
const every = setInterval(() => { if (++count <= 2) say('every'); }, 1200);
`;

/** Ms after which the process is stopped, and continued. */
const STOPPED = { fromMs: 200, toMs: 2_000 };

test('timers of a process that was stopped fire as those of a real one after SIGSTOP', async () => {
  const child = spawn(process.execPath, [
    '-e',
    `process.stdin.once('data', () => {${TIMERS}}); console.log('ready');`,
  ]);
  let output = '';
  child.stdout.on('data', (bytes) => (output += bytes));
  await once(child.stdout, 'data');
  child.stdin.end('go');
  await delay(STOPPED.fromMs);
  child.kill('SIGSTOP');
  await delay(STOPPED.toMs - STOPPED.fromMs);
  child.kill('SIGCONT');
  await once(child, 'exit');
  const real = output.split('\n').filter((line) => line !== '' && line !== 'ready');

  const { scheduler, process: simulated } = await openLab();
  const seen: string[] = [];
  const { clock } = simulated;
  const startedAt = scheduler.nowMs;
  const say = (what: string) =>
    seen.push(`${what} ${scheduler.nowMs - startedAt >= 1_900 ? 'after' : 'before'}`);
  simulated.after(0, () => {
    clock.setTimeout(() => say('short'), 400);
    clock.setTimeout(() => {
      say('long');
      clock.clear(every);
    }, 2_800);
    let count = 0;
    const every = clock.setInterval(() => {
      if (++count <= 2) say('every');
    }, 1_200);
  });
  scheduler.after(STOPPED.fromMs, undefined, () => simulated.stop());
  scheduler.after(STOPPED.toMs, undefined, () => simulated.continue());
  await scheduler.run(startedAt + 6_000);
  assert.deepEqual(seen, real);
});

/** Answers of S3 in their order, the last one again and again. */
const ANSWERS: readonly (readonly number[])[] = [
  [503, 503, 206],
  [503, 503, 503, 503, 503],
  [404],
  [500, 206],
  [403],
];

async function askReal(
  t: TestContext,
  statuses: readonly number[],
): Promise<readonly [requests: number, said: string]> {
  let requests = 0;
  const server = createServer((_, response) => {
    const status = statuses[Math.min(requests++, statuses.length - 1)] ?? 500;
    const code = status === 404 ? 'NoSuchKey' : status === 403 ? 'AccessDenied' : 'ServiceUnavailable';
    response.writeHead(status, {
      etag: '"e"',
      'content-type': status < 300 ? 'text/plain' : 'application/xml',
    });
    response.end(status < 300 ? 'text' : `<Error><Code>${code}</Code><Message>m</Message></Error>`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const credentials = { accessKeyId: 'id', secretAccessKey: 'key' };
  const s3 = openS3({ endpoint: `http://127.0.0.1:${port}`, region: 'eu-west-1', credentials });
  t.after(() => s3.destroy());
  const said = await getText(s3, { bucket: 'bucket', key: 'key' }).then(String, (error: Error) => error.name);
  return [requests, said];
}

async function askSimulated(statuses: readonly number[]): Promise<readonly [requests: number, said: string]> {
  let requests = 0;
  const lab = await openLab({
    serve: () => {
      const status = statuses[Math.min(requests++, statuses.length - 1)] ?? 500;
      if (status < 300) return { Body: Buffer.from('text'), ETag: '"e"' };
      throw awsError(
        status === 404 ? 'NoSuchKey' : status === 403 ? 'AccessDenied' : 'ServiceUnavailable',
        'm',
        status,
      );
    },
  });
  const { openS3: open, getText: get }: { openS3: typeof openS3; getText: typeof getText } = Object(
    lab.program,
  );
  const said = await lab.run(() =>
    get(open({}), { bucket: 'bucket', key: 'key' }).then(String, (error: Error) => error.name),
  );
  return [requests, said];
}

for (const statuses of ANSWERS) {
  test(`the SDK asks as often, and says the same, as the real one: ${statuses.join(', ')}`, async (t) => {
    assert.deepEqual(await askSimulated(statuses), await askReal(t, statuses));
  });
}
