/** An import from a test-made conversion or an ONNX file: what is written, checked, told, and refused. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as afterIo } from 'node:timers/promises';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { checkOnnx } from '../../../onnx-import/check/check.ts';
import { measureMemory } from '../../../onnx-import/check/memory.ts';
import type { Conversion } from '../../../onnx-import/formats/conversion.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import type { Shape, Value } from '../../../onnx-import/graph/value.ts';
import { temporaryBeside } from '../../../onnx-import/import/output-folder.ts';
import { onnxBytes, writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { type ImportReport, importReportText } from '../../../onnx-import/report/import-report.ts';
import { type ImportOptions, importModel } from '../../../release/import.ts';
import { SERVICE } from '../../../release/service-words.ts';
import { models } from '../../support/models.ts';
import { identityModel, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { npyBytes } from '../support/npy-bytes.ts';

/** Without measuring, which takes a fresh process. */
const QUICK = { version: '1', measure: false, process: models } as const;
const SETTINGS = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };

interface Place {
  readonly directory: string;
  readonly out: string;
}

async function placeWith(
  t: TestContext,
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<Place> {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'model');
  await mkdir(directory);
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content);
  return { directory, out: join(folder, 'out') };
}

/** Through a conversion of our own, in place of Caffe's. */
async function importGraph(
  t: TestContext,
  conversion: Partial<Conversion> & { readonly graph: Conversion['graph'] },
  options: Partial<ImportOptions> = {},
) {
  const place = await placeWith(t, { 'net.prototxt': 'name: "net"' });
  const converter = async () => ({ files: ['net.prototxt'], notes: [], ...conversion });
  const given = { ...QUICK, version: '1.2.3', out: place.out, converter };
  const own = options.measure ? { process: undefined } : {};
  return importModel(place.directory, { ...given, ...own, ...options });
}

/** One node on one input. */
function graphOf(op: string, shape: Shape, attributes = {}): Conversion['graph'] {
  const builder = new GraphBuilder();
  const x = builder.input('x', 'float32', shape);
  builder.output('y', builder.one(op, [x], attributes));
  return builder.finish();
}

async function onnxPlace(t: TestContext): Promise<Place> {
  return placeWith(t, { 'any.onnx': identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]) });
}

describe('an import', () => {
  test('writes an ONNX model that serves, and an import report that tells of it', async (t) => {
    const { directory, importReport } = await importGraph(
      t,
      { graph: graphOf('Relu', ['N', 3]), notes: ['an output was renamed'] },
      { measure: true, convert: { inputShapes: { x: ['N', 3] } } },
    );
    assert.deepEqual((await readdir(directory)).sort(), [
      'import-report.json',
      'import-report.md',
      'model.onnx',
    ]);
    assert.deepEqual(JSON.parse(await readFile(join(directory, 'import-report.json'), 'utf8')), importReport);
    assert.equal(
      await readFile(join(directory, 'import-report.md'), 'utf8'),
      `${importReportText(importReport, SERVICE)}\n`,
    );
    const { source, model, check } = importReport;
    assert.equal(source.format, 'caffe');
    assert.deepEqual(
      source.files.map(({ path, bytes }) => [path, bytes]),
      [['net.prototxt', 11]],
    );
    assert.match(source.files[0]?.sha256 ?? '', /^[0-9a-f]{64}$/);
    assert.deepEqual(importReport.converter, { name: 'onnx-import', version: '1.2.3' });
    assert.deepEqual(importReport.options, { inputShapes: { x: ['N', 3] } });
    assert.deepEqual(importReport.notes, ['an output was renamed']);
    assert.deepEqual([model.file, model.opset, model.irVersion], ['model.onnx', 17, 8]);
    assert.equal(model.bytes, (await readFile(join(directory, 'model.onnx'))).length);
    assert.deepEqual(importReport.inputs, [
      {
        name: 'x',
        dtype: 'float32',
        shape: ['N', 3],
        dynamicAxes: { 0: 'N' },
        origin: { shape: 'options', rows: 'options', dtype: 'format' },
      },
    ]);
    assert.deepEqual(check, { loads: true, runs: true, reference: 'none given', nan: {} });
    assert.ok(importReport.measured.loadMs > 0 && (importReport.measured.latencyP50Ms ?? 0) > 0);
    assert.ok(importReport.measured.lambda.fits);
    assert.equal(importReport.measured.memoryShapes, undefined);
    const runner = await openOnnx(join(directory, 'model.onnx'), 'v', SETTINGS);
    t.after(() => runner.close());
    const tensor = { dtype: 'float32', shape: [3], data: Float32Array.of(-1, 0, 2) } as const;
    const [outcome] = await runner.run([new Map([['x', { kind: 'tensor', tensor }]])]);
    assert.ok(outcome?.ok);
    assert.deepEqual([...(outcome.outputs[0]?.data as Float32Array)], [0, 0, 2]);
  });

  test('twice gives the same import report but for what was measured', async (t) => {
    const importReports: ImportReport[] = [];
    for (let i = 0; i < 2; i++)
      importReports.push((await importGraph(t, { graph: graphOf('Relu', ['N', 3]) })).importReport);
    const [first, second] = importReports.map((importReport) => ({ ...importReport, measured: undefined }));
    assert.deepEqual(first, second);
  });

  test('of a model whose rows depend on each other says so, and its records run one by one', async (t) => {
    const builder = new GraphBuilder();
    const x = builder.input('x', 'float32', ['N', 3]);
    const sum = builder.one('ReduceSum', [x, builder.ints([0])], { keepdims: 1 });
    builder.output('y', builder.one('Sub', [x, sum]));
    const { directory, importReport } = await importGraph(t, { graph: builder.finish() });
    const { verification } = importReport;
    const { verdict, operator } = verification?.batching ?? {};
    assert.deepEqual([verdict, operator], ['not proven', 'ReduceSum']);
    assert.match(
      importReportText(importReport, SERVICE),
      /- verification: records run one by one: ReduceSum \(node ".*"\): it reduces along the batch axis/,
    );
    const runner = await openOnnx(join(directory, 'model.onnx'), 'v', { ...SETTINGS, verification });
    t.after(() => runner.close());
    const record = (value: number) => {
      const tensor = { dtype: 'float32', shape: [3], data: new Float32Array(3).fill(value) } as const;
      return new Map([['x', { kind: 'tensor', tensor } as const]]);
    };
    const outcomes = await runner.run([record(1), record(2)]);
    for (const outcome of outcomes) assert.ok(outcome.ok && outcome.outputs[0]?.data[0] === 0);
  });

  test('of a model that runs one row only is not proven, and is measured with one row', async (t) => {
    const builder = new GraphBuilder();
    const x = builder.input('x', 'float32', ['N', 4]);
    builder.output('y', builder.one('Reshape', [x, builder.ints([1, 2, 2])]));
    const { importReport } = await importGraph(t, { graph: builder.finish() }, { measure: true });
    assert.equal(importReport.verification?.batching.operator, 'Reshape');
    assert.deepEqual(
      importReport.measured.memoryByRows?.map(({ rows }) => rows),
      [1],
    );
  });

  test('of a model with a free size says with which shapes its memory was measured', async (t) => {
    const { importReport } = await importGraph(t, { graph: graphOf('Relu', ['N', 'L']) }, { measure: true });
    const { memoryByRows, memoryShapes } = importReport.measured;
    assert.equal(memoryShapes?.length, 1);
    assert.equal(memoryShapes[0]?.length, 2);
    assert.match(
      importReportText(importReport, SERVICE),
      new RegExp(`larger inputs than .*${memoryShapes[0]?.[1]}`),
    );
    assert.ok(memoryByRows?.every(({ peakBytes }) => peakBytes > 0));
  });

  test('reports NaN in the outputs', async (t) => {
    const builder = new GraphBuilder();
    const x = builder.input('x', 'float32', ['N', 3]);
    const negative = builder.one('Sub', [x, builder.scalar('float32', 2)]);
    builder.output('y', builder.one('Log', [negative]));
    const { importReport } = await importGraph(t, { graph: builder.finish() });
    assert.deepEqual(importReport.check.nan, { y: 3 });
    assert.match(importReportText(importReport, SERVICE), /NaN: 3 in output "y"/);
  });

  test('of a model that loads and does not run is refused, unless free sizes leave it open', async (t) => {
    const reshaped = (shape: Shape) => {
      const builder = new GraphBuilder();
      const x = builder.input('x', 'float32', shape);
      builder.output('y', builder.one('Reshape', [x, builder.ints([1, 7, 11])]));
      return builder.finish();
    };
    const refused = { code: 'bad_model', message: /was converted but does not run: .*Reshape/ };
    await assert.rejects(importGraph(t, { graph: reshaped(['N', 4]) }), refused);
    const { importReport } = await importGraph(t, { graph: reshaped(['N', 'M']) });
    assert.equal(importReport.check.runs, false);
    assert.match(importReport.notes.join(), /no made-up input was accepted \(.*\): .* --input name:shape/);
    const { fits, fitsDefault, memoryMB } = importReport.measured.lambda;
    assert.deepEqual([fits, fitsDefault, memoryMB], [null, null, null]);
    assert.match(importReportText(importReport, SERVICE), /- Lambda: unknown; /);
    assert.doesNotMatch(importReportText(importReport, SERVICE), /as measured here/);
  });

  test('of a classifier of pictures says how they are fed, and asks for config lines only where the shape does not', async (t) => {
    const shaped = async (shape: Shape, layout: 'chw' | 'hwc') => {
      const image = { layout, channels: 'bgr' } as const;
      return (await importGraph(t, { graph: graphOf('Relu', shape), image })).importReport;
    };
    const known = await shaped(['N', 8, 6, 3], 'hwc');
    assert.deepEqual(known.images, [{ input: 'x', layout: 'hwc', channels: 'bgr', height: 8, width: 6 }]);
    assert.deepEqual(known.config, []);
    const chw = await shaped(['N', 3, 8, 6], 'chw');
    assert.deepEqual([chw.images[0]?.layout, chw.config], ['chw', []]);
    const open = await shaped(['N', 8, 6, 'C'], 'hwc');
    assert.deepEqual(open.config, ['image:', '  layout: hwc']);
    assert.match(
      importReportText(open, SERVICE),
      /For config\.yaml:\n\n```yaml\nimage:\n {2}layout: hwc\n```/,
    );
  });

  test('of an input of unknown rank is checked, and says what is lost without its shape', async (t) => {
    const builder = new GraphBuilder();
    const x = builder.input('x', 'float32', undefined);
    const weights = builder.constant({ dtype: 'float32', shape: [8, 2], data: new Float32Array(16).fill(1) });
    const results = [{ dtype: 'float32', shape: undefined }] as const;
    builder.output('y', builder.add('MatMul', [x, weights], {}, { results })[0] as Value);
    const { importReport } = await importGraph(t, { graph: builder.finish() });
    assert.equal(importReport.check.runs, true);
    assert.equal(importReport.verification?.batching.verdict, 'not proven');
    assert.match(importReport.notes.join(), /input "x" declares no shape.*--input "x:N,\.\.\."/);
    assert.deepEqual([importReport.inputs[0]?.shape, importReport.outputs[0]?.shape], [null, null]);
    assert.match(
      importReportText(importReport, SERVICE),
      /- input x: float32, shape not given \(dtype of the format\)\n- output y: float32, shape not given/,
    );
  });

  test('measures the memory of as many rows as the default settings run, and of one', async (t) => {
    const rowsOf = async (shape: Shape) => {
      const made = await importGraph(t, { graph: graphOf('Relu', shape) }, { measure: true });
      const { measured } = made.importReport;
      return [measured.memoryByRows?.map(({ rows }) => rows), measured.lambda.rows];
    };
    assert.deepEqual(await rowsOf(['N', 3]), [[1, 2, 4, 10, 32], 32]);
    assert.deepEqual(await rowsOf([4, 3]), [[4], 4]);
  });

  test('of a model of large rows measures as many as the most bytes of a run hold', async () => {
    // 12 rows of 10.5 MB are 128 MiB. A session that runs nothing, because the numbers of rows are all that is asked.
    const row = {
      dtype: 'float32',
      shape: [1, 3, 720, 1_216],
      data: new Float32Array(3 * 720 * 1_216),
    } as const;
    const ran: number[] = [];
    const inputsOf = (rows: readonly number[]) => {
      ran.push(rows.length);
      return [];
    };
    const session = { inputs: [], outputs: [], run: async () => [], close: async () => undefined };
    const alone = { feeds: [row], inputsOf, isFree: true, isShared: true, before: 0, peakBytes: 0 };
    const { rows, points } = await measureMemory(session, alone);
    assert.deepEqual([rows, points.map(({ rows: count }) => count)], [12, [1, 2, 4, 12]]);
    assert.deepEqual(ran, [2, 4, 12]);
  });

  test('of a model that takes much for each row needs the memory of all its rows', async (t) => {
    const builder = new GraphBuilder();
    const x = builder.input('x', 'float32', ['N', 1]);
    // 2 MB for each row.
    const wide = builder.one('Expand', [x, builder.ints([1, 512 * 1024])]);
    builder.output('y', builder.one('ReduceMax', [wide], { axes: [1], keepdims: 1 }));
    const { measured } = (await importGraph(t, { graph: builder.finish() }, { measure: true })).importReport;
    const [one, , , , all] = measured.memoryByRows ?? [];
    assert.ok(
      one && all && all.peakBytes - one.peakBytes > 50 * 2 ** 20,
      JSON.stringify(measured.memoryByRows),
    );
    assert.ok((measured.lambda.memoryMB ?? 0) * 2 ** 20 > all.peakBytes);
  });

  test('that is called off ends with its reason and leaves nothing behind', async (t) => {
    const place = await placeWith(t, { 'net.prototxt': 'name: "net"' });
    for (const at of ['converting', 'writing', 'checking', 'verifying']) {
      const stop = new AbortController();
      const onStage = (stage: string) => {
        if (stage === at) setImmediate(() => stop.abort(new ServingError('cancelled', 'called off')));
      };
      const converter = async () => {
        await afterIo();
        return { files: ['net.prototxt'], notes: [], graph: graphOf('Relu', ['N', 3]) };
      };
      const called = importModel(place.directory, {
        version: '1',
        out: place.out,
        converter,
        onStage,
        signal: stop.signal,
      });
      await assert.rejects(called, { code: 'cancelled', message: 'called off' });
      assert.deepEqual(await readdir(join(place.out, '..')), ['model'], at);
    }
  });

  test('takes away what killed imports into the same place left, and not what one under way has', async (t) => {
    const { directory, out } = await onnxPlace(t);
    const parent = join(out, '..');
    const ours = basename(await temporaryBeside(out));
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    const left = ours.replace(`-${process.pid}-`, `-${gone}-`);
    assert.notEqual(left, ours);
    await mkdir(join(parent, left));
    await mkdir(join(parent, left.replace('.out.', '.other.')));
    await importModel(directory, { out, ...QUICK });
    assert.deepEqual(
      (await readdir(parent)).sort(),
      [ours, left.replace('.out.', '.other.'), 'model', 'out'].sort(),
    );
  });

  test('that was killed while it took its place has what was there before put back by the next one', async (t) => {
    const { directory, out } = await onnxPlace(t);
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    const name = basename(await temporaryBeside(out)).replace(`-${process.pid}-`, `-${gone}-`);
    await mkdir(join(out, '..', `${name}-before`));
    await writeFile(join(out, '..', `${name}-before`, 'import-report.md'), 'the one before');
    await rm(directory, { recursive: true });
    await temporaryBeside(out);
    assert.equal(await readFile(join(out, 'import-report.md'), 'utf8'), 'the one before');
  });

  test('into a place that cannot take back what was there before says so', async (t) => {
    const { out } = await onnxPlace(t);
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    const name = basename(await temporaryBeside(out)).replace(`-${process.pid}-`, `-${gone}-`);
    await mkdir(join(out, '..', `${name}-before`));
    // A link to nothing is no folder, and none can be moved there.
    await symlink(join(out, '..', 'nowhere'), out);
    await assert.rejects(temporaryBeside(out), { code: 'bad_config', message: /--out .*out cannot be made/ });
  });

  test('with a setting that only SavedModels have is refused for any other', async (t) => {
    for (const convert of [{ signature: 'predict' }, { tags: ['serve'] }]) {
      await assert.rejects(importGraph(t, { graph: graphOf('Relu', ['N', 3]) }, { convert }), {
        code: 'bad_config',
        message: new RegExp(`^${Object.keys(convert)[0]}: no effect; only a SavedModel .* a model of Caffe`),
      });
    }
  });

  test('tells its stages, and how far the writing is', async (t) => {
    const stages: string[] = [];
    const onStage = (stage: string, done?: number, total?: number) =>
      stages.push(done === total && total !== undefined ? `${stage} all` : stage);
    await importGraph(t, { graph: graphOf('Relu', ['N', 3]) }, { onStage });
    assert.equal(stages[0], 'reading');
    assert.deepEqual(
      [...new Set(stages)],
      ['reading', 'converting', 'writing', 'writing all', 'checking', 'verifying'],
    );
  });
});

describe('a reference', () => {
  const give = async (t: TestContext, files: Readonly<Record<string, Uint8Array>>) => {
    const { directory } = await placeWith(t, files);
    return importGraph(t, { graph: graphOf('Relu', ['N', 3]) }, { reference: directory });
  };
  const input = npyBytes([2, 3], Float32Array.of(-1, 0, 1, 2, -2, 3));

  test('that the model meets is in the import report with its largest error', async (t) => {
    const { importReport } = await give(t, {
      'in_x.npy': input,
      'out_y.npy': npyBytes([2, 3], Float32Array.of(0, 0, 1, 2, 0, 3.00001)),
    });
    assert.equal(importReport.check.reference, 'agrees');
    const error = importReport.measured.referenceMaxError?.['y'] as number;
    assert.ok(error > 0.5e-5 && error < 2e-5, String(error));
  });

  test('that the model does not meet ends the import with the output and its error', async (t) => {
    const wrong = give(t, {
      'in.npy': input,
      'out.npy': npyBytes([2, 3], Float32Array.of(0, 0, 1, 2, 0, 4)),
    });
    await assert.rejects(wrong, {
      code: 'bad_model',
      message: /not those of the reference: "y" is off by 1 /,
    });
    const cut = give(t, { 'in.npy': input, 'out.npy': npyBytes([5], new Float32Array(5)) });
    await assert.rejects(cut, { code: 'bad_model', message: /"y" shape \[2,3\], expected \[5\]/ });
  });

  test('may have one input more, which the import replaced, and lack a dimension of one', async (t) => {
    const { importReport } = await give(t, {
      'in_x.npy': npyBytes([3], Float32Array.of(-1, 0, 1)),
      'in_keep_prob.npy': npyBytes([], new Float32Array(1)),
      'out_y.npy': npyBytes([3], Float32Array.of(0, 0, 1)),
    });
    assert.equal(importReport.check.reference, 'agrees');
  });

  test('that fits no input, or is none, is refused by name', async (t) => {
    const unmatched = give(t, { 'in_z.npy': input, 'in_q.npy': input, 'out.npy': input });
    await assert.rejects(unmatched, {
      code: 'bad_model',
      message: /"q", "z" is not an input of the model; its inputs: x/,
    });
    const nothing = give(t, { 'in.npy': input });
    await assert.rejects(nothing, { code: 'bad_model', message: /expected in\.npy and out\.npy.*found in$/ });
    const ints = give(t, { 'in.npy': npyBytes([1, 3], new Int32Array(3)), 'out.npy': input });
    await assert.rejects(ints, {
      code: 'bad_model',
      message: /input "x" is float32, its reference is int32/,
    });
    const wide = give(t, { 'in.npy': npyBytes([2, 4], new Float32Array(8)), 'out.npy': input });
    await assert.rejects(wide, {
      code: 'bad_model',
      message: 'reference: input "x" has the shape [N,3], its reference [2,4]',
    });
    const garbage = give(t, { 'in.npy': Buffer.from('x'), 'out.npy': input });
    await assert.rejects(garbage, { code: 'bad_model', message: /in\.npy: no \.npy file/ });
  });
});

describe('an ONNX model', () => {
  test('is checked and passed through byte by byte', async (t) => {
    const { directory, out } = await onnxPlace(t);
    const { importReport } = await importModel(directory, { out, ...QUICK });
    assert.deepEqual(await readFile(join(out, 'model.onnx')), await readFile(join(directory, 'any.onnx')));
    assert.equal(importReport.source.format, 'onnx');
    assert.equal(importReport.source.files[0]?.sha256, importReport.model.files[0]?.sha256);
    assert.equal(importReport.check.runs, true);
  });

  test('whose rows depend on each other needs no config line to keep them apart', async (t) => {
    const bytes = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 3] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 3] }],
      nodes: [
        { op: 'ReduceMax', inputs: ['x'], outputs: ['m'], attributes: { axes: [0], keepdims: 1 } },
        { op: 'Sub', inputs: ['x', 'm'], outputs: ['y'] },
      ],
    });
    const { directory, out } = await placeWith(t, { 'm.onnx': bytes });
    const { importReport } = await importModel(directory, { out, ...QUICK });
    assert.deepEqual(importReport.config, []);
    assert.equal(importReport.verification?.batching.operator, 'ReduceMax');
  });

  test('that is garbage, has no graph, or has an opset without kernels, is refused', async (t) => {
    const refuse = async (bytes: Uint8Array, message: RegExp) => {
      const { directory, out } = await placeWith(t, { 'm.onnx': bytes });
      await assert.rejects(importModel(directory, { out, ...QUICK }), {
        code: 'bad_model',
        message,
      });
      assert.ok(!existsSync(out));
      assert.deepEqual(await readdir(join(out, '..')), ['model']);
    };
    await refuse(Buffer.from('no model at all'), /m\.onnx/);
    await refuse(Buffer.of(8, 8), /m\.onnx: expected an ONNX model, found a file without a graph/);
    const old = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: [1, 2] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: [1, 2] }],
      nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
      opset: 6,
    });
    await refuse(old, /onnxruntime cannot load the model: .*opset 13 or newer/);
    const next = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: [1, 2] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: [1, 2] }],
      nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
      opset: 99,
    });
    await refuse(next, /\(the opset is newer than this onnxruntime: export the model again with opset 17\)$/);
    const newest = Buffer.from(next);
    assert.equal(newest[0], 8, 'the version of ONNX comes first');
    newest[1] = 99;
    await refuse(newest, /Unsupported model IR version: 99.*\(in Python: .*model\.ir_version = 10/s);
    const x = { name: 'x', dtype: 'float32', shape: [1, 2] } as const;
    const cast = (from: string, to: string, type: number) => {
      return { op: 'Cast', inputs: [from], outputs: [to], attributes: { to: type } };
    };
    const half = onnxModel({
      inputs: [x],
      outputs: [{ ...x, name: 'y' }],
      nodes: [cast('x', 'a', 16), { op: 'Add', inputs: ['a', 'a'], outputs: ['b'] }, cast('b', 'y', 1)],
    });
    await refuse(
      half,
      /Could not find an implementation for Add\(14\).* bfloat16: export the model with float32\)$/,
    );
    const double = { ...x, dtype: 'float64' } as const;
    const unchanged = onnxModel({
      inputs: [double],
      outputs: [{ ...double, name: 'y' }],
      nodes: [{ op: 'Selu', inputs: ['x'], outputs: ['y'] }],
    });
    await refuse(unchanged, /Selu\(6\).* \(.*opset 13 or newer; one that has it already, with float32\)$/);
    const untyped = onnxModel({
      inputs: [x],
      outputs: [{ ...x, name: 'y' }],
      nodes: [cast('x', 'a', 16), { op: 'Elu', inputs: ['a'], outputs: ['b'] }, cast('b', 'y', 1)],
    });
    await refuse(
      untyped,
      /'tensor\(bfloat16\)'.* \(the operator does not take .*: export the model with float32\)$/,
    );
    const broken = onnxModel({
      inputs: [x],
      outputs: [{ ...x, name: 'y' }],
      nodes: [{ op: 'Sin', inputs: ['nowhere'], outputs: ['y'] }],
    });
    // The message names the file of the user, not the one in the folder of the import, which is gone.
    await refuse(broken, /Load model from \/[^ ]*\/model\/m\.onnx failed:.*'nowhere'/);
  });

  test('brings its external weights along, and only from its own folder', async (t) => {
    const builder = new GraphBuilder();
    const x = builder.input('x', 'float32', ['N', 300]);
    const weights = { dtype: 'float32', shape: [300, 2], data: new Float32Array(600).fill(0.5) } as const;
    builder.output('y', builder.one('MatMul', [x, builder.constant(weights)]));
    const { directory, out } = await placeWith(t, {});
    await writeOnnx(builder.finish(), join(directory, 'model.onnx'), {
      producerVersion: '1',
      maxFileBytes: 0,
    });
    await writeFile(join(directory, 'unrelated.bin'), 'no part of the model');
    const { importReport } = await importModel(directory, { out, ...QUICK });
    assert.deepEqual(
      importReport.model.files.map(({ path }) => path),
      ['model.onnx', 'model.onnx.data'],
    );
    assert.deepEqual(
      importReport.source.files.map(({ path }) => path),
      ['model.onnx', 'model.onnx.data'],
    );
    assert.ok(!existsSync(join(out, 'unrelated.bin')));
    const bytes = (await readFile(join(directory, 'model.onnx'))).toString('latin1');
    for (const location of ['../../etc/hosts', '/etc/aaaa/hosts', 'a/../../b/../cc', 'C:\\aaa\\bbb\\cccc']) {
      await writeFile(join(directory, 'model.onnx'), bytes.replace('model.onnx.data', location), 'latin1');
      await assert.rejects(importModel(directory, { out, ...QUICK }), {
        code: 'bad_model',
        message: /model\.onnx: its weights lie in .*, outside the model's folder/,
      });
    }
    await writeFile(
      join(directory, 'model.onnx'),
      bytes.replace('model.onnx.data', 'missing-weights'),
      'latin1',
    );
    const refuse = async (message: RegExp) =>
      assert.rejects(importModel(directory, { out, ...QUICK }), { code: 'bad_model', message });
    await refuse(
      /missing-weights is missing, which holds weights of model\.onnx; put it there under this name/,
    );
    await writeFile(join(directory, 'model.onnx'), bytes, 'latin1');
    const data = join(directory, 'model.onnx.data');
    await writeFile(data, (await readFile(data)).subarray(0, 1200));
    await refuse(
      /model\.onnx\.data: expected at least 2400 bytes of weights of model\.onnx, found 1200: .*fetch it again$/,
    );
    // Longer than the weights: onnxruntime would take the text for numbers.
    await writeFile(data, `version https://git-lfs.github.com/spec/v1\n${'x'.repeat(2400)}`);
    await refuse(/model\.onnx\.data: expected weights of model\.onnx, found a Git LFS pointer/);
  });

  test('with options of a conversion is refused: they would do nothing', async (t) => {
    const { directory, out } = await onnxPlace(t);
    const options = { out, version: '1', convert: { outputNames: ['y'] } };
    await assert.rejects(importModel(directory, options), {
      code: 'bad_config',
      message: /used unchanged; outputNames/,
    });
  });
});

test('a model that never ends is ended, and its process with it', async (t) => {
  const builder = new GraphBuilder();
  const x = builder.input('x', 'float32', [1]);
  const body = builder.body();
  body.input('step', 'int64', []);
  const again = body.input('again', 'bool', []);
  const before = body.input('value', 'float32', [1]);
  body.output('again', again);
  body.output('value', body.one('Neg', [before]));
  const inputs = [undefined, builder.one('Equal', [x, x]), x];
  const [truth] = builder.add('Reshape', [inputs[1], builder.ints([])]);
  const results = [{ dtype: 'float32', shape: [1] }] as const;
  builder.output(
    'y',
    builder.add('Loop', [undefined, truth, x], { body: { body: body.finish() } }, { results })[0] as Value,
  );
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, onnxBytes(builder.finish()));
  await assert.rejects(checkOnnx(file, { limitMs: 1_500 }), {
    code: 'bad_model',
    message: /onnxruntime did not finish with the model within 1\.5 s; it may never end/,
  });
});

describe('an output directory', () => {
  test('is replaced when an import made it, and nothing is left beside it', async (t) => {
    const { directory, out } = await onnxPlace(t);
    await importModel(directory, { out, ...QUICK });
    const { importReport } = await importModel(directory, { out, ...QUICK, version: '2' });
    assert.equal(importReport.converter.version, '2');
    assert.deepEqual((await readdir(out)).sort(), ['import-report.json', 'import-report.md', 'model.onnx']);
    assert.deepEqual((await readdir(join(out, '..'))).sort(), ['model', 'out']);
  });

  test('with files of somebody else is refused; --force adds the model and keeps them', async (t) => {
    const { directory, out } = await onnxPlace(t);
    await mkdir(out);
    await writeFile(join(out, 'notes.txt'), 'mine');
    const refused = {
      code: 'bad_config',
      message: /out is not empty, and not of an import: notes\.txt; --force/,
    };
    await assert.rejects(importModel(directory, { out, ...QUICK }), refused);
    assert.deepEqual(await readdir(out), ['notes.txt']);
    await importModel(directory, { out, ...QUICK, force: true });
    assert.equal(await readFile(join(out, 'notes.txt'), 'utf8'), 'mine');
    assert.ok(existsSync(join(out, 'model.onnx')));
    await writeFile(join(out, 'other.onnx'), 'mine');
    await assert.rejects(importModel(directory, { out, ...QUICK, force: true }), {
      code: 'bad_config',
      message: /holds another model, other\.onnx/,
    });
  });

  test('below a file is refused, naming that file', async (t) => {
    const { directory, out } = await onnxPlace(t);
    await mkdir(out);
    await writeFile(join(out, 'notes.txt'), 'mine');
    const below = join(out, 'notes.txt', 'x');
    await assert.rejects(importModel(directory, { out: below, version: '1' }), {
      code: 'bad_config',
      message: `--out ${below} cannot be used: ${join(out, 'notes.txt')} is a file`,
    });
  });

  test("is never the model's own directory, inside it or around it", async (t) => {
    const { directory } = await onnxPlace(t);
    for (const out of [directory, join(directory, 'onnx'), join(directory, '..')]) {
      const refused = importModel(directory, { out, ...QUICK, force: true });
      await assert.rejects(refused, {
        code: 'bad_config',
        message: /expected a directory apart from the model's own/,
      });
    }
  });
});
