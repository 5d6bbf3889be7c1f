/** Clients send a number, a numpy scalar or an array of rank 0 to an input of rank 0, in each form that they write. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { connect, inferMessage, jobOf, serviceOf } from '../../local/grpc/client.ts';
import { bytes as field } from '../../onnx-import/support/protobuf.ts';
import { openVerified } from '../../onnx-import/support/verified.ts';
import { onnxModel } from '../../support/onnx.ts';
import { bytesOf } from '../../support/open-inference.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../../support/python.ts';
import type { Hooks } from '../../support/runner.ts';
import { runMessageBodies, throughPredict } from '../../support/three-paths.ts';

const open = (t: Hooks) =>
  openVerified(
    t,
    onnxModel({
      inputs: [
        { name: 'x', dtype: 'float32', shape: ['N', 2] },
        { name: 'rate', dtype: 'float32', shape: [] },
      ],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
      nodes: [{ op: 'Mul', inputs: ['x', 'rate'], outputs: ['y'] }],
    }),
  );
/** The answer for x [1, 2] and a rate of 3. */
const RIGHT = [{ shape: [2], data: [3, 6] }];

test('the SDK', async (t) => {
  const runner = await open(t);
  const bodies = await Promise.all(
    [3, { data: Float32Array.of(3), shape: [] }, Float32Array.of(3)].map(async (rate) =>
      encodeMessage('u', await toInputs({ x: [1, 2], rate })),
    ),
  );
  assert.deepEqual(await runMessageBodies(runner, bodies), [RIGHT, RIGHT, RIGHT]);
  const list = encodeMessage('u', await toInputs({ x: [1, 2], rate: [3, 4] }));
  await assert.rejects(
    runMessageBodies(runner, [list]),
    /input "rate": expected float32 \[\], got shape \[2\]/,
  );
});

const SCRIPT = `
import json, numpy
from cluster_serving._inputs import instance_of, record_of
rates = [3, 3.0, numpy.float32(3), numpy.int64(3), numpy.array(3.0), numpy.array(3, dtype="float16")]
records = [{"x": [1, 2], "rate": rate} for rate in rates]
print(json.dumps({"queue": [record_of("u", one).decode() for one in records], "http": [instance_of(one) for one in records]}))
`;

test('the Python client', WITH_PYTHON, async (t) => {
  const env = { ...process.env, PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout } = await promisify(execFile)(PYTHON, ['-c', SCRIPT], { env });
  const { queue, http } = JSON.parse(stdout) as { queue: string[]; http: Record<string, unknown>[] };
  const runner = await open(t);
  assert.deepEqual(
    await runMessageBodies(runner, queue),
    queue.map(() => RIGHT),
  );
  assert.deepEqual(
    await throughPredict(runner, http),
    http.map(() => RIGHT),
  );
});

test('a client of gRPC, with a tensor of no dimensions', async (t) => {
  const runner = await open(t);
  const server = await serviceOf(t, [jobOf('m', runner)]);
  const call = connect(t, server.port);
  const x = { datatype: 'FP32', shape: [2, 2], raw: bytesOf(Float32Array.of(1, 2, 3, 4)) };
  const ask = (shape: number[], ...rates: number[]) =>
    call(
      'ModelInfer',
      inferMessage('m', [
        x,
        { name: 'rate', datatype: 'FP32', shape, raw: bytesOf(Float32Array.from(rates)) },
      ]),
    );
  const right = field(6, bytesOf(Float32Array.of(3, 6, 9, 12)));
  assert.ok((await ask([], 3)).includes(Buffer.from(right)));
  await assert.rejects(ask([2], 3, 30), /input "rate": expected float32 \[\], got shape \[2\]/);
});
