/** Both languages read and write the same golden frames, refuse the same malformed ones, and understand each other. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { FrameDecoder, ProtocolError } from '../../../lib/codecs/values/frame.ts';
import { EncodedImage, Tuple, type WorkerValue } from '../../../lib/contract/worker-values.ts';
import { encodeMessage, type Run } from '../../../lib/workers/messages.ts';
import { readToWorker } from '../../../lib/workers/read-message.ts';
import { type GoldenFrame, goldenFrames, longFrames } from '../../fixtures/worker-frames/make.ts';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { ENVIRONMENT } from './child.ts';

const FRAMES = JSON.parse(
  readFileSync(new URL('../../fixtures/worker-frames/frames.json', import.meta.url), 'utf8'),
) as Record<'valid' | 'malformed', GoldenFrame[]>;

const MALFORMED = [...FRAMES.malformed, ...longFrames()];

/** @param size of the chunks that it arrives in */
function readItems(bytes: Uint8Array, size = bytes.byteLength): Run['items'] {
  const decoder = new FrameDecoder();
  const frames = [];
  for (let at = 0; at < bytes.byteLength; at += size)
    frames.push(...decoder.push(bytes.subarray(at, at + size)));
  decoder.end();
  assert.equal(frames.length, 1);
  const [frame] = frames;
  assert.ok(frame);
  const message = readToWorker(frame);
  assert.ok(message.type === 'run');
  return message.items;
}

const write = (items: readonly unknown[]) => Buffer.concat(encodeMessage({ type: 'run', id: 1, items }));

/** What Python makes of frames: each as it writes it, or `refused: …`. */
async function throughPython(frames: readonly string[]): Promise<string[]> {
  const script = fileURLToPath(new URL('reencode.py', import.meta.url));
  return new Promise((resolve, reject) => {
    const options = { env: ENVIRONMENT, maxBuffer: 2 ** 28 };
    const child = execFile(PYTHON, [script], options, (error, stdout) =>
      error ? reject(error) : resolve(stdout.trim().split('\n')),
    );
    child.stdin?.end(`${frames.join('\n')}\n`);
  });
}

test('the golden frames are what their script makes', () => {
  assert.deepEqual(FRAMES, goldenFrames());
});

test('TypeScript reads the golden frames, whatever the chunks, and writes the same bytes', () => {
  for (const { name, hex } of FRAMES.valid) {
    const bytes = Buffer.from(hex, 'hex');
    for (const size of [1, 3, 64, bytes.byteLength])
      assert.equal(write(readItems(bytes, size)).toString('hex'), hex, `${name}, ${size} bytes at a time`);
  }
});

test('TypeScript refuses the malformed frames', () => {
  for (const { name, hex } of MALFORMED)
    assert.throws(() => readItems(Buffer.from(hex, 'hex')), ProtocolError, name);
});

test('two frames in one chunk are two frames', () => {
  const bytes = write([1, new Uint8Array(5)]);
  assert.equal([...new FrameDecoder().push(Buffer.concat([bytes, bytes]))].length, 2);
});

test('the frames in front of a malformed one in the same chunk are delivered', () => {
  const good = write(['good']);
  for (const { name, hex } of MALFORMED) {
    const decoder = new FrameDecoder();
    const items: unknown[] = [];
    const read = () => {
      for (const frame of decoder.push(Buffer.concat([good, good, Buffer.from(hex, 'hex')]))) {
        const message = readToWorker(frame);
        if (message.type === 'run') items.push(...message.items);
      }
      decoder.end();
    };
    assert.throws(read, ProtocolError, name);
    assert.deepEqual(items.slice(0, 2), ['good', 'good'], name);
  }
});

test('Python reads the golden frames and writes the same bytes', WITH_PYTHON, async () => {
  const written = await throughPython(FRAMES.valid.map(({ hex }) => hex));
  for (const [i, { name, hex }] of FRAMES.valid.entries()) assert.equal(written[i], hex, name);
});

test('Python refuses the malformed frames', WITH_PYTHON, async () => {
  const written = await throughPython(MALFORMED.map(({ hex }) => hex));
  for (const [i, { name }] of MALFORMED.entries()) assert.match(written[i] ?? '', /^refused: /, name);
});

/** A generator of random numbers that a seed repeats. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const SIZES = {
  float16: 2,
  float32: 4,
  float64: 8,
  int8: 1,
  uint16: 2,
  int32: 4,
  int64: 8,
  uint64: 8,
} as const;
const ARRAYS = {
  float16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
} as const;

function randomValue(random: (below: number) => number, depth = 0): WorkerValue {
  const bytes = (length: number) => Uint8Array.from({ length }, () => random(256));
  const text = () =>
    Array.from({ length: random(5) }, () => String.fromCodePoint(1 + random(0xd7fe))).join('');
  const scalars: (() => WorkerValue)[] = [
    () => null,
    () => random(2) === 1,
    () => random(2 ** 32) - 2 ** 31,
    () => new Float64Array(bytes(8).buffer)[0] ?? 0,
    () => [Number.NaN, Infinity, -Infinity, -0, 1e20, 2 ** 53][random(6)] ?? 0,
    text,
    () => (BigInt(random(2 ** 31)) + 1n) * (random(2) === 1 ? 1n : -1n) * 10n ** BigInt(16 + random(50)),
    () => bytes(random(20)),
    () => new Date(random(2 ** 32) * 1000 + random(1000)),
    () => new EncodedImage(bytes(4)),
    () => {
      const names = Object.keys(SIZES) as (keyof typeof SIZES)[];
      const dtype = names[random(names.length)] ?? 'int8';
      const shape = Array.from({ length: random(4) }, () => random(4));
      const count = shape.reduce((product, dim) => product * dim, 1);
      return { dtype, shape, data: new ARRAYS[dtype](bytes(count * SIZES[dtype]).buffer) };
    },
    () => ({ dtype: 'string', shape: [2], data: [text(), text()] }),
  ];
  const list = () => Array.from({ length: random(5) }, () => randomValue(random, depth + 1));
  const containers: (() => WorkerValue)[] = [
    list,
    () => Tuple.from(list()),
    () => new Set([random(100), text(), random(2) === 1 ? null : 'x']),
    () => {
      const keys = ['__proto__', '$t', 'dtype', 'shape', 'data', 'a b', 'é'];
      return Object.fromEntries(list().map((value) => [keys[random(keys.length)] ?? '', value]));
    },
    // It looks like a tensor, and is none.
    () => readItems(write([{ $t: 1, data: ['a'] }]))[0] as WorkerValue,
  ];
  const all = depth < 4 ? [...scalars, ...containers, ...containers] : scalars;
  return (all[random(all.length)] ?? (() => null))();
}

/** As it arrives: bytes of the same values in the same classes. Python has no order in a set. */
function normal(value: unknown): unknown {
  if (value instanceof Set) return new Set([...value].map(String).toSorted());
  if (Array.isArray(value)) return [value.constructor.name, ...Array.from(value, normal)];
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value;
    return [value.constructor.name, Buffer.from(buffer, byteOffset, byteLength).toString('hex')];
  }
  if (value instanceof EncodedImage) return ['image', normal(value.bytes)];
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, normal(item)]));
}

test('random values come back equal from TypeScript', () => {
  for (let seed = 0; seed < 300; seed++) {
    const items = [randomValue(randomOf(seed)), randomValue(randomOf(seed + 1e6))];
    assert.deepEqual(readItems(write(items), 11).map(normal), items.map(normal), `seed ${seed}`);
  }
});

test('random values come back equal from Python', WITH_PYTHON, async () => {
  // Python makes bytes of an image where nothing says what it becomes.
  const withoutImages = (value: unknown) =>
    JSON.stringify(normal(value), (_, item) => (typeof item === 'bigint' ? String(item) : item)).includes(
      '"image"',
    );
  const seeds = Array.from({ length: 300 }, (_, seed) => seed).filter(
    (s) => !withoutImages(randomValue(randomOf(s))),
  );
  const values = seeds.map((seed) => randomValue(randomOf(seed)));
  const written = await throughPython(values.map((value) => write([value]).toString('hex')));
  assert.ok(values.length > 150);
  for (const [i, value] of values.entries()) {
    const hex = written[i] ?? '';
    assert.match(hex, /^[0-9a-f]+$/, `seed ${seeds[i]}`);
    assert.deepEqual(readItems(Buffer.from(hex, 'hex')).map(normal), [normal(value)], `seed ${seeds[i]}`);
  }
});

test('a dict from Python with the keys of a tensor stays a dict', () => {
  const bytes = write([]).toString('latin1').replace('[]', '[{"dtype":"string","shape":[1],"data":["a"]}]');
  const frame = Buffer.from(bytes, 'latin1');
  frame.writeUInt32BE(frame.byteLength - 4);
  assert.equal(write(readItems(frame)).toString('latin1'), frame.toString('latin1'));
});

test('a value that cannot be sent is a TypeError with its path', () => {
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);
  for (const [value, message] of [
    [undefined, /^items\[0\]: a undefined cannot be sent$/],
    [{ a: [1, { 'b c': new Map() }] }, /^items\[0\]\.a\[1\]\['b c'\]: a Map cannot be sent$/],
    [new Float32Array(1), /^items\[0\]: a Float32Array cannot be sent$/],
    [{ dtype: 'int8', shape: [2], data: new Int8Array(1) }, /1 elements, and its shape \[2\] 2$/],
    [{ dtype: 'int8', shape: [1], data: new Int16Array(1) }, /no array of int8/],
    [new Set([[1]]), /^items\[0\]\[0\]: .*cannot hash/],
    [new Date(Number.NaN), /no date/],
    [cyclic, /deeper than 64 levels/],
    [10n ** 5000n, /more than 4096 digits/],
  ] as const) {
    assert.throws(
      () => write([value]),
      (error) => error instanceof TypeError && message.test(error.message),
      String(message),
    );
  }
});
