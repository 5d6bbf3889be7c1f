/** What the growth bench measures with: its samples, its document, its stand-in for S3. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { platform } from 'node:os';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { CURVES } from '../../../bench/growth/curves.ts';
import { type CurveRun, pointsTable, renderDocument, writeDocument } from '../../../bench/growth/document.ts';
import { Growth } from '../../../bench/growth/growth.ts';
import { largeModel } from '../../../bench/growth/models.ts';
import { samplePoint } from '../../../bench/growth/sample.ts';
import { withBlock } from '../../../bench/markers.ts';
import { describeMachine } from '../../../bench/report.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import { findModelFile } from '../../../lib/registry/onnx-file.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { openS3 } from '../../../lib/s3/objects.ts';
import { useAws } from '../../support/environment.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MB = 1e6;

before(() => {
  setFlagsFromString('--expose-gc');
  globalThis.gc = runInNewContext('gc') as typeof globalThis.gc;
});

const close = async () => undefined;
const MACHINE = describeMachine(fileURLToPath(new URL('../../..', import.meta.url)), 'npm run bench:growth');

test('memory that is let go of counts for the peak and not for what is kept', async (t) => {
  if (platform() !== 'linux') return t.skip('the peak is read from /proc, which only Linux has');
  const call = async () => Buffer.alloc(96 * MB, 1).length;
  const sample = await samplePoint({ call, close, once: true }, 1);
  assert.ok((sample['peakBytes'] ?? 0) > 80 * MB, `${sample['peakBytes']}`);
  assert.ok((sample['retainedBytes'] ?? 0) < 40 * MB, `${sample['retainedBytes']}`);
});

test('memory that stays counts as kept', async () => {
  const kept: Buffer[] = [];
  const call = async () => kept.push(Buffer.alloc(96 * MB, 1));
  const sample = await samplePoint({ call, close, once: true }, 1);
  assert.ok((sample['retainedBytes'] ?? 0) > 80 * MB, `${sample['retainedBytes']}`);
  assert.equal(kept.length, 1);
});

test('what can be done once is called once, anything else at least three times more, each after its preparation', async () => {
  const told: string[] = [];
  const work = {
    prepare: async () => told.push('prepare'),
    call: async () => told.push('call'),
    verify: async () => told.push('verify'),
    release: () => void told.push('release'),
    facts: async () => ({ told: told.length }),
    close,
  };
  assert.equal((await samplePoint({ ...work, once: true }, 1))['told'], 4);
  assert.deepEqual(told.splice(0), ['prepare', 'call', 'verify', 'release']);
  await samplePoint(work, 0);
  const first = ['prepare', 'call', 'verify', 'release'];
  const again = ['prepare', 'call', 'release'];
  assert.deepEqual(told, [...first, ...again, ...again, ...again]);
});

test('a wrong answer ends the point', async () => {
  const verify = () => Promise.reject(new Error('another row'));
  await assert.rejects(samplePoint({ call: close, verify, close }, 1), /another row/);
});

test('each curve and its work are in the file of its name, where the process of a point looks for them', async () => {
  for (const curve of CURVES) {
    const file = (await import(`../../../bench/growth/curves/${curve.name}.ts`)) as Record<string, unknown>;
    assert.deepEqual([file['curve'], typeof file['open']], [curve, 'function'], curve.name);
  }
});

test('a block of the document is replaced between its markers, and the rest stays', () => {
  const page = 'a\n<!-- growth:x -->\nold\n<!-- /growth:x -->\nb\n';
  const once = withBlock(page, 'growth:x', 'new $1');
  assert.equal(once, 'a\n<!-- growth:x -->\nnew $1\n<!-- /growth:x -->\nb\n');
  assert.equal(withBlock(once, 'growth:x', 'new $1'), once);
  assert.throws(() => withBlock(page, 'growth:y', ''), /no <!-- growth:y -->/);
});

function runOf(name: string, ms: number): CurveRun {
  const spread = { median: ms, low: ms, high: ms };
  return {
    machine: MACHINE,
    loadAfter: 0,
    curve: {
      name,
      about: name,
      xLabel: 'size',
      metrics: [{ key: 'ms', label: 'time', unit: 'ms', atMost: 1.1, picture: 'time' }],
      series: [
        {
          name: 'one',
          points: [
            { x: 10, values: { ms: spread } },
            { x: 100, values: { ms: { ...spread, low: ms * 1_000, median: ms * 1_000 } } },
            { x: 1_000, values: {}, skipped: 'the disk is too small' },
          ],
        },
      ],
      repeats: 1,
      seconds: 1,
    },
  };
}

test('a run of one curve leaves the others of the document as they are, and the summary tells of all', async (t) => {
  const folder = await temporaryFolder(t);
  const page = join(folder, 'growth.md');
  const markers = ['summary', 'first', 'second'].map(
    (name) => `<!-- growth:${name} -->\n<!-- /growth:${name} -->`,
  );
  await writeFile(page, markers.join('\n'));
  await writeDocument(page, [runOf('first', 0.5), runOf('second', 0.25)]);
  const first = await readFile(page, 'utf8');
  await writeDocument(page, [runOf('second', 0.125)]);
  const after = await readFile(page, 'utf8');
  const block = (text: string, name: string) => text.split(`growth:${name} -->`)[1];
  assert.equal(block(after, 'first'), block(first, 'first'));
  assert.notEqual(block(after, 'second'), block(first, 'second'));
  assert.match(after, /one, time: 3\.00/);
  assert.equal((after.match(/one, time: 3\.00/g) ?? []).length, 2);
  assert.match(await readFile(join(folder, 'growth', 'second-time.svg'), 'utf8'), /^<svg /);
  assert.match(after, /!\[second\]\(growth\/second-time\.svg\)/);
});

test('the document written anew of its own numbers is judged by the limits of today', async (t) => {
  const page = join(await temporaryFolder(t), 'growth.md');
  const markers = ['summary', 'x'].map((name) => `<!-- growth:${name} -->\n<!-- /growth:${name} -->`);
  await writeFile(page, markers.join('\n'));
  const run = runOf('x', 1);
  await writeDocument(page, [run]);
  const written = await readFile(page, 'utf8');
  const curve = { ...run.curve, series: [], prepare: () => Promise.reject(new Error('measured')) };
  await renderDocument(page, [curve]);
  assert.equal(await readFile(page, 'utf8'), written);
  const [metric] = curve.metrics;
  assert.ok(metric && written.includes('**worse than linear**'));
  await renderDocument(page, [{ ...curve, metrics: [{ ...metric, atMost: 5 }] }]);
  assert.doesNotMatch(await readFile(page, 'utf8'), /\*\*worse than linear\*\*/);
});

test('a curve of which nothing can be drawn has its tables and no picture', async (t) => {
  const page = join(await temporaryFolder(t), 'growth.md');
  await writeFile(
    page,
    '<!-- growth:summary -->\n<!-- /growth:summary -->\n<!-- growth:x -->\n<!-- /growth:x -->',
  );
  await writeDocument(page, [runOf('x', 0)]);
  const text = await readFile(page, 'utf8');
  assert.doesNotMatch(text, /!\[/);
  assert.match(text, /\| +10 \| +0 ms \|/);
});

test('a point that could not be measured says why, and shows no number', () => {
  const table = pointsTable(runOf('x', 1).curve).split('\n');
  assert.match(table.at(-1) ?? '', /^\| 1,000 \| not measured: the disk is too small \|$/);
  assert.match(table.at(-3) ?? '', /^\| +10 \| +1\.00 ms \|$/);
});

test('the stand-in for S3 gives back what was published to it, and a model with its weights beside it opens', async (t) => {
  const growth = await Growth.open();
  t.after(() => growth.close());
  const keys = { AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local' };
  useAws(keys);
  const { endpoint, clear } = await growth.objects();
  const s3 = openS3({ endpoint, region: 'local' });
  t.after(() => s3.destroy());
  // Three parts of 8 MiB, the last not whole.
  const model = await largeModel(join(growth.folder, 'model'), 5 * 4 * 1024 * 1024, true);
  const location = { bucket: 'growth', prefix: 'published/' };
  const published = await publishModel(s3, location, model.folder);
  assert.deepEqual(
    published.files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })),
    model.files.toSorted((a, b) => a.path.localeCompare(b.path)),
  );
  const directory = join(growth.folder, 'downloads');
  await mkdir(directory);
  const downloaded = await downloadModel(s3, location, await readPointer(s3, location), directory);
  const settings = { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: {} };
  const runner = await openOnnx(await findModelFile(downloaded), 'v', settings);
  const data = new Float32Array(1_024).fill(1);
  const tensor = { dtype: 'float32', shape: [1_024], data } as const;
  const [outcome] = await runner.run([new Map([['x', { kind: 'tensor', tensor }]])]);
  await runner.close();
  assert.ok(outcome?.ok);
  assert.ok((outcome.outputs[0]?.data as Float32Array).every(Number.isFinite));
  await clear('published/');
  await assert.rejects(readPointer(s3, location), { code: 'model_unavailable' });
});
