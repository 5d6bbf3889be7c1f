/** What `start` and a deployment do with a model directory that is not ONNX: import it once, and keep that. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { servedModel } from '../../../local/service/model.ts';
import { converterHash, hashOf } from '../../../onnx-import/converter-hash.ts';
import type { Conversion } from '../../../onnx-import/formats/conversion.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import { modelOnTheWay } from '../../../release/cache.ts';
import { parseConfig } from '../../support/config.ts';
import { models, UNMEASURED } from '../../support/models.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

interface Setup {
  readonly directory: string;
  readonly cacheDir: string;
  /** What each conversion was asked for. */
  readonly asked: ConvertOptions[];
  readonly serve: (options?: {
    version?: string;
    import?: JobConfig['import'];
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
  const serve: Setup['serve'] = ({ version = '1', import: settings = {} } = {}) =>
    modelOnTheWay(directory, {
      cacheDir,
      version,
      job: { ...DEFAULT_JOB, import: settings },
      converter,
      process: models,
      ...UNMEASURED,
    });
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
  await rm(join(directory, 'import-report.json'));
  assert.equal((await serve()).fromCache, false);
  assert.equal((await serve()).fromCache, true);
  assert.equal(asked.length, 3);
});

test('what is kept and was changed since is not served: it is imported again, and that is reported', async (t) => {
  const { serve, asked } = await setUp(t);
  const { directory } = await serve();
  const path = join(directory, 'model.onnx');
  const bytes = await readFile(path);
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
  await writeFile(path, bytes);
  const again = await serve();
  assert.deepEqual([again.fromCache, asked.length], [false, 2]);
  assert.match(
    again.notes.join('\n'),
    /an earlier import was not used: .*model\.onnx is no longer what its import report/,
  );
  assert.notDeepEqual(await readFile(path), bytes);
});

test("the converters' hash is another when any file of theirs is", async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'a.ts'), 'a');
  await writeFile(join(folder, 'b.ts'), 'b');
  const before = await hashOf(folder, ['a.ts', 'b.ts']);
  assert.equal(await hashOf(folder, ['a.ts', 'b.ts']), before);
  await writeFile(join(folder, 'b.ts'), 'B');
  assert.notEqual(await hashOf(folder, ['a.ts', 'b.ts']), before);
  assert.match(await converterHash(), /^[0-9a-f]{16}$/);
  assert.notEqual(await converterHash(), await hashOf(folder, []));
});

test('what another converter made is not taken for this one', async (t) => {
  const { serve, cacheDir } = await setUp(t);
  const { directory, importReport } = await serve();
  const sources = importReport?.source.files;
  const withoutCode = createHash('sha256').update(JSON.stringify(['caffe', sources, {}, '1']));
  assert.notEqual(directory, join(cacheDir, withoutCode.digest('hex').slice(0, 16)));
});

test('a setting without effect on this kind of model is reported', async (t) => {
  const { serve } = await setUp(t);
  const { notes } = await serve({ import: { signature: 'predict' } });
  assert.match(notes.join('\n'), /^import\.signature: no effect; only a SavedModel of TensorFlow has it/m);
});

test('an error on the way names the directory, and settings of config.yaml in place of options', async (t) => {
  const { directory, cacheDir } = await setUp(t);
  const failing = (message: string) => async () => {
    throw new ServingError('bad_model', message);
  };
  const said = async (message: string) => {
    const options = { cacheDir, version: '1', job: DEFAULT_JOB, converter: failing(message) };
    const error = await modelOnTheWay(directory, options).catch((thrown: Error) => thrown);
    return (error as Error).message;
  };
  assert.equal(
    await said('give it with --input data:<shape>, like data:1,3,224,224'),
    `model directory ${directory}: give it with import.inputs: {data: [1,3,224,224]} in config.yaml`,
  );
  assert.match(
    await said('needs fixed sizes; give them with --input'),
    /with import\.inputs in config\.yaml$/,
  );
  assert.match(await said('name the outputs with --output'), /with import\.outputs in config\.yaml$/);
});

test('an error of a start names the job, too, and each stage is reported', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(
    join(folder, 'net.prototxt'),
    'input: "data"\nlayer { name: "odd" type: "Mystery" bottom: "data" top: "odd" }',
  );
  const told: string[] = [];
  const job = { ...DEFAULT_JOB, jobName: 'second' };
  const started = servedModel(job, folder, join(folder, 'data'), (line) => told.push(line));
  await assert.rejects(started, ({ code, message }: ServingError) => {
    assert.equal(code, 'bad_model');
    assert.ok(message.startsWith(`job second: model directory ${folder}: `), message);
    assert.doesNotMatch(message, /--input/);
    return true;
  });
  assert.deepEqual(told, [`job second: importing ${folder}: converting`]);
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

test('an ONNX directory is used unchanged, and settings of an import are reported to have no effect', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel([{ name: 'x', dtype: 'float32', shape: ['N'] }]));
  const options = { cacheDir: join(folder, 'cache'), version: '1' };
  assert.deepEqual(await modelOnTheWay(folder, { ...options, job: DEFAULT_JOB }), {
    directory: folder,
    notes: [],
  });
  const { notes } = await modelOnTheWay(folder, {
    ...options,
    job: { ...DEFAULT_JOB, import: { signature: 'predict' } },
  });
  assert.deepEqual(notes, ['import: no effect; the model is ONNX and is used unchanged']);
  assert.ok(!existsSync(options.cacheDir));
});

test('a file that is not imported ends the start with what to do', async (t) => {
  const { serve, directory } = await setUp(t);
  await rm(join(directory, 'net.prototxt'));
  await writeFile(join(directory, 'net.keras'), 'x');
  await assert.rejects(serve(), {
    code: 'bad_model',
    message: /net\.keras is a Keras file; in Python: keras\.models\.load_model/,
  });
});

test('a shape in config.yaml that is one number, and a name that stands twice, are refused with what was expected', () => {
  const read = (section: string) => parseConfig(`import: ${section}`, 'config.yaml').import;
  const refuse = (section: string, message: RegExp) =>
    assert.throws(() => read(section), { code: 'bad_config', message });
  refuse('{inputs: {input: 5}}', /inputs: expected names \[a, b\], .*or \{a: "N,3,224,224"\}/);
  refuse('{inputs: {input: N}}', /inputs: expected names/);
  refuse('{outputs: [prob, prob]}', /outputs: expected names, each once/);
  assert.deepEqual(read('{inputs: {input: "N,3,8,8"}}'), { inputs: { input: ['N', 3, 8, 8] } });
  assert.deepEqual(read('{inputs: {input: [5]}}'), { inputs: { input: [5] } });
  assert.deepEqual(read('{inputs: {input: "[5]"}}'), { inputs: { input: [5] } });
});
