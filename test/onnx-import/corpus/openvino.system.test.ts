/** Every OpenVINO model of the shared corpus through the whole import, compared with its reference where it has one. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openSession } from '../../../lib/inference/session.ts';
import { type Imported } from '../../../onnx-import/import/import.ts';
import { importModel } from '../../../release/import.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { temporaryFolder } from '../../support/runner.ts';

const CORPUS = sharedPath('corpus/openvino');

interface Manifest {
  readonly outputs: readonly unknown[];
  readonly tolerance: { readonly atol: number; readonly rtol: number };
  readonly notes: string;
}

/** The batch of these is theirs: suppression mixes the boxes of all images, and a scalar has no batch. */
const STATIC = new Set(['face-detection-adas-0001', 'ovms_scalar']);

const cleanups: (() => Promise<void>)[] = [];
after(() => Promise.all(cleanups.map((cleanup) => cleanup())));
const started = new Map<string, Promise<Imported>>();

/** Each model is imported once. */
function imported(name: string): Promise<Imported> {
  const found = started.get(name) ?? importNow(name);
  started.set(name, found);
  return found;
}

async function importNow(name: string): Promise<Imported> {
  const folder = join(CORPUS, name);
  const { outputs, tolerance } = manifestOf(name);
  const out = join(await temporaryFolder({ after: (cleanup) => cleanups.push(cleanup) }), 'out');
  const reference = outputs.length > 0 ? { reference: folder, tolerance } : {};
  return importModel(folder, { out, version: '1', measure: false, ...reference });
}

function manifestOf(name: string): Manifest {
  return JSON.parse(readFileSync(join(CORPUS, name, 'manifest.json'), 'utf8')) as Manifest;
}

const names = existsSync(CORPUS) ? readdirSync(CORPUS).sort() : [];
if (names.length === 0)
  test('the OpenVINO models of ../shared/corpus', { skip: 'they are not on this machine' });

for (const name of names) {
  test(`${name} equals its reference, or is refused as its manifest says`, async () => {
    const { outputs, notes } = manifestOf(name);
    if (notes.startsWith('NEGATIVE')) {
      await assert.rejects(imported(name), { code: 'bad_model' });
      return;
    }
    const { importReport } = await imported(name);
    assert.equal(importReport.check.reference, outputs.length > 0 ? 'agrees' : 'none given');
    assert.ok(importReport.check.runs);
    const isFree = importReport.inputs.every(({ shape }) => shape?.[0] === 'N');
    assert.equal(isFree, !STATIC.has(name));
    if (isFree) assert.equal(importReport.verification?.batching.verdict, 'proven');
  });
}

test('face-detection-adas-0001 finds nothing in noise, and ends its rows with -1', async (t) => {
  const name = 'face-detection-adas-0001';
  if (!names.includes(name)) return t.skip('it is not on this machine');
  const { directory } = await imported(name);
  const session = await openSession(join(directory, 'model.onnx'), { threads: 1 });
  t.after(() => session.close());
  const data = new Float32Array(3 * 384 * 672).fill(127);
  const [found] = await session.run([{ dtype: 'float32', shape: [1, 3, 384, 672], data }]);
  assert.deepEqual(found?.shape, [1, 1, 200, 7]);
  const rows = Array.from({ length: 200 }, (_, i) =>
    Array.from(found?.data.slice(7 * i, 7 * i + 7) ?? [], Number),
  );
  const end = rows.findIndex(([image]) => image === -1);
  assert.ok(end >= 0);
  assert.ok(
    rows
      .slice(0, end)
      .every(([image, label, score]) => image === 0 && label === 1 && (score as number) < 0.9),
  );
  assert.ok(rows.slice(end + 1).every((row) => row.every((value) => value === 0)));
});
