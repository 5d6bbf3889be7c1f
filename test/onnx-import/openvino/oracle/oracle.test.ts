/**
 * Models of OpenVINO's operations with the answers of OpenVINO itself (make.py makes both). Each is converted with a
 * free batch where that is possible and with the batch of the file, and run.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { allocate, type NumericDType, type Tensor } from '../../../../lib/contract/tensor.ts';
import type { Conversion } from '../../../../onnx-import/formats/conversion.ts';
import { convertIr } from '../../../../onnx-import/formats/openvino/convert.ts';
import { filesOf, runGraph } from '../../support/openvino.ts';

interface Packed {
  readonly dtype: NumericDType;
  readonly shape: readonly number[];
  readonly data: string;
}

interface Case {
  readonly name: string;
  readonly xml: string;
  readonly bin: string;
  readonly runs: readonly { readonly inputs: readonly Packed[]; readonly outputs: readonly Packed[] }[];
}

/** What is refused, by the beginning of its name; nothing else may be. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  avgp: /window without an element/,
  deconvo_12: /output shape larger than its windows/,
  do_11: /clip_after_nms is not supported/,
  el_bitwise_and_i32: /only supported for truth values/,
  el_bitwise_or_i32: /only supported for truth values/,
  el_bitwise_xor_i32: /only supported for truth values/,
  el_squared_difference_i8: /of 8 bits is not supported/,
  el_squared_difference_u8: /of 8 bits is not supported/,
  ga_nd5: /shares several axes/,
  ip4aa: /antialias/,
  lrn_c4: /must be odd|bias/,
  lrn_: /bias 1\.2.* is not supported|must be odd/,
  maxp: /window without an element/,
  nms: /before opset 5/,
  pb_dens: /fixed_size is not supported/,
  rd_reduce_mean_i32: /has a mean of int32/,
  roia: /mode max is not supported/,
  roip_bilinear: /bilinear/,
  sc_el12: /reduction m\w+ is not supported|use_init_val/,
  sc_nd15: /reduction "m\w+" is not supported/,
  sh_pad12_symmetric: /pads 4 by -1 and 1/,
};

const CASES = JSON.parse(
  gunzipSync(readFileSync(new URL('oracle.json.gz', import.meta.url))).toString(),
) as readonly Case[];

function tensorFrom({ dtype, shape, data }: Packed): Tensor {
  const bytes = new Uint8Array(Buffer.from(data, 'base64'));
  const array = allocate(dtype, bytes.byteLength / allocate(dtype, 0).BYTES_PER_ELEMENT);
  new Uint8Array(array.buffer).set(bytes);
  return { dtype, shape, data: array };
}

/** Whole numbers are equal; others to a ten-thousandth of the spread of all. */
function assertClose(got: Tensor | undefined, want: Tensor, what: string): void {
  assert.deepEqual([got?.dtype, got?.shape], [want.dtype, want.shape], what);
  const [actual, expected] = [Array.from(got?.data ?? [], Number), Array.from(want.data, Number)];
  const finite = expected.filter(Number.isFinite);
  const mean = finite.reduce((sum, value) => sum + value, 0) / Math.max(1, finite.length);
  const variance = finite.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, finite.length);
  const largest = finite.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-3);
  const limit = want.dtype.startsWith('float') ? 1e-4 * Math.max(Math.sqrt(variance), 1e-2 * largest) : 0;
  for (const [i, value] of expected.entries()) {
    const same = Object.is(actual[i], value) || actual[i] === value;
    assert.ok(
      same || Math.abs((actual[i] as number) - value) <= limit,
      `${what}[${i}]: got ${actual[i]}, expected ${value}`,
    );
  }
}

async function assertAnswers(
  { graph }: Conversion,
  { name, runs }: Case,
  from: number,
  to: number,
): Promise<void> {
  for (const [i, { inputs, outputs }] of runs.slice(from, to).entries()) {
    const made = await runGraph(graph, inputs.map(tensorFrom));
    for (const [k, output] of outputs.entries())
      assertClose(made[k], tensorFrom(output), `${name}, run ${i}, output ${k}`);
  }
}

test('there are hundreds of models', () => assert.ok(CASES.length > 400));

const groups = Map.groupBy(CASES, ({ name }) => name.split('_')[0] as string);
for (const [group, cases] of groups) {
  test(`${group}: ${cases.length} models answer as OpenVINO does, or are refused as known`, async () => {
    for (const each of cases) {
      const files = filesOf(each.xml, new Uint8Array(Buffer.from(each.bin, 'base64')));
      const known = Object.keys(REFUSED).find((start) => each.name.startsWith(start));
      let made: Conversion;
      try {
        made = convertIr(files, {});
      } catch (error) {
        assert.ok(known !== undefined, `${each.name}: ${(error as Error).message}`);
        assert.match((error as Error).message, REFUSED[known] as RegExp, each.name);
        continue;
      }
      await assertAnswers(made, each, 0, made.otherwise ? 2 : 1);
      if (made.otherwise) await assertAnswers(made.otherwise(), each, 0, 1);
    }
  });
}
