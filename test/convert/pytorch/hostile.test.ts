/** Hostile files: each ends in one clear error or a right import, within limits. More with PYTORCH_FUZZ=10000. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { scriptEntries, zip } from '../support/pytorch/archive.ts';
import { convertBytes, convertScript } from '../support/pytorch/run.ts';

const OPTIONS = { inputShapes: { x: [2, 3] } };
const SCRIPT = {
  forward:
    'w = self.w\ny = torch.clone(x)\n_0 = torch.add_(torch.select(y, 1, 0), 1)\nif torch.eq(torch.dim(x), 2):\n  z = torch.linear(y, w)\nelse:\n  z = y\nreturn torch.view(z, [-1, 2])',
  weights: { w: { shape: [2, 3], data: [1, 2, 3, 4, 5, 6] } },
};

/** A small generator, so that a failure can be repeated. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function mutated(bytes: Buffer, next: (below: number) => number): Buffer {
  const copy = Buffer.from(bytes);
  switch (next(4)) {
    case 0:
      return copy.subarray(0, next(copy.length));
    case 1: {
      for (let i = next(4); i >= 0; i--) copy[next(copy.length)] = next(256);
      return copy;
    }
    case 2: {
      const [from, length] = [next(copy.length), next(64)];
      return Buffer.concat([copy.subarray(0, from + length), copy.subarray(from)]);
    }
    default:
      copy.writeUInt32LE(0xff_ff_ff_ff, next(copy.length - 4));
      return copy;
  }
}

test('mutated archives and entries end in an error of the model or an import', {
  timeout: 600_000,
}, async (t) => {
  const entries = scriptEntries(SCRIPT);
  const names = [...entries.keys()];
  const count = Number(process.env.PYTORCH_FUZZ ?? 300);
  const outcomes = { imported: 0, refused: 0 };
  for (let seed = 0; seed < count; seed++) {
    const next = generator(seed);
    const name = names[next(names.length)] as string;
    const whole = next(3) === 0;
    const bytes = whole
      ? mutated(zip(entries), next)
      : zip(new Map([...entries, [name, mutated(entries.get(name) as Buffer, next)]]));
    try {
      await convertBytes(t, bytes, OPTIONS);
      outcomes.imported += 1;
    } catch (error) {
      assert.ok(error instanceof ServingError, `seed ${seed}: ${String((error as Error).stack)}`);
      outcomes.refused += 1;
    }
  }
  assert.ok(outcomes.refused > count / 3, JSON.stringify(outcomes));
});

const CODE: readonly (readonly [what: string, forward: string, message: RegExp])[] = [
  [
    'an endless loop',
    'i = 0\nwhile True:\n  i = torch.add(i, 1)\nreturn x',
    /loops over 100000 times|over 2000000 steps/,
  ],
  [
    'nested loops',
    'for i in range(99999):\n  for j in range(99999):\n    pass\nreturn x',
    /over 2000000 steps/,
  ],
  ['a recursion', 'return (self).forward(x, )', /nested over 200 calls/],
  [
    'a list without end',
    'l = [x]\nfor i in range(60):\n  l0 = torch.add(l, l)\n  l = l0\nreturn x',
    /over 1000000 items/,
  ],
  ['a deep expression', `return ${'('.repeat(5000)}x${')'.repeat(5000)}`, /is nested over 300 times/],
  ['an import', 'import os\nreturn x', /"import" is no part of TorchScript/],
];
for (const [what, forward, message] of CODE) {
  test(`${what} ends within the limits`, { timeout: 120_000 }, async (t) => {
    await assert.rejects(convertScript(t, { forward }, OPTIONS), { code: 'bad_model', message });
  });
}

test('a pickle that names a dangerous global is only data', async (t) => {
  const pickle = Buffer.from('\u0080\u0002cos\nsystem\n(X\u0002\0\0\0lstR.', 'latin1');
  await assert.rejects(convertBytes(t, zip(new Map([['m/data.pkl', pickle]])), OPTIONS), {
    code: 'bad_model',
    message: /holds os\.system, which is no model/,
  });
});

const NAMES = ['../data.pkl', '/data.pkl', 'm/../../data.pkl', 'm\\data.pkl'];
for (const name of NAMES) {
  test(`an entry named ${name} is refused`, async (t) => {
    await assert.rejects(convertBytes(t, zip(new Map([[name, Buffer.from('')]])), OPTIONS), {
      code: 'bad_model',
      message: /leaves the archive/,
    });
  });
}

test('a state_dict and a module by name are refused with the export recipe', async (t) => {
  const weights = Buffer.from('\u0080\u0002}X\u0001\0\0\0wK\u0001s.', 'latin1');
  const module = Buffer.from('\u0080\u0002c__main__\nNet\n)\u0081}X\u0008\0\0\0_modules}sb.', 'latin1');
  for (const [pickle, message] of [
    [
      weights,
      /holds weights without a model .*torch\.jit\.trace\(model\.eval\(\), example_input\)\.save\("model\.pt"\)/,
    ],
    [module, /class __main__\.Net by name only, its code is not in the file; in Python: torch\.jit\.trace/],
  ] as const)
    await assert.rejects(convertBytes(t, zip(new Map([['m/data.pkl', pickle]])), OPTIONS), {
      code: 'bad_model',
      message,
    });
});
