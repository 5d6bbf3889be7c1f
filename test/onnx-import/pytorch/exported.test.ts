/** Programs of torch.export answer as torch does (exported.py), within 1e-5 of the spread of its answer, or are refused. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { asError, ServingError } from '../../../lib/contract/errors.ts';
import { openArchive } from '../../../onnx-import/files/zip.ts';
import { assertAnswers, importArchive, readCases } from '../support/pytorch/answers.ts';
import { zip } from '../support/pytorch/archive.ts';
import { convertBytes } from '../support/pytorch/run.ts';

const CASES = readCases(new URL('exported.json.gz', import.meta.url));
const bytesOf = (name: string) => {
  const found = CASES.find((each) => each.name === name);
  assert.ok(found);
  return Buffer.from(found.model, 'latin1');
};

suite('programs of torch.export', () => {
  for (const each of CASES.filter(({ name }) => !name.startsWith('refused'))) {
    test(`${each.name}: the converted program answers as torch does, with the shapes of the file`, async (t) => {
      const model = await importArchive(t, 'model.pt2', Buffer.from(each.model, 'latin1'));
      await assertAnswers(t, model, each);
    });
  }

  test('a program that keeps a state is refused, and so is one whose branches the data choose', async (t) => {
    await assert.rejects(
      importArchive(t, 'model.pt2', bytesOf('refused: state')),
      /model\.pt2: the program keeps a state from one call to the next \(buffer_mutation\), which cannot be served; .*model\.eval\(\)/,
    );
    await assert.rejects(
      importArchive(t, 'model.pt2', bytesOf('refused: branch')),
      /torch\.ops\.higher_order\.cond \(node "\w+"\): is not supported|as_graph is not supported/,
    );
  });

  test('a size that the program fixes cannot be changed, one that it leaves free can', async (t) => {
    const bytes = bytesOf('a network with a dict of outputs');
    await assert.rejects(
      importArchive(t, 'model.pt2', bytes, { x: [2, 3, 8, 8] }),
      /input "x" was exported as float32 \[N,3,4,4\], which --input cannot change; export it again, with dynamic_shapes/,
    );
    const fixed = CASES.find(({ name }) => name === 'a network with a dict of outputs');
    assert.ok(fixed);
    await assertAnswers(t, await importArchive(t, 'model.pt2', bytes, { x: [2, 3, 4, 4] }), fixed);
  });
});

/** A small generator, so that a failure can be repeated. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const WRONG: readonly unknown[] = [null, -1, 1e99, '', 'x', true, {}, [], { as_int: 3 }, [[]], 2 ** 40];

/** With one value of the JSON replaced. */
function broken(value: unknown, next: (below: number) => number): unknown {
  if (typeof value !== 'object' || value === null || next(9) === 0) return WRONG[next(WRONG.length)];
  const entries = Object.entries(value);
  if (entries.length === 0) return WRONG[next(WRONG.length)];
  const at = next(entries.length);
  const changed = entries.map(([key, item], i) => [key, i === at ? broken(item, next) : item] as const);
  return Array.isArray(value) ? changed.map(([, item]) => item) : Object.fromEntries(changed);
}

test('a program with a broken value is refused as a model, or converted', { timeout: 600_000 }, async (t) => {
  const bytes = bytesOf('weights that share a storage');
  const archive = openArchive(bytes, 'model.pt2', { entries: 100, unpackedBytes: 2 ** 24 });
  const names = archive.names.filter((name) => name.endsWith('.json'));
  const count = Number(process.env['PYTORCH_FUZZ'] ?? 300);
  let refused = 0;
  for (let seed = 0; seed < count; seed++) {
    const next = generator(seed);
    const broke = names[next(names.length)];
    const entries = archive.names.map((name) => {
      const own = Buffer.from(archive.read(name));
      const text = () => JSON.stringify(broken(JSON.parse(own.toString()), next));
      return [name, name === broke ? Buffer.from(text()) : own] as const;
    });
    try {
      await convertBytes(t, zip(new Map(entries)), {});
    } catch (error) {
      assert.ok(
        error instanceof ServingError && error.code === 'bad_model',
        `seed ${seed}: ${String(asError(error).stack)}`,
      );
      refused += 1;
    }
  }
  assert.ok(refused > count / 3, `${refused} refused`);
});
