/** What `start` and a deployment do with a model directory that is not ONNX: import it once, and keep that. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { modelOnTheWay } from '../../convert/cache.ts';
import type { Conversion, ConvertOptions } from '../../convert/conversion.ts';
import { GraphBuilder } from '../../convert/graph/builder.ts';
import { identityModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';

interface Setup {
  readonly directory: string;
  readonly cacheDir: string;
  /** What each conversion was asked for. */
  readonly asked: ConvertOptions[];
  readonly serve: (options?: {
    version?: string;
    import?: Parameters<typeof modelOnTheWay>[1]['import'];
  }) => ReturnType<typeof modelOnTheWay>;
}

async function setUp(t: TestContext): Promise<Setup> {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'model');
  const cacheDir = join(folder, 'data', 'imported');
  await mkdir(directory);
  await writeFile(join(directory, 'net.prototxt'), 'name: "net"');
  const asked: ConvertOptions[] = [];
  const converter = async (_found: unknown, options: ConvertOptions): Promise<Conversion> => {
    asked.push(options);
    const builder = new GraphBuilder();
    builder.output('y', builder.one('Relu', [builder.input('x', 'float32', ['N', 2])]));
    return { graph: builder.finish(), files: ['net.prototxt'], notes: ['a note of the converter'] };
  };
  const serve: Setup['serve'] = (options = {}) =>
    modelOnTheWay(directory, { cacheDir, version: '1', import: {}, converter, ...options });
  return { directory, cacheDir, asked, serve };
}

test('the first start imports and the second takes what is kept, and each says so in one line', async (t) => {
  const { serve, asked, directory, cacheDir } = await setUp(t);
  const first = await serve();
  assert.equal(first.fromCache, false);
  assert.ok(first.directory.startsWith(cacheDir));
  assert.ok(existsSync(join(first.directory, 'model.onnx')));
  assert.ok(first.notes[0]?.startsWith(`Caffe model ${directory}: imported in `), first.notes[0]);
  assert.ok(first.notes.includes('a note of the converter'));
  const second = await serve();
  assert.deepEqual([second.fromCache, second.directory], [true, first.directory]);
  assert.match(second.notes[0] as string, /Caffe model .*: taken from an earlier import in \d/);
  assert.equal(asked.length, 1);
});

test('files that were touched are the same model; other content, options or another converter are not', async (t) => {
  const { serve, asked, directory } = await setUp(t);
  const { directory: first } = await serve();
  await utimes(join(directory, 'net.prototxt'), new Date(), new Date());
  await writeFile(join(directory, 'readme.txt'), 'no part of the model');
  assert.equal((await serve()).directory, first);
  await appendFile(join(directory, 'net.prototxt'), '\n');
  const changed = await serve();
  const asks = await serve({ import: { inputs: { x: ['N', 2] }, outputs: ['y'], constants: { k: 1 } } });
  const newer = await serve({ version: '2' });
  assert.equal(new Set([first, changed.directory, asks.directory, newer.directory]).size, 4);
  assert.deepEqual(asked[2], { inputShapes: { x: ['N', 2] }, outputNames: ['y'], constants: { k: 1 } });
  assert.deepEqual(asked[3], {});
});

test('what is kept is imported again when a part of it is gone or cut', async (t) => {
  const { serve, asked } = await setUp(t);
  const { directory } = await serve();
  await truncate(join(directory, 'model.onnx'), 10);
  const repaired = await serve();
  assert.deepEqual([repaired.fromCache, repaired.directory], [false, directory]);
  assert.ok((await readFile(join(directory, 'model.onnx'))).length > 10);
  await rm(join(directory, 'passport.json'));
  assert.equal((await serve()).fromCache, false);
  assert.equal((await serve()).fromCache, true);
  assert.equal(asked.length, 3);
});

test('four imports are kept, the ones used last', async (t) => {
  const { serve, cacheDir } = await setUp(t);
  const { directory: first } = await serve();
  const old = new Date('2020-01-01');
  for (const version of ['2', '3', '4']) {
    const { directory } = await serve({ version });
    await utimes(directory, old, old);
  }
  await serve();
  const { directory: last } = await serve({ version: '5' });
  const names = await readdir(cacheDir);
  assert.equal(names.length, 4);
  for (const kept of [first, last]) assert.ok(existsSync(kept));
});

test('an ONNX directory is taken as it is, and settings of an import are told to do nothing', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel([{ name: 'x', dtype: 'float32', shape: ['N'] }]));
  const options = { cacheDir: join(folder, 'cache'), version: '1' };
  assert.deepEqual(await modelOnTheWay(folder, { ...options, import: {} }), { directory: folder, notes: [] });
  const { notes } = await modelOnTheWay(folder, { ...options, import: { signature: 'predict' } });
  assert.deepEqual(notes, ['import: no effect; the model is ONNX and is taken as it is']);
  assert.ok(!existsSync(options.cacheDir));
});

test('a model of a kind that is not imported ends the start with the way to ONNX', async (t) => {
  const { serve, directory } = await setUp(t);
  await rm(join(directory, 'net.prototxt'));
  await writeFile(join(directory, 'model.pt'), 'PK');
  await assert.rejects(serve(), {
    code: 'bad_model',
    message: /PyTorch .* does not import; in Python: torch\.onnx/,
  });
});
