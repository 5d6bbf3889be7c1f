/**
 * Keras models that look up, split texts and augment images answer as TensorFlow does, on odd texts, alone and together.
 * models.json.gz is of generate.py, with TensorFlow 2.21, Keras 3.15 and tf_keras 2.21.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { allocate, type DType, type NumericDType, type Tensor } from '../../../../lib/contract/tensor.ts';
import { openSession } from '../../../../lib/inference/session.ts';
import { readModel } from '../../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../../onnx-import/batching/proof.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import { readSavedModel } from '../../../../onnx-import/formats/tensorflow/files/saved-model.ts';
import { onnxBytes } from '../../../../onnx-import/onnx/write.ts';
import { temporaryFolder } from '../../../support/runner.ts';

interface Given {
  readonly dtype: DType | 'float' | 'double';
  readonly shape: readonly number[];
  /** Integers of 64 bits are texts, null is NaN. */
  readonly data: readonly (string | number | boolean | null)[];
}

interface Case {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly runs: readonly {
    readonly inputs: Readonly<Record<string, Given>>;
    readonly outputs: Readonly<Record<string, Given>>;
  }[];
}

/** What the refusal of a model must say. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  refused_augmenting:
    /AssignVariableOp.*changes a variable.*training=False.*--input; right behind it is \S*ImageProjectiveTransformV3:0/,
  refused_sl_no_oov: /LookupTableFindV2.*not in the table \(num_oov_indices=0\).*--input/,
  refused_sl_oov3: /StringToHashBucketFast.*hashes texts.*--input/,
  refused_tv_character: /UnicodeDecode.*works on texts.*--input/,
};
/** Their rows do not depend on each other, which the analysis shows. Words are as many as those of the longest text. */
const PROVEN = /^(\S+ (tv_whole|sl_mask|sl_invert|il_int|il_oov2|il_invert|augmenting)|keras sl_one_hot)$/;

const cases = JSON.parse(
  gunzipSync(readFileSync(new URL('models.json.gz', import.meta.url))).toString(),
) as Case[];

function folderWith(folder: string, { files }: Case): string {
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, Buffer.from(content, 'latin1'));
  }
  return folder;
}

async function convert(t: TestContext, each: Case): Promise<string> {
  const folder = await temporaryFolder(t);
  const { graph } = await readSavedModel(folderWith(join(folder, 'm'), each));
  const file = join(folder, 'model.onnx');
  writeFileSync(file, onnxBytes(convertTensorflow(graph, {}).graph));
  return file;
}

function tensorOf({ dtype, shape, data }: Given): Tensor {
  if (dtype === 'string') return { dtype, shape, data: data as readonly string[] };
  const made = allocate(dtype as NumericDType, data.length);
  for (const [i, value] of data.entries())
    made[i] = (
      dtype === 'int64' ? BigInt(value as string) : value === null ? Number.NaN : Number(value)
    ) as never;
  return { dtype: dtype as NumericDType, shape, data: made };
}

/** Floats within 1e-5 of the spread of all answers, anything else equal. */
function assertSame(found: Tensor, expected: Tensor, what: string): void {
  assert.equal(found.dtype, expected.dtype, what);
  assert.deepEqual(found.shape, expected.shape, what);
  if (!expected.dtype.startsWith('float')) {
    assert.deepEqual([...found.data], [...expected.data], what);
    return;
  }
  const numbers = Array.from(expected.data, Number);
  const spread = Math.max(...numbers.map(Math.abs), 1);
  for (const [i, want] of numbers.entries()) {
    const got = Number(found.data[i]);
    assert.ok(
      Object.is(got, want) || Math.abs(got - want) <= 1e-5 * spread,
      `${what}[${i}]: got ${got}, expected ${want}`,
    );
  }
}

for (const each of cases) {
  const kind = each.name.split(' ')[1] as string;
  const refused = REFUSED[kind];
  if (refused) {
    test(`${each.name.replace('refused_', '')} is refused with the way out`, async (t) => {
      await assert.rejects(convert(t, each), { code: 'bad_model', message: refused });
    });
    continue;
  }
  test(`${each.name} answers as TensorFlow does`, async (t) => {
    const file = await convert(t, each);
    const proof = proofOf(readModel(file), new Map());
    assert.equal(proof.end === undefined, PROVEN.test(each.name), JSON.stringify(proof));
    const session = await openSession(file, { threads: 1 });
    t.after(() => session.close());
    assert.ok(each.runs.length > 0);
    for (const { inputs, outputs } of each.runs) {
      const made = await session.run(session.inputs.map(({ name }) => tensorOf(inputs[name] as Given)));
      const what = JSON.stringify(Object.values(inputs)[0]?.data).slice(0, 200);
      assert.equal(made.length, Object.keys(outputs).length);
      for (const [name, expected] of Object.entries(outputs)) {
        const found = made.find((output) => output.name === name);
        assert.ok(found, `no output ${name}`);
        assertSame(found, tensorOf(expected), `${name} of ${what}`);
      }
    }
  });
}
