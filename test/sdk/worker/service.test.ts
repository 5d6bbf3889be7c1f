/** Both clients against the service itself, with a worker in a process of its own. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { EncodedImage, Tuple, type WorkerValue } from '../../../lib/contract/worker-values.ts';
import { WKRClient } from '../../../sdk/worker-client.ts';
import { ENVIRONMENT } from '../../lib/workers/child.ts';
import { type Service, startService } from '../../local/worker/http/service.ts';
import { python } from '../../python/script.ts';
import { fixture, sharedPath } from '../../support/fixtures.ts';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { SAMPLE, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const WORKER = `from wkr_serving.server import WKRHardWorker
import numpy

class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None

    def predict(self, model, input):
        return [self.answer(item) for item in input]

    def answer(self, item):
        if isinstance(item, numpy.ndarray) and item.shape == (5, 5):
            assert item.dtype == numpy.float64 and not item.any()
            bits = numpy.arange(25, dtype=numpy.uint64) * numpy.uint64(0x0a3d70a3d70a3d7)
            # NaN with a payload, -0, the smallest and the largest number.
            bits[:4] = [0x7ff8dead0000beef, 0x8000000000000000, 1, 0x7fefffffffffffff]
            return bits.view(numpy.float64).reshape(5, 5)
        if isinstance(item, str) and item == "poison":
            raise ValueError("no")
        return item
`;

const TOKEN = '0123456789abcdef';
const GUIDE_PORT = 8996;

let service: Service;
let port: number;

before(async () => {
  if (WITH_PYTHON.skip !== false) return;
  service = await startService({ source: WORKER, batchSize: 4, token: TOKEN });
  port = Number(new URL(service.url).port);
});
after(() => service?.close());

const asked = (script: string) => python(port, script, { WKR_TOKEN: TOKEN });
const client = (identity?: string) =>
  new WKRClient({ url: service.url, token: TOKEN, ...(identity !== undefined && { identity }) });

describe('clients of a worker in Python', WITH_PYTHON, () => {
  test('the client of the guide runs unchanged, and its (5,5) float64 answer is bit-exact', async (t) => {
    if (!(await fixture(t, 'fixtures/wkr/client.py'))) return;
    const forward = createServer((socket) => {
      const behind = connect(port, '127.0.0.1');
      for (const end of [socket, behind]) end.on('error', () => socket.destroy());
      socket.pipe(behind).pipe(socket);
    });
    t.after(async () => forward.close());
    // Another test may use the port of the guide.
    await until(async () => {
      forward.listen(GUIDE_PORT, '127.0.0.1');
      return once(forward, 'listening').then(
        () => true,
        () => false,
      );
    });
    const path = JSON.stringify(sharedPath('fixtures/wkr/client.py'));
    const script = `import runpy; output = runpy.run_path(${path}, run_name='__main__')['output']
print(output.dtype, output.shape, output.tobytes().hex())`;
    const env = { ...ENVIRONMENT, WKR_TOKEN: TOKEN };
    const { stdout } = await promisify(execFile)(PYTHON, ['-c', script], { env });
    const bits = BigUint64Array.from({ length: 25 }, (_, i) => BigInt(i) * 0x0a3d70a3d70a3d7n);
    bits.set([0x7ff8dead0000beefn, 0x8000000000000000n, 1n, 0x7fefffffffffffffn]);
    assert.equal(stdout.trim(), `float64 (5, 5) ${Buffer.from(bits.buffer).toString('hex')}`);
  });

  test('values come back to Python', async () => {
    const shown = await asked(`
from datetime import datetime, timezone
client = WKRClient(port=PORT)
values = [None, 7, -2.5, "é", b"\\0\\xff", 10**40, (1, (2,)), {1, "a"}, {"a b": {"$t": 1}}, float("inf"),
          datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)]
# Two sets that are equal may be printed in different orders.
def text(value): return sorted(map(repr, value)) if isinstance(value, set) else repr(value)
show([repr(value) for value in values if text(client.encode(value)) != text(value)])
arrays = [np.arange(6).reshape(2, 3).astype(d) for d in ("float16", "float32", "float64", "int8", "int64", "uint64", "bool")]
def same(a, b): return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
show([a.dtype.name for a in arrays if not same(a, client.encode(a))])
boxes = client.encode({"boxes": arrays[1], "scores": arrays[2]})
show([sorted(boxes), same(boxes["boxes"], arrays[1]), same(boxes["scores"], arrays[2])])
`);
    assert.deepEqual(shown, [[], [], [['boxes', 'scores'], true, true]]);
  });

  test('values come back to TypeScript', async () => {
    const values: WorkerValue[] = [
      null,
      -2.5,
      'é',
      Uint8Array.of(0, 255),
      10n ** 40n,
      Tuple.from([1, Tuple.from([2])]),
      new Set(['a']),
      { 'a b': { $t: 1 } },
      new Date(0),
      { dtype: 'float64', shape: [1, 2], data: Float64Array.of(-0, 5e-324) },
      { boxes: { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) } },
    ];
    for (const value of values) assert.deepEqual(await client().encode(value), value);
  });

  test('twelve results come in order, to both of an identity, and a failure is one item', async () => {
    const [results, first, second] = await asked(`
warnings.simplefilter("ignore")
client = WKRClient(port=PORT)
for i in range(12): client.encode("poison" if i == 5 else np.full((2,), i), blocking=False)
show([None if r is None else r.tolist() for r in client.fetch_all()])
a, b = (WKRClient(port=PORT, identity="shared") for _ in range(2))
for i in range(12):
    a.encode(["a", i], blocking=False)
    b.encode(["b", i], blocking=False)
show(b.fetch_all())
show(a.fetch_all())
`);
    const twelve = Array.from({ length: 12 }, (_, i) => i);
    assert.deepEqual(
      results,
      twelve.map((i) => (i === 5 ? null : [i, i])),
    );
    assert.deepEqual(
      first,
      twelve.map((i) => ['b', i]),
    );
    assert.deepEqual(
      second,
      twelve.map((i) => ['a', i]),
    );
    const ours = client('shared');
    for (const i of twelve) await ours.encode(i === 5 ? 'poison' : i, { blocking: false });
    const fetched = await ours.fetchAll();
    assert.deepEqual(
      fetched.map(({ value, error }) => error?.message ?? value),
      twelve.map((i) => (i === 5 ? 'ValueError: no' : i)),
    );
  });

  test('an item that fails is an error with its code', async () => {
    const [error, others] = await asked(`
client = WKRClient(port=PORT, show_server_config=False)
show(error_of(lambda: client.encode("poison")))
show(sorted(r.embedding for r in client.encode_async(range(100))))
`);
    assert.deepEqual(error, ['WKRError', 'model_failed', 'model_failed: ValueError: no']);
    assert.deepEqual(
      others,
      Array.from({ length: 100 }, (_, i) => i),
    );
    await assert.rejects(client().encode('poison'), { code: 'model_failed', message: 'ValueError: no' });
    const status = await client().serverStatus();
    assert.deepEqual([status['protocol'], status['wkr_protocol']], ['obj', 1]);
    await assert.rejects(new WKRClient({ url: service.url }).encode(1), { code: 'unauthorized' });
  });
});

test('a model answers an image with an array', async (t) => {
  const stack = await testStack(t);
  const image = new EncodedImage(await readFile(join(SAMPLE, 'images/digit-3.png')));
  const answer = (await new WKRClient({ url: stack.url }).encode(image)) as Tensor;
  assert.deepEqual([answer.dtype, answer.shape], ['float32', [10]]);
  const scores = [...(answer.data as Float32Array)];
  assert.equal(scores.indexOf(Math.max(...scores)), 3);
});
