/**
 * The interpreter of Python's bytecode, with functions compiled by CPython 3.6 to 3.11 (bytecode.py). What takes no
 * tensor answers as Python did; functions of tensors run as a graph.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { openSession } from '../../../lib/inference/session.ts';
import {
  type Pickled,
  PickledCall,
  PickledFloat,
  PickledGlobal,
  PickledTuple,
} from '../../../onnx-import/files/pickled.ts';
import { Objects, Weights } from '../../../onnx-import/formats/pytorch/files/objects.ts';
import { codeOf } from '../../../onnx-import/formats/pytorch/python/classes.ts';
import type { World } from '../../../onnx-import/formats/pytorch/python/frame.ts';
import { callFunction } from '../../../onnx-import/formats/pytorch/python/vm.ts';
import { Context } from '../../../onnx-import/formats/pytorch/run/context.ts';
import { TensorRef } from '../../../onnx-import/formats/pytorch/run/tensor.ts';
import { Dict, Float, itemsOf, type Py } from '../../../onnx-import/formats/pytorch/run/values.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { assertClose } from '../support/pytorch/rows.ts';
import { floats } from '../support/pytorch/run.ts';

type Plain = null | boolean | number | string | Plain[] | { readonly [key: string]: Plain };

interface Case {
  readonly python: string;
  readonly name: string;
  readonly code: Plain;
  /** None for a function of tensors. */
  readonly args?: { readonly tuple: Plain[] };
  readonly named?: Readonly<Record<string, number>>;
  readonly defaults?: readonly number[];
  readonly named_defaults?: Readonly<Record<string, number>>;
  readonly answer?: Plain;
}

const CASES = gunzipSync(readFileSync(join(import.meta.dirname, 'bytecode.jsonl.gz')))
  .toString()
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

function pickledOf(value: Plain): Pickled {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(pickledOf);
  if ('float' in value) return new PickledFloat(value.float as number);
  if ('bytes' in value) return new Uint8Array(Buffer.from(value.bytes as string, 'hex'));
  if ('global' in value) return new PickledGlobal(value.global as string);
  if ('tuple' in value) return new PickledTuple((value.tuple as Plain[]).map(pickledOf));
  const fields = (value.code as Plain[]).map(pickledOf);
  return new PickledCall(new PickledGlobal('types.CodeType'), new PickledTuple(fields));
}

const GLOBALS = new Map<Pickled, Pickled>([
  ['K', 7],
  ['math', new PickledGlobal('math')],
  ['torch', new PickledGlobal('torch')],
  ['F', new PickledGlobal('torch.nn.functional')],
]);

function callCode(c: Context, { code, named, defaults, named_defaults }: Case, args: readonly Py[]): Py {
  const objects = new Objects(c, new Weights(new Map() as never));
  const none = () => assert.fail('there are no modules');
  const world: World = {
    c,
    value: (pickled) => objects.value(pickled),
    attribute: none,
    call: none,
    items: none,
  };
  const own = {
    code: codeOf(pickledOf(code)),
    globals: GLOBALS,
    defaults: defaults ?? [],
    keywordDefaults: new Map(Object.entries(named_defaults ?? {})),
    closure: [],
  };
  return callFunction(world, own, args, new Map(Object.entries(named ?? {})));
}

function plainOf(value: Py): Plain {
  if (value instanceof Float) return value.value;
  if (value instanceof Dict)
    return Object.fromEntries([...value.items].map(([key, item]) => [String(key), plainOf(item)]));
  return itemsOf(value)?.map(plainOf) ?? (value as Plain);
}

for (const each of CASES) {
  const { python, name, args, answer } = each;
  if (!args) continue;
  test(`Python ${python}: ${name}(${JSON.stringify(args.tuple)}) answers as Python does`, () => {
    const c = new Context();
    const objects = new Objects(c, new Weights(new Map() as never));
    const values = args.tuple.map((arg) => objects.value(pickledOf(arg)));
    assert.deepEqual(plainOf(callCode(c, each, values)), answer);
  });
}

const VALUES = [3, -1, 2, 0.5, 4, -2];
const of = (compute: (x: number) => number) => VALUES.map(compute);
const test01 = (compute: (x: number) => boolean) => VALUES.map((x) => Number(compute(x)));
const T = [3, 0.5, -1, 4, 2, -2];
const softmax = (values: readonly number[]) => {
  const all = values.map(Math.exp);
  return all.map((value) => value / all.reduce((a, b) => a + b, 0));
};
const [ROW, OTHER] = [VALUES.slice(0, 3), VALUES.slice(3)] as [number[], number[]];
const columns = [0, 1, 2].map((i) => softmax([ROW[i] as number, OTHER[i] as number]).map(Math.log));
const byNorm = (row: readonly number[]) => row.map((x) => x / Math.hypot(...row));

const ANSWERS: Readonly<Record<string, readonly (readonly number[])[]>> = {
  subscripts: [ROW, [-1, 4], [2, -2], VALUES, [0.5, -2], [-1], [2, -2], [...OTHER, ...ROW], [2, 3, -2, 0.5]],
  writes: [[8.5, 7, 5, 8.5, 6, 3]],
  members: [
    VALUES,
    VALUES,
    T,
    T,
    T,
    T.map((x) => 2 * x),
    [4, 2.5],
    [6.5 / 6],
    [3, -1, 2, 0, 4, -2],
    VALUES,
    VALUES,
    [7, 7, 7, 7],
  ],
  operators: [
    of((x) => x + 1),
    of((x) => 2 - x),
    of((x) => -x),
    [14, -6.5, -6.5, 20.25],
    test01((x) => x <= 0),
    test01((x) => x > 0 && x < 3),
    test01((x) => x > 3 || x < 0),
    test01((x) => x > 0 !== x < 3),
    of((x) => x * x),
    of((x) => x / 2),
    of((x) => Math.floor((4 * x) / 3)),
    test01((x) => x === 2),
    test01((x) => x !== 2),
    [1, 1, 0, 0.5, 0, 0],
  ],
  functions: [
    of((x) => Math.max(x, 0)),
    of((x) => Math.min(Math.max(3 * x, 0), 6)),
    of((x) => (x < 0 ? x / 2 : x)),
    of((x) => (x < 0 ? 2 * Math.expm1(x) : x)),
    of((x) => Math.min(Math.max(x, -0.5), 2.5)),
    of((x) => (x > 2 ? x : 7)),
    [...softmax(ROW), ...softmax(OTHER)],
    [...softmax(ROW), ...softmax(OTHER)],
    [...columns.map(([first]) => first as number), ...columns.map(([, second]) => second as number)],
    of((x) => -Math.log1p(Math.exp(-x))),
    VALUES,
    [...byNorm(ROW), ...byNorm(OTHER)],
    [3, 2, 4, 4],
    [3, 4],
    [4 / 3, 2.5 / 3],
    [3, 1, 0.5, 2, 0.5, 2.25, 1, -2],
    [4 / 3, 2.5 / 3],
    [3, 4],
    [3, 3, -1, -1, 2, 2, 3, 3, -1, -1, 2, 2, 0.5, 0.5, 4, 4, -2, -2, 0.5, 0.5, 4, 4, -2, -2],
    [3, 1, -1, 0.5, 2, 0.5, 2.25, 4, 1, -2],
    [4 / 3, 2.5 / 3],
    [3, 0.5],
    OTHER,
    [4, 2.5],
    [...ROW, ...ROW, ...OTHER, ...OTHER],
    [1, 1],
    [14, -6.5, -6.5, 20.25],
    [14, -6.5, -6.5, 20.25],
    [3, 4],
    [0, 1],
  ],
  iterates: [
    [4, 7, -2],
    [...OTHER, ...ROW],
  ],
};

for (const each of CASES.filter(({ args }) => args === undefined)) {
  const { python, name } = each;
  test(`Python ${python}: ${name}(x) runs as a graph`, async (t) => {
    const c = new Context();
    const result = callCode(c, each, [c.tensor(c.root.input('x', 'float32', [2, 3]))]);
    for (const [i, item] of (itemsOf(result) ?? [result]).entries()) {
      assert.ok(item instanceof TensorRef, `${name}, ${i}`);
      c.root.output(`y${i}`, item.value);
    }
    const path = join(await temporaryFolder(t), 'model.onnx');
    await writeOnnx(c.root.finish(), path, { producerVersion: 'test' });
    const session = await openSession(path, { threads: 1 });
    t.after(() => session.close());
    const results = await session.run([floats([2, 3], VALUES)]);
    const wanted = ANSWERS[name] as readonly (readonly number[])[];
    assert.equal(results.length, wanted.length);
    for (const [i, { data }] of results.entries())
      assertClose(
        Array.from(data as ArrayLike<number | bigint>, Number),
        wanted[i] as number[],
        `${name}, ${i}`,
      );
  });
}
