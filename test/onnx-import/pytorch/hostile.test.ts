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

/** A dict or a module as a pickle, in PyTorch's archive. */
const pickled = (text: string) =>
  zip(new Map([['m/data.pkl', Buffer.from(`\u0080\u0002${text}.`, 'latin1')]]));
const word = (text: string) => `X${String.fromCharCode(text.length)}\0\0\0${text}`;
const byName = (module: string, name: string) => `c${module}\n${name}\n)\u0081}${word('_modules')}}sb`;

test('a state_dict, a checkpoint and a module by name are refused with lines of Python to copy', async (t) => {
  for (const [pickle, ...lines] of [
    [
      `}${word('w')}K\u0001s`,
      'model.pt: holds weights without a model (a state_dict with w); run these lines',
      '  model.load_state_dict(torch.load("model.pt", map_location="cpu"))',
    ],
    [
      `}(${word('epoch')}K\u0001${word('state_dict')}}u`,
      '(a checkpoint with epoch, state_dict)',
      '  model.load_state_dict(torch.load("model.pt", map_location="cpu")["state_dict"])',
    ],
    [
      byName('__main__', 'Net'),
      'class __main__.Net by name only, its code is not in the file; run',
      '  from your_code import Net ',
      '  model = torch.load("model.pt", map_location="cpu", weights_only=False)',
    ],
    [byName('nets.small', 'Net'), '  from nets.small import Net '],
    [byName('os;x', 'N et'), '  from your_code import YourModel '],
  ] as const)
    await assert.rejects(convertBytes(t, pickled(pickle), OPTIONS), ({ code, message }: ServingError) => {
      assert.equal(code, 'bad_model');
      for (const line of [...lines, '  torch.jit.trace(model.eval(), example).save("traced/model.pt")'])
        assert.ok(message.includes(line), `${line} in ${message}`);
      return true;
    });
});
