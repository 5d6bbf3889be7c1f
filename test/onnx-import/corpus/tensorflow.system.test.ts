/**
 * Every TensorFlow model of the shared corpus: read, converted, run by onnxruntime, compared with its reference.
 * Prints a line per model: largest error, whether a row is the same alone and in a batch of two, time to convert.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { allocate, type NumericDType, type Tensor } from '../../../lib/contract/tensor.ts';
import { openSession, type Session } from '../../../lib/inference/session.ts';
import type { Conversion } from '../../../onnx-import/formats/conversion.ts';
import { convertTensorflow } from '../../../onnx-import/formats/tensorflow/convert.ts';
import { readCheckpoint } from '../../../onnx-import/formats/tensorflow/files/checkpoint.ts';
import { readFrozenGraph } from '../../../onnx-import/formats/tensorflow/files/frozen.ts';
import { readSavedModel } from '../../../onnx-import/formats/tensorflow/files/saved-model.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { readNpy } from '../../support/npy.ts';

const READERS = {
  tf_frozen: readFrozenGraph,
  tf_saved_model: readSavedModel,
  tf_checkpoint: readCheckpoint,
} as const;

interface Manifest {
  readonly name: string;
  readonly inputs: readonly {
    readonly name: string | null;
    readonly file: string;
    readonly stored_layout?: string;
  }[];
  readonly outputs: readonly { readonly name: string | null; readonly file: string }[];
  readonly tolerance: { readonly atol: number; readonly rtol: number };
  readonly notes: string;
  readonly feedConst?: Readonly<Record<string, number | boolean>>;
  readonly input_shapes?: Readonly<Record<string, readonly number[]>>;
}

/** What is refused, and what the message must say of it. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  mlnet_model_string_test: /saved_model\.pb.*\n.*ReduceJoin \(node "[^"]+"\): works on texts.*--input/s,
  sts_deep_image: /DecodeJpeg \(node "[^"]+"\): decodes files.*--input/,
  sts_estimator: /ParseExample \(node "[^"]+"\): reads serialized records.*--input/,
  tfnet_example1: /variables/,
};

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cs-tf-corpus-'));
});
after(() => rm(folder, { recursive: true, force: true }));

/** Without a default signature one is to be chosen. */
const SIGNATURES: Readonly<Record<string, string>> = { counter: 'get_counter', rust_regression: 'b' };

function optionsOf({ name, feedConst, input_shapes }: Manifest): ConvertOptions {
  const signature = SIGNATURES[name];
  const constants = Object.entries(feedConst ?? {}).map(([key, value]) => [key, Number(value)]);
  return {
    ...(signature ? { signature } : {}),
    ...(constants.length > 0 ? { constants: Object.fromEntries(constants) } : {}),
    ...(input_shapes ? { inputShapes: input_shapes } : {}),
  };
}

interface Converted {
  readonly conversion: Conversion;
  /** An input has no shape in the file. */
  readonly shapeless: boolean;
}

async function convert(
  kind: keyof typeof READERS,
  manifest: Manifest,
  directory: string,
): Promise<Converted> {
  const options = optionsOf(manifest);
  const { graph } = await READERS[kind](directory, options);
  return {
    conversion: convertTensorflow(graph, options),
    shapeless: graph.inputs.some(({ shape }) => shape === undefined),
  };
}

function transposed(tensor: Tensor, perm: readonly number[]): Tensor {
  const shape = perm.map((axis) => tensor.shape[axis] as number);
  const strides = tensor.shape.map((_, i) => tensor.shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const data = allocate(tensor.dtype as NumericDType, tensor.data.length);
  const index = shape.map(() => 0);
  for (let i = 0; i < data.length; i++) {
    const from = index.reduce((sum, at, k) => sum + at * (strides[perm[k] as number] as number), 0);
    data[i] = tensor.data[from] as never;
    for (let k = shape.length - 1; k >= 0; k--) {
      index[k] = (index[k] as number) + 1;
      if ((index[k] as number) < (shape[k] as number)) break;
      index[k] = 0;
    }
  }
  return { dtype: tensor.dtype, shape, data };
}

/** Opencv's references lie channels-first whatever the graph wants. */
function fitted(tensor: Tensor, wanted: readonly (number | string)[], stored: boolean): Tensor {
  // half_plus_three's x is a column, its reference a list.
  if (wanted.length === 2 && wanted[1] === 1 && tensor.shape.length === 1)
    return { ...tensor, shape: [...tensor.shape, 1] };
  if (!stored || tensor.shape.length !== 4) return tensor;
  const turned = transposed(tensor, [0, 2, 3, 1]);
  const fits = (shape: readonly number[]) =>
    wanted.every((dim, i) => typeof dim !== 'number' || dim < 0 || dim === shape[i]);
  return fits(turned.shape) ? turned : tensor;
}

async function inputsOf(manifest: Manifest, session: Session, directory: string): Promise<Tensor[]> {
  const given = new Map<string, Tensor>();
  for (const { name, file, stored_layout } of manifest.inputs) {
    const spec = name === null ? session.inputs[0] : session.inputs.find((input) => input.name === name);
    // A dropout's keep_prob has become a constant.
    if (!spec) continue;
    const bytes = await readFile(join(directory, file));
    const tensor = file.endsWith('.json') ? texts(bytes.toString()) : readNpy(bytes);
    given.set(spec.name, fitted(tensor, spec.shape, stored_layout !== undefined));
  }
  return session.inputs.map(({ name }) => {
    const tensor = given.get(name);
    assert.ok(tensor, `no reference for input ${name}`);
    return tensor;
  });
}

function texts(json: string): Tensor {
  const parsed = JSON.parse(json) as unknown;
  const data = (Array.isArray(parsed) ? parsed.flat(9) : [parsed]).map(String);
  return { dtype: 'string', shape: Array.isArray(parsed) ? [data.length] : [], data };
}

/** The largest excess over the tolerance's rtol part, and an assertion that none is over it. */
function compare(
  actual: Tensor,
  expected: Tensor,
  { atol, rtol }: Manifest['tolerance'],
  what: string,
): number {
  assert.deepEqual(actual.shape, expected.shape, what);
  let worst = 0;
  for (let i = 0; i < expected.data.length; i++) {
    const [got, want] = [Number(actual.data[i]), Number(expected.data[i])];
    if (Object.is(got, want) || got === want) continue;
    const error = Math.abs(got - want);
    assert.ok(error <= atol + rtol * Math.abs(want), `${what}[${i}]: got ${got}, expected ${want}`);
    worst = Math.max(worst, error);
  }
  return worst;
}

/** Row 0 alone and row 0 of two; "fixed" where the model takes one size only. */
async function compareBatches(
  session: Session,
  inputs: readonly Tensor[],
  shapeless: boolean,
): Promise<string> {
  const free = session.inputs.every(({ shape }) => typeof shape[0] === 'string' || (shape[0] as number) < 0);
  if (inputs.length === 0 || !free || inputs.some(({ shape }) => (shape[0] ?? 0) < 1)) return 'fixed';
  const rows = (count: number) =>
    inputs.map(({ dtype, shape, data }): Tensor => {
      const size = data.length / (shape[0] as number);
      const order = Array.from({ length: count }, (_, i) => i % (shape[0] as number));
      const picked = order.flatMap((row) =>
        Array.from(data.slice(row * size, (row + 1) * size) as ArrayLike<unknown>),
      );
      const made = dtype === 'string' ? picked.map(String) : allocate(dtype, picked.length);
      if (typeof made === 'object' && !Array.isArray(made))
        for (const [i, value] of picked.entries()) made[i] = value as never;
      return { dtype, shape: [count, ...shape.slice(1)], data: made };
    });
  const one = await session.run(rows(1));
  const two = await session.run(rows(2)).catch((error: unknown) => {
    if (!shapeless) throw error;
  });
  // Without shapes in the file, another batch is not known to be possible.
  if (!two) return 'of 1 only';
  let compared = 0;
  for (const [i, alone] of one.entries()) {
    const pair = two[i] as Tensor;
    if (alone.shape[0] !== 1 || pair.shape[0] !== 2) continue;
    compared += 1;
    for (let k = 0; k < alone.data.length; k++) {
      const [a, b] = [Number(alone.data[k]), Number(pair.data[k])];
      assert.ok(
        Object.is(a, b) || Math.abs(a - b) <= 1e-5 * Math.max(1, Math.abs(a)),
        `row 0 of two: ${a} and ${b}`,
      );
    }
  }
  return compared === one.length ? 'same' : `${compared} of ${one.length} outputs follow the batch`;
}

test('a signature that changes a variable is refused with the operation and the node', async (t) => {
  const directory = sharedPath('corpus/tf_saved_model/counter');
  if (!existsSync(directory)) return t.skip('needs ../shared/corpus/tf_saved_model/counter');
  await assert.rejects(readSavedModel(directory, { signature: 'incr_counter' }), {
    code: 'bad_model',
    message: /AssignAdd \(node "incr_counter_op\/AssignAdd"\): changes a variable/,
  });
});

test('naming the tensor behind the preprocessing converts what was refused', async (t) => {
  const directory = sharedPath('corpus/tf_saved_model/sts_deep_image');
  if (!existsSync(directory)) return t.skip('needs ../shared/corpus/tf_saved_model/sts_deep_image');
  const pictures = 'map/TensorArrayStack/TensorArrayGatherV3';
  const options = { inputNames: [pictures], inputShapes: { [pictures]: ['N', 224, 224, 3] } };
  const { graph } = await readSavedModel(directory, options);
  const conversion = convertTensorflow(graph, options);
  assert.deepEqual(conversion.image, { layout: 'hwc', channels: 'bgr' });
  assert.ok(conversion.graph.nodes.some(({ op }) => op === 'Conv'));
});

test('the tensor that the refusal names is enough to convert the rest', async (t) => {
  for (const name of ['sts_deep_image', 'sts_estimator']) {
    const directory = sharedPath(`corpus/tf_saved_model/${name}`);
    if (!existsSync(directory)) return t.skip(`needs ../shared/corpus/tf_saved_model/${name}`);
    const convertFrom = async (options: ConvertOptions) => {
      const { graph } = await readSavedModel(directory, options);
      return convertTensorflow(graph, options);
    };
    let tensor = '';
    await assert.rejects(convertFrom({}), (error: Error) => {
      tensor =
        /--input to cut the preprocessing off; right behind it is (\S+)/.exec(error.message)?.[1] ?? '';
      return tensor !== '';
    });
    const { graph } = await convertFrom({ inputNames: [tensor] });
    assert.deepEqual(
      graph.inputs.map(({ name: input }) => input),
      [tensor.replace(/:0$/, '')],
    );
  }
});

for (const kind of Object.keys(READERS) as (keyof typeof READERS)[]) {
  const corpus = sharedPath(`corpus/${kind}`);
  const names = existsSync(corpus) ? readdirSync(corpus).sort() : [];
  test(`the shared corpus of ${kind} is here`, (t) => {
    if (names.length === 0) t.skip(`needs ../shared/corpus/${kind}, which is not on this machine`);
    else assert.ok(names.length > 0);
  });
  for (const name of names) {
    const directory = join(corpus, name);
    const manifest = JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8')) as Manifest;
    const refused = REFUSED[name];
    if (refused) {
      test(`${kind}/${name} is refused with the operation and the node`, async () => {
        await assert.rejects(convert(kind, manifest, directory), { code: 'bad_model', message: refused });
      });
      continue;
    }
    test(`${kind}/${name} ${manifest.outputs.length > 0 ? 'gives its reference' : 'converts and opens'}`, async (t) => {
      const started = performance.now();
      const { conversion, shapeless } = await convert(kind, manifest, directory);
      const path = join(folder, `${kind}-${name}.onnx`);
      await writeOnnx(conversion.graph, path, { producerVersion: 'test' });
      const importMs = performance.now() - started;
      if (conversion.graph.inputs.length === 0) {
        // onnxruntime has nothing to run: the outputs are what the variables hold.
        for (const [i, { value }] of conversion.graph.outputs.entries()) {
          const made = conversion.graph.nodes.find(({ outputs }) => outputs[0]?.name === value.name);
          const held = made?.inputs[0]?.constant;
          assert.ok(held, `output ${i} is no constant`);
          const file = manifest.outputs[i]?.file;
          if (file) compare(held, readNpy(await readFile(join(directory, file))), manifest.tolerance, name);
        }
        t.diagnostic(`${kind}/${name}: a constant, no inputs`);
        return;
      }
      const session = await openSession(path, { threads: 1 });
      try {
        if (manifest.outputs.length === 0) {
          t.diagnostic(`${kind}/${name}: opens, ${importMs.toFixed(0)} ms`);
          return;
        }
        const inputs = await inputsOf(manifest, session, directory);
        const outputs = await session.run(inputs);
        let worst = 0;
        for (const wanted of manifest.outputs) {
          const found =
            wanted.name === null
              ? outputs[0]
              : outputs.find(
                  (output) => output.name === wanted.name || output.name === `${wanted.name}_output`,
                );
          assert.ok(found, `no output ${wanted.name}`);
          const expected = readNpy(await readFile(join(directory, wanted.file)));
          const stored = manifest.inputs.some(({ stored_layout }) => stored_layout !== undefined);
          worst = Math.max(
            worst,
            compare(found, fitted(expected, found.shape, stored), manifest.tolerance, name),
          );
        }
        const batches = await compareBatches(session, inputs, shapeless);
        t.diagnostic(
          `${kind}/${name}: error ${worst.toExponential(1)}, batch ${batches}, ${importMs.toFixed(0)} ms`,
        );
      } finally {
        await session.close();
      }
    });
  }
}
