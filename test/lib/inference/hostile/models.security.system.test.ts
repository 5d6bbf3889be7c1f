/**
 * Model files that were made to do harm. Each is refused with one clear error, or opens and fails its records alone; the
 * process lives, and a good model answers in it right afterwards. What never ends is ended from outside.
 */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { IsolatedRunner } from '../../../../lib/inference/isolated-runner.ts';
import { findRunning } from '../../../../local/service/data-folder.ts';
import { cli } from '../../../cli/cli.ts';
import { childPids } from '../../../support/isolated.ts';
import { temporaryFolder } from '../../../support/runner.ts';
import { until } from '../../../support/until.ts';
import { runBounded } from './bounded.ts';
import {
  DTYPE,
  field,
  floats,
  graph,
  graphAttribute,
  integer,
  integerAttribute,
  integers,
  localFunction,
  message,
  model,
  node,
  value,
  varint,
  weight,
  yes,
} from './onnx-bytes.ts';

const GOOD = model(graph({ nodes: [node('Relu', ['x'], ['y'])] }));
const GOOD_ANSWER = '{value={"data":[1.0,2.0],"shape":[2]}}';
const END_MS = 300_000;

interface Line {
  readonly name: string;
  readonly answer?: string;
  readonly code?: string;
  readonly message?: string;
  readonly after: string;
}

/** Opens each in one process. @throws an assertion when that process did not live to the end */
async function openEach(t: TestContext, files: Readonly<Record<string, Uint8Array>>): Promise<Line[]> {
  const parent = await temporaryFolder(t);
  const folder = join(parent, 'hostile');
  await mkdir(folder);
  await writeFile(join(parent, 'good.onnx'), GOOD);
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(folder, `${name}.onnx`), bytes);
  const ended = await runBounded('open-each.ts', [join(parent, 'good.onnx'), folder], END_MS);
  const lines = ended.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
  assert.equal(ended.code, 0, `${ended.signal} after ${lines.at(-1)?.name}: ${ended.stderr.slice(-500)}`);
  assert.equal(lines.length, Object.keys(files).length);
  for (const { name, after } of lines) assert.equal(after, GOOD_ANSWER, `the good model after ${name}`);
  return lines;
}

/** A number that looks random and is the same each time. */
const noise = (length: number, seed: number) =>
  Uint8Array.from({ length }, (_, i) => (Math.imul(i + 1, 2_654_435_761 ^ seed) >>> 13) & 255);

const sum = node('ReduceSum', ['w'], ['r'], { attributes: [integerAttribute('keepdims', 0)] });
const add = node('Add', ['x', 'r'], ['y']);
const filled = (...dims: number[]) =>
  model(
    graph({
      nodes: [node('ConstantOfShape', ['s'], ['w']), sum, add],
      weights: [integers('s', [dims.length], ...dims)],
    }),
  );

const seq = (depth: number) => {
  let type = field(1, integer(1, DTYPE.float32));
  for (let i = 0; i < depth; i++) type = field(4, field(1, type));
  return model(
    graph({
      nodes: [node('Identity', ['x'], ['y'])],
      inputs: [message(field(1, 'x'), field(2, type))],
      outputs: [message(field(1, 'y'), field(2, type))],
    }),
  );
};

/** `depth` branches, each in the one before. Joined from the inside out once, not copied at every level. */
function nested(depth: number): Buffer {
  const other = message(field(1, node('Identity', ['x'], ['e'])), field(2, 'e'), field(12, value('e')));
  const otherwise = field(5, graphAttribute('else_branch', other));
  const heads: Buffer[] = [];
  const tails: Buffer[] = [];
  let length = 0;
  const wrap = (head: Buffer, tail: Buffer) => {
    heads.push(head);
    tails.push(tail);
    length += head.length + tail.length;
  };
  const enclose = (number: number) =>
    wrap(message(varint((number << 3) | 2), varint(length)), Buffer.alloc(0));
  wrap(
    Buffer.alloc(0),
    message(field(1, node('Identity', ['x'], ['o0'])), field(2, 's'), field(12, value('o0'))),
  );
  for (let i = 1; i <= depth; i++) {
    const name = i === depth ? 'y' : `o${i}`;
    enclose(6);
    wrap(field(1, 'then_branch'), integer(20, 5));
    enclose(5);
    wrap(message(field(1, 'c'), field(2, name), field(4, 'If')), otherwise);
    enclose(1);
    if (i < depth) wrap(Buffer.alloc(0), message(field(2, 's'), field(12, value(name))));
  }
  const nodes = Buffer.concat([...heads.reverse(), ...tails]);
  const rest = message(field(2, 'g'), field(5, yes('c')), field(11, value('x')), field(12, value('y')));
  return model(message(nodes, rest));
}

const REFUSED: Readonly<Record<string, Uint8Array>> = {
  'an empty file': new Uint8Array(),
  'a web page': Buffer.from('<!DOCTYPE html><html><title>404 Not Found</title></html>'),
  ...Object.fromEntries(
    Array.from({ length: 20 }, (_, i) => [`noise ${i}`, noise(1 + i * i * 40, i)] as const),
  ),
  'groups without an end': Buffer.alloc(200_000, 0x0b),
  'a length of 2^62': Buffer.concat([integer(1, 8), varint((7 << 3) | 2), varint(2 ** 62)]),
  'an unknown operator': model(graph({ nodes: [node('Nonsense', ['x'], ['y'])] })),
  'an unknown domain': model(graph({ nodes: [node('Relu', ['x'], ['y'], { domain: 'evil' })] })),
  'opset 999': model(graph({ nodes: [node('Relu', ['x'], ['y'])] }), { opset: 999 }),
  'opset 0': model(graph({ nodes: [node('Relu', ['x'], ['y'])] }), { opset: 0 }),
  'opset -1': model(graph({ nodes: [node('Relu', ['x'], ['y'])] }), { opset: -1 }),
  'two inputs of one name': model(
    graph({ nodes: [node('Add', ['x', 'x'], ['y'])], inputs: [value('x'), value('x')] }),
  ),
  'two nodes with one output': model(
    graph({ nodes: [node('Relu', ['x'], ['y']), node('Abs', ['x'], ['y'])] }),
  ),
  'a circle': model(
    graph({
      nodes: [node('Add', ['x', 'b'], ['a']), node('Relu', ['a'], ['b']), node('Relu', ['b'], ['y'])],
    }),
  ),
  'a function that calls itself': model(graph({ nodes: [node('F', ['x'], ['y'], { domain: 'local' })] }), {
    functions: [localFunction('F', [node('F', ['a'], ['b'], { domain: 'local' })])],
  }),
  'two functions that call each other': model(
    graph({ nodes: [node('F', ['x'], ['y'], { domain: 'local' })] }),
    {
      functions: [
        localFunction('F', [node('G', ['a'], ['b'], { domain: 'local' })]),
        localFunction('G', [node('F', ['a'], ['b'], { domain: 'local' })]),
      ],
    },
  ),
  '100 branches in each other': nested(100),
  '10,000 branches in each other': nested(10_000),
  'a list of a list, 10 deep': seq(10),
  'a list of a list, 5,000 deep': seq(5_000),
  'a weight of 2^80 elements': model(
    graph({ nodes: [node('Add', ['x', 'w'], ['y'])], weights: [floats('w', [2 ** 40, 2 ** 40], 1, 2)] }),
  ),
  'a weight with a negative dimension': model(
    graph({ nodes: [node('Add', ['x', 'w'], ['y'])], weights: [floats('w', [-2], 1, 2)] }),
  ),
  'a weight with fewer bytes than its shape': model(
    graph({ nodes: [node('Add', ['x', 'w'], ['y'])], weights: [floats('w', [2], 1)] }),
  ),
  'a weight of an unknown type': model(
    graph({
      nodes: [node('Add', ['x', 'w'], ['y'])],
      weights: [weight('w', 99, [2], new Uint8Array(8))],
    }),
  ),
  'an endless shape with a hole': filled(-5),
};

test('a model file that is none, or breaks the rules of one, is refused and the process lives', async (t) => {
  for (const { name, code, message: text = '' } of await openEach(t, REFUSED)) {
    assert.equal(code, 'model_unavailable', `${name}: ${text}`);
    assert.match(text, /^onnxruntime cannot load the model: .|^(in|out)put "\w+" is not a tensor/s, name);
  }
});

test('a few nested branches do no harm, so it is their depth that was refused', async (t) => {
  const [line] = await openEach(t, { nested: nested(20) });
  assert.equal(line?.answer, GOOD_ANSWER);
});

test('a model cut at 50 places is refused at each', async (t) => {
  const whole = model(graph({ nodes: [node('Add', ['x', 'w'], ['y'])], weights: [floats('w', [2], 1, 2)] }));
  assert.ok(whole.length > 50);
  const places = Array.from({ length: 50 }, (_, i) => Math.floor((i * (whole.length - 1)) / 49));
  const cuts = Object.fromEntries(places.map((end) => [`cut ${end}`, whole.subarray(0, end)]));
  assert.equal(Object.keys(cuts).length, 50);
  for (const { name, code } of await openEach(t, cuts)) assert.equal(code, 'model_unavailable', name);
});

const FAILING: Readonly<Record<string, Uint8Array>> = {
  'a constant of 2^40 elements': filled(2 ** 40),
  'a constant of 2^35 elements': filled(2 ** 35),
  'a constant of 2^96 elements': filled(2 ** 32, 2 ** 32, 2 ** 32),
  'a broadcast to 2^41 elements': model(
    graph({
      nodes: [node('Expand', ['x', 's'], ['w']), sum, add],
      weights: [integers('s', [3], 2 ** 20, 2 ** 20, 2)],
    }),
  ),
  'a range without an end': model(
    graph({
      nodes: [node('Range', ['a', 'b', 'd'], ['w']), sum, add],
      weights: [floats('a', [], 0), floats('b', [], 3e38), floats('d', [], 1e-30)],
    }),
  ),
};

test('a model that wants more memory than there is fails its records, and no other model', async (t) => {
  for (const { name, code, message: text } of await openEach(t, FAILING))
    assert.equal(code, 'model_failed', `${name}: ${text}`);
});

test('a model whose input cannot be sent refuses what is sent', async (t) => {
  const wide = (dim: number) =>
    model(
      graph({
        nodes: [node('Relu', ['x'], ['y'])],
        inputs: [value('x', 1, ['N', dim])],
        outputs: [value('y', 1, ['N', dim])],
      }),
    );
  for (const { name, code } of await openEach(t, { '2^31': wide(2 ** 31), '2^40': wide(2 ** 40) }))
    assert.equal(code, 'bad_input', name);
});

test('weights that are not numbers come out as null, not as NaN', async (t) => {
  const odd = (a: number, b: number) =>
    model(graph({ nodes: [node('Add', ['x', 'w'], ['y'])], weights: [floats('w', [2], a, b)] }));
  const [lines] = [await openEach(t, { nan: odd(Number.NaN, Infinity), minus: odd(-Infinity, 0) })];
  assert.deepEqual(
    lines.map(({ answer }) => answer),
    ['{value={"data":[null,2.0],"shape":[2]}}', '{value={"data":[null,null],"shape":[2]}}'],
  );
});

/** More rounds than there is time, of what does not depend on an input, so that it runs while the model loads. */
function endless(depends: boolean): Buffer {
  const body = message(
    field(1, node('Identity', ['on'], ['on_out'])),
    field(1, node('Add', ['a', depends ? 'x' : 'k'], ['b'])),
    field(2, 'b'),
    field(11, value('i', DTYPE.int64, [])),
    field(11, value('on', DTYPE.bool, [])),
    field(11, value('a')),
    field(12, value('on_out', DTYPE.bool, [])),
    field(12, value('b')),
  );
  const loop = node('Loop', ['m', 'c', depends ? 'x' : 'k'], ['z'], {
    attributes: [graphAttribute('body', body)],
  });
  return model(
    graph({
      nodes: [loop, node('Add', ['x', 'z'], ['y'])],
      weights: [integers('m', [], 2 ** 60), yes('c'), floats('k', [2], 1, 2)],
    }),
  );
}

/** Each of 30 functions calls the one before twice: a thousand million nodes in 2 kB. */
function laughs(): Buffer {
  const calls = (i: number) =>
    i === 0 ? (['Relu', {}] as const) : ([`F${i - 1}`, { domain: 'local' }] as const);
  return model(graph({ nodes: [node('F29', ['x'], ['y'], { domain: 'local' })] }), {
    functions: Array.from({ length: 30 }, (_, i) => {
      const [op, extras] = calls(i);
      return localFunction(`F${i}`, [node(op, ['a'], ['t'], extras), node(op, ['t'], ['b'], extras)]);
    }),
  });
}

for (const [what, bytes] of [
  ['loops forever while it loads', endless(false)],
  ['loops forever while it warms up', endless(true)],
  ['unfolds into a thousand million nodes', laughs()],
] as const) {
  test(`a model that ${what} is ended in an isolated process, and the next model opens`, async (t) => {
    const folder = await temporaryFolder(t);
    const settings = { threads: 1, batchSize: 4, inputAlreadyBatched: false, image: {} };
    const isolated = async (name: string, model_: Uint8Array) => {
      await writeFile(join(folder, name), model_);
      const made = new IsolatedRunner({ file: join(folder, name), version: 'test', settings });
      t.after(() => made.close());
      return made;
    };
    const bad = await isolated('bad.onnx', bytes);
    await assert.rejects(bad.run([], 2_500), (error: unknown) => {
      assert.ok(error instanceof ServingError);
      // Or its memory ended first.
      assert.ok(['timeout', 'model_failed', 'model_unavailable'].includes(error.code), error.message);
      return true;
    });
    const good = await isolated('good.onnx', GOOD);
    assert.deepEqual(await good.run([], 60_000), []);
  });
}

test('a process that is left with a model that never loads is ended, and the next model opens in the same call', async (t) => {
  const folder = await temporaryFolder(t);
  const settings = { threads: 1, batchSize: 4, inputAlreadyBatched: false, image: {} };
  const isolated = async (name: string, model_: Uint8Array) => {
    await writeFile(join(folder, name), model_);
    return new IsolatedRunner({ file: join(folder, name), version: 'test', settings });
  };
  const bad = await isolated('bad.onnx', endless(false));
  await assert.rejects(bad.run([], 2_500), { code: 'timeout' });
  await bad.close();
  const good = await isolated('good.onnx', GOOD);
  t.after(() => good.close());
  assert.deepEqual(await good.run([], 60_000), []);
  await until(async () => (await childPids('self', /isolated-process/)).length === 1);
});

test('a local start with a model that never loads ends by itself, says so and leaves nothing running', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'model'));
  await writeFile(join(folder, 'model', 'model.onnx'), endless(false));
  await writeFile(join(folder, 'config.yaml'), 'modelPath: model\n');
  const dataDir = join(folder, 'data');
  const started = await cli(
    ['start', '-c', 'config.yaml', '--port', '0', '--data-dir', dataDir, '--timeout', '5'],
    {
      cwd: folder,
    },
  );
  assert.equal(started.code, 1);
  assert.match(started.stderr, /the service was not ready after 5 s/);
  assert.equal(await findRunning(dataDir), undefined);
});
