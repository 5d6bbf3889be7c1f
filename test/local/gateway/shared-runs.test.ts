/**
 * Requests that wait for the process of a model share its runs, where its records are independent. The process is stopped
 * while they arrive, so that what waits is known.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CLOCK } from '../../../lib/compose/clock.ts';
import { openPooledOnnx } from '../../../lib/compose/onnx-pool.ts';
import type { OnnxSettings } from '../../../lib/inference/runner.ts';
import { startGateway } from '../../../local/gateway/gateway.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import type { Value } from '../../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { handlerOf } from '../../support/inference-endpoint.ts';
import { isolatedPids } from '../../support/isolated.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
const TABLE = 64;

async function serve(
  t: TestContext,
  make: (graph: GraphBuilder) => Value,
  settings: Partial<OnnxSettings> = {},
) {
  const graph = new GraphBuilder();
  graph.output('y', make(graph));
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, onnxBytes(graph.finish()));
  const batches: number[] = [];
  const others = new Set(await isolatedPids());
  const onnx = await openPooledOnnx(
    file,
    'v',
    { threads: 1, batchSize: 16, inputAlreadyBatched: false, image: {}, ...settings },
    {
      processes: 1,
      limitMs: 600_000,
      clock: CLOCK,
      onCrash: () => undefined,
      runEnded: ({ records }) => batches.push(records),
    },
  );
  const [pid = 0] = (await isolatedPids()).filter((each) => !others.has(each));
  const handler = handlerOf(onnx);
  const route = { method: 'POST', path: '/predict', handler } as const;
  const short = { ...route, path: '/short', timeoutMs: 600 };
  const gateway = await startGateway({ port: 0, routes: [route, short], log: QUIET, closeTimeoutMs: 60_000 });
  const ask = async (x: unknown, path = '/predict') => {
    const body = JSON.stringify({ instances: [{ x }] });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body });
    const { predictions, code } = (await response.json()) as { predictions?: string[]; code?: string };
    const [text] = predictions ?? [];
    return text === undefined ? [response.status, code] : JSON.parse(text.slice('{value='.length, -1)).data;
  };
  const goOn = () => process.kill(pid, 'SIGCONT');
  t.after(async () => {
    goOn();
    await gateway.close();
    await onnx.close();
  });
  /** Until so many wait behind one that is in the process. */
  const waiting = (count: number) => until(() => onnx.pool.free === 0 && onnx.batcher.waiting === count);
  /** Stops the process with a request in it. @returns its answer */
  const stopWith = async (x: unknown) => {
    process.kill(pid, 'SIGSTOP');
    const answer = ask(x);
    await waiting(0);
    return { answer };
  };
  return { gateway, batches, ask, stopWith, goOn, waiting };
}

/** x: int64 [N,1] -> the numbers of a table, ten times their index; another index fails the whole run. */
function lookUp(graph: GraphBuilder): Value {
  const data = Float32Array.from({ length: TABLE }, (_, i) => 10 * i);
  const table = graph.constant({ dtype: 'float32', shape: [TABLE], data });
  return graph.one('Gather', [table, graph.input('x', 'int64', ['N', 1])]);
}

test('requests that wait share runs, and each has its own answer, beside bad ones and clients that leave', async (t) => {
  const { gateway, batches, ask, stopWith, goOn, waiting } = await serve(t, lookUp, { batching: 'always' });
  const first = await stopWith([1]);
  const asked = Array.from({ length: TABLE }, (_, i) => ({ i, answer: ask([i]) }));
  const outside = ask([TABLE]);
  const misshapen = ask([1, 2, 3]);
  const body = JSON.stringify({ instances: [{ x: [3] }] });
  const leaving = connect(gateway.port, '127.0.0.1', () =>
    leaving.write(
      `POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    ),
  );
  await waiting(TABLE + 3);
  leaving.destroy();
  goOn();
  assert.deepEqual(await first.answer, [10]);
  for (const { i, answer } of asked) assert.deepEqual(await answer, [10 * i]);
  assert.deepEqual(await outside, [422, 'model_failed']);
  assert.deepEqual(await misshapen, [400, 'bad_input']);
  // The record of who left is not run, unless the run began before the gateway knew.
  assert.deepEqual(batches.slice(0, -1), [1, 16, 16, 16, 16]);
  assert.ok(batches.at(-1) === 2 || batches.at(-1) === 3, batches.join());
});

test('records of a model whose rows are not known to be independent run alone, whatever waits', async (t) => {
  const { ask, stopWith, goOn, waiting } = await serve(t, (graph) => {
    const x = graph.input('x', 'float32', ['N', 2]);
    return graph.one('Sub', [x, graph.one('ReduceMax', [x], { keepdims: 0 })]);
  });
  const first = await stopWith([1, 2]);
  const asked = Array.from({ length: 20 }, (_, i) => ({ i, answer: ask([i, 2 * i + 1]) }));
  await waiting(20);
  goOn();
  assert.deepEqual(await first.answer, [-1, 0]);
  for (const { i, answer } of asked) assert.deepEqual(await answer, [-i - 1, 0]);
});

test('a request whose time is over while it waits costs no run, and a gateway that closes answers those that wait', async (t) => {
  quietLog(t);
  const { gateway, batches, ask, stopWith, goOn, waiting } = await serve(t, lookUp, { batching: 'always' });
  const first = await stopWith([1]);
  const asked = [3, 4, 5].map((i) => ({ i, answer: ask([i]) }));
  await waiting(3);
  const [status] = await ask([2], '/short');
  assert.ok(status >= 500, String(status));
  await waiting(3);
  const closed = gateway.close();
  goOn();
  assert.deepEqual(await first.answer, [10]);
  for (const { i, answer } of asked) assert.deepEqual(await answer, [10 * i]);
  await closed;
  assert.deepEqual(batches, [1, 3]);
});
