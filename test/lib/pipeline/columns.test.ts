/** Records by column, in any order and with missing values, reach the model as it takes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DType } from '../../../lib/contract/tensor.ts';
import type { Inputs, ModelNames, TensorSpec, Value } from '../../../lib/contract/values.ts';
import { bindRecord } from '../../../lib/pipeline/bind/bind.ts';

const NAMES: ModelNames = { columns: { features: ['age', 'fare', 'sex'] }, labels: {} };
const TABLE: TensorSpec = { name: 'features', dtype: 'float64', shape: ['N', 3] };

function record(values: Readonly<Record<string, unknown>>): Inputs {
  return new Map(
    Object.entries(values).map(([name, value]): [string, Value] => [name, { kind: 'json', value }]),
  );
}

async function bound(
  values: Readonly<Record<string, unknown>>,
  specs: readonly TensorSpec[],
  alreadyBatched = false,
) {
  const settings = { inputAlreadyBatched: alreadyBatched, image: {}, names: NAMES };
  const { tensors } = await bindRecord(record(values), specs, settings);
  return tensors.map(({ shape, data }) => ({ shape, data: [...data] }));
}

test('columns of one input come in any order, as numbers, texts and missing values', async () => {
  const expected = (data: number[]) => [{ shape: [1, 3], data }];
  assert.deepEqual(await bound({ sex: 1, age: 3, fare: 0.1 }, [TABLE]), expected([3, 0.1, 1]));
  assert.deepEqual(await bound({ sex: '1', age: ' 3e1 ', fare: [0.5] }, [TABLE]), expected([30, 0.5, 1]));
  const missing = [Number.NaN, Number.NaN, Number.NaN];
  assert.deepEqual(await bound({ sex: '', age: null, fare: 'NaN' }, [TABLE]), expected(missing));
  assert.deepEqual(await bound({ sex: true, age: '-inf', fare: -0 }, [TABLE]), expected([-Infinity, -0, 1]));
  assert.deepEqual(await bound({ sex: 1, age: 3, fare: 2 }, [TABLE], true), expected([3, 2, 1]));
});

test('the whole row under any name is taken too, with null for what is missing', async () => {
  for (const name of ['features', 'x']) {
    assert.deepEqual(await bound({ [name]: [1, null, 3] }, [TABLE]), [
      { shape: [1, 3], data: [1, Number.NaN, 3] },
    ]);
  }
});

const REFUSED: readonly (readonly [values: Readonly<Record<string, unknown>>, message: RegExp])[] = [
  [{ age: 1, sex: 2 }, /missing column "fare"; the model's 3 columns are "age", "fare", "sex"/],
  [{ age: 1, sex: 2, Fare: 3 }, /missing column "fare", unknown column "Fare"; the model's/],
  [{ age: 1, sex: 2, fare: 3, port: 4 }, /^unknown column "port"/],
  [{ age: 1, sex: 'male', fare: 3 }, /column "sex": expected a number \(float64\), got "male"/],
  [{ age: 1, sex: [1, 2], fare: 3 }, /column "sex": expected one number/],
  [{ age: 1, sex: '1e999', fare: 3 }, /column "sex": a number is out of the range/],
  [{ age: 1, sex: '0x10', fare: 3 }, /column "sex": expected a number/],
];
for (const [values, message] of REFUSED) {
  test(`${JSON.stringify(values)} is refused by its column`, async () => {
    await assert.rejects(bound(values, [TABLE]), { code: 'bad_input', message });
  });
}

function column(name: string, dtype: DType): TensorSpec {
  return { name, dtype, shape: ['N', 1] };
}

const COLUMNS = [
  column('age', 'float32'),
  column('count', 'int64'),
  column('port', 'string'),
  column('ok', 'bool'),
];

test('inputs of one element take cells of CSV, each as its own type', async () => {
  const shape = [1, 1];
  const cells = { port: 'S', age: '3.5', ok: 'TRUE', count: '9007199254740993' };
  assert.deepEqual(await bound(cells, COLUMNS), [
    { shape, data: [3.5] },
    { shape, data: [9007199254740993n] },
    { shape, data: ['S'] },
    { shape, data: [1] },
  ]);
  const [age, , port] = await bound({ port: '', age: '', ok: '0', count: '7.0' }, COLUMNS);
  assert.deepEqual([age?.data, port?.data], [[Number.NaN], ['']]);
});

test('a whole number has no missing value, and takes no fraction', async () => {
  const cells = { port: 'S', age: 1, ok: false };
  const refused: readonly (readonly [unknown, RegExp])[] = [
    ['', /input "count": expected int64, got no value; a column of whole numbers has no missing values/],
    [null, /input "count": expected a number, got null/],
    ['1.5', /input "count": expected a whole number/],
    ['99999999999999999999', /input "count": expected -9223372036854775808 to/],
    ['many', /input "count": expected a number \(int64\), got "many"/],
  ];
  for (const [count, message] of refused) {
    await assert.rejects(bound({ ...cells, count }, COLUMNS), { code: 'bad_input', message });
  }
});
