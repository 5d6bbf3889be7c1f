import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import {
  Float32,
  Int32,
  RecordBatchReader,
  Table,
  tableToIPC,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { align8 } from '../../../../lib/codecs/arrow/message.ts';
import { decodeArrowResult, encodeArrowResult } from '../../../../lib/codecs/arrow/result.ts';
import { decodeBase64 } from '../../../../lib/codecs/base64.ts';
import { type ErrorCode, ServingError } from '../../../../lib/contract/errors.ts';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import {
  batchMessage,
  float32Column,
  int32Column,
  scalar as scalarSlot,
  schemaMessage,
  structs,
} from '../../../support/arrow-writer.ts';
import fc from '../../../support/fast-check.ts';

const ZOO = new URL('../../../../../shared/fixtures/zoo/', import.meta.url);
const skip = existsSync(ZOO) ? false : 'the shared fixtures are not beside the repository';

interface GoldenCase {
  readonly name: string;
  readonly hash_field_value: string;
  readonly python_type?: string;
  readonly python_query_returns?: unknown;
}

const golden = (): readonly GoldenCase[] =>
  (
    JSON.parse(readFileSync(new URL('derived/result_wire_golden.json', ZOO), 'utf8')) as {
      cases: GoldenCase[];
    }
  ).cases;

const float32 = (shape: readonly number[], values?: readonly number[]): Tensor => {
  const length = shape.reduce((product, dim) => product * dim, 1);
  return {
    dtype: 'float32',
    shape,
    data: Float32Array.from(values ?? Array.from({ length }, (_, i) => i + 0.5)),
  };
};

/** The columns of each batch, read by apache-arrow. */
function columnsOf(bytes: Uint8Array): { data: (number | null)[]; shape: (number | null)[] }[] {
  return [...RecordBatchReader.from(bytes)].map((batch) => ({
    data: [...(batch.getChild('data') ?? [])] as (number | null)[],
    shape: [...(batch.getChild('shape') ?? [])] as (number | null)[],
  }));
}

/** Reads a result as the old Python client does: it drops nulls and zeros of `shape`, then reshapes `data`. */
function oldClientShape(column: { data: (number | null)[]; shape: (number | null)[] }): number[] {
  assert.ok(!column.data.includes(null), 'to_numpy() raises on nulls');
  const shape = column.shape.filter((dim): dim is number => dim !== null && dim !== 0);
  const product = shape.reduce((count, dim) => count * dim, 1);
  assert.equal(product, column.data.length, 'reshape raises');
  return shape;
}

function refused(code: ErrorCode, message: RegExp, act: () => unknown): void {
  assert.throws(act, (error) => {
    assert.ok(error instanceof ServingError, String(error));
    assert.match(error.message, message);
    assert.equal(error.code, code);
    return true;
  });
}

const nested = (shape: readonly number[], values: readonly number[]): unknown => {
  const [dim, ...rest] = shape;
  if (dim === undefined) return values[0];
  const stride = values.length / dim;
  return Array.from({ length: dim }, (_, i) => nested(rest, values.slice(i * stride, (i + 1) * stride)));
};
const asNested = ({ shape, data }: Tensor): unknown => nested(shape, [...(data as Float32Array)]);

describe('results of the old server', { skip }, () => {
  it('decode to what the Python client returned', () => {
    const readable = golden().filter((entry) => entry.python_type !== undefined);
    assert.equal(readable.length, 6);
    for (const entry of readable) {
      const tensors = decodeArrowResult(decodeBase64(entry.hash_field_value)).map(asNested);
      const returned = entry.python_type === 'list of ndarray' ? tensors : tensors[0];
      assert.deepEqual(returned, entry.python_query_returns, entry.name);
    }
  });

  it('have the same batches as ours of the same tensors', () => {
    for (const entry of golden().filter((candidate) => candidate.python_type !== undefined)) {
      const theirs = decodeBase64(entry.hash_field_value);
      const ours = encodeArrowResult(decodeArrowResult(theirs));
      assert.deepEqual(columnsOf(ours), columnsOf(theirs), entry.name);
    }
  });

  it('are refused when the server has cut off the shape', () => {
    const entry = golden().find(({ name }) => name === 'rank_exceeds_numel');
    const bytes = decodeBase64(entry?.hash_field_value ?? '');
    refused('bad_request', /shape \[1,1\] means 1 values, data has 2; old servers cut off/, () =>
      decodeArrowResult(bytes),
    );
  });
});

describe('encodeArrowResult', () => {
  it('writes one batch an output, the shape padded with nulls', () => {
    const bytes = encodeArrowResult([float32([3], [1, 2, 3]), float32([2, 2], [4, 5, 6, 7])]);
    assert.deepEqual(columnsOf(bytes), [
      { data: [1, 2, 3], shape: [3, null, null] },
      { data: [4, 5, 6, 7], shape: [2, 2, null, null] },
    ]);
    const { fields } = RecordBatchReader.from(bytes).open().schema;
    assert.deepEqual(
      fields.map(({ name, type, nullable }) => [name, String(type), nullable]),
      [
        ['data', 'Float32', true],
        ['shape', 'Int32', true],
      ],
    );
  });

  it('pads the shape of a large output with nulls to its end', () => {
    const [column] = columnsOf(encodeArrowResult([float32([10, 100])]));
    assert.deepEqual(column?.shape, [10, 100, ...Array.from({ length: 998 }, () => null)]);
  });

  it('keeps sixteen dimensions', () => {
    const shape = [2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    const bytes = encodeArrowResult([float32(shape)]);
    assert.deepEqual(decodeArrowResult(bytes)[0]?.shape, shape);
    assert.deepEqual(columnsOf(bytes)[0]?.shape.slice(0, 17), [...shape, null]);
  });

  it('keeps every shape and bit through decodeArrowResult', () => {
    const shapes = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 6 });
    fc.assert(
      fc.property(fc.array(shapes, { minLength: 1, maxLength: 4 }), fc.nat(), (list, seed) => {
        const outputs = list.map((shape) => {
          const { data } = float32(shape);
          const bits = new Uint32Array((data as Float32Array).buffer);
          bits.forEach((_, i) => (bits[i] = Math.imul(seed + i, 2_654_435_761)));
          return { dtype: 'float32' as const, shape, data: data as Float32Array };
        });
        const decoded = decodeArrowResult(encodeArrowResult(outputs));
        assert.deepEqual(
          decoded.map(({ shape }) => shape),
          list,
        );
        for (const [i, { data }] of decoded.entries()) {
          assert.deepEqual(bitsOf(data as Float32Array), bitsOf(outputs[i]?.data as Float32Array));
        }
      }),
      { numRuns: 300 },
    );
  });

  it('writes what the old Python client can reshape, for every shape with elements', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 7 }), (shape) => {
        const output = float32(shape);
        const [column] = columnsOf(encodeArrowResult([output]));
        assert.ok(column);
        assert.deepEqual(column.data, [...(output.data as Float32Array)]);
        const seen = oldClientShape(column);
        // It may lack classes for which there is no room; the rest is there, in order.
        assert.deepEqual(
          seen.filter((dim) => dim !== 1),
          shape.filter((dim) => dim !== 1),
        );
        if (shape.length <= column.data.length) assert.deepEqual(seen, shape);
      }),
      { numRuns: 300 },
    );
  });

  it('drops leading ones from the column, not from the shape, when dimensions outnumber elements', () => {
    const bytes = encodeArrowResult([float32([1, 1, 2])]);
    assert.deepEqual(columnsOf(bytes)[0]?.shape, [1, 2]);
    assert.deepEqual(decodeArrowResult(bytes)[0]?.shape, [1, 1, 2]);
  });

  it('keeps the shape of an output without elements', () => {
    const bytes = encodeArrowResult([float32([0, 4]), float32([2])]);
    assert.deepEqual(
      decodeArrowResult(bytes).map(({ shape }) => shape),
      [[0, 4], [2]],
    );
    assert.deepEqual(columnsOf(bytes)[0], { data: [], shape: [] });
  });

  it('casts other numbers to float32', () => {
    const outputs: Tensor[] = [
      { dtype: 'int64', shape: [2], data: BigInt64Array.of(-3n, 2n ** 40n) },
      { dtype: 'float64', shape: [1], data: Float64Array.of(0.1) },
      { dtype: 'bool', shape: [2], data: Uint8Array.of(1, 0) },
      { dtype: 'float16', shape: [1], data: Uint16Array.of(0xc000) },
    ];
    assert.deepEqual(
      decodeArrowResult(encodeArrowResult(outputs)).map(({ data }) => [...(data as Float32Array)]),
      [[-3, 2 ** 40], [Math.fround(0.1)], [1, 0], [-2]],
    );
  });

  it('refuses text, no outputs, and data that does not fit its shape', () => {
    const text: Tensor = { dtype: 'string', shape: [1], data: ['cat'] };
    refused('model_failed', /output 1 is text/, () => encodeArrowResult([float32([1]), text]));
    refused('model_failed', /at least one output/, () => encodeArrowResult([]));
    const odd: Tensor = { dtype: 'float32', shape: [3], data: Float32Array.of(1) };
    refused('model_failed', /output 0: shape \[3\] means 3 values, data has 1/, () =>
      encodeArrowResult([odd]),
    );
  });

  it('refuses more outputs or dimensions than the limits', () => {
    const scalar = float32([]);
    refused('too_large', /1025 outputs/, () => encodeArrowResult(Array.from({ length: 1025 }, () => scalar)));
    refused('too_large', /rank 17/, () => encodeArrowResult([float32(Array.from({ length: 17 }, () => 1))]));
    assert.equal(
      decodeArrowResult(encodeArrowResult(Array.from({ length: 1024 }, () => scalar))).length,
      1024,
    );
  });

  it('has the messages that a writer of flatbuffers makes, instead of its constants', () => {
    const schema = schemaMessage([float32Column('data'), int32Column('shape')]);
    for (const [shape, dims, whole] of [
      [[2, 3], 2, undefined],
      [[], 0, undefined],
      [[1, 1, 2], 2, '1,1,2'],
      [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 1, '1,1,1,1,1,1,1,1,1,1,1'],
      [[0], 0, '0'],
    ] as const) {
      const rows = shape.reduce<number>((product, dim) => product * dim, 1);
      const [bits, shapeAt] = [align8(4 * rows), align8(4 * rows) + align8(rows / 8)];
      const head = batchMessage(
        {
          rows: scalarSlot(8, rows),
          nodes: structs([rows, 0, rows, rows - dims]),
          buffers: structs([0, 0, 0, 4 * rows, bits, Math.ceil(rows / 8), shapeAt, 4 * rows]),
          bodyLength: scalarSlot(8, shapeAt + align8(4 * rows)),
        },
        whole === undefined ? undefined : ['cluster-serving.shape', whole],
      );
      const written = encodeArrowResult([float32(shape)]);
      const expected = Buffer.concat([schema, head]);
      assert.deepEqual(Buffer.from(written.subarray(0, expected.length)), expected, String(shape));
      assert.equal(written.length, expected.length + shapeAt + align8(4 * rows) + 8);
    }
  });

  it('leaves no trace of one result in the next', () => {
    const first = encodeArrowResult([float32([2, 3])]);
    const copy = first.slice();
    encodeArrowResult([float32([1, 1, 2]), float32([4])]);
    assert.deepEqual(first, copy);
    assert.deepEqual(encodeArrowResult([float32([2, 3])]), copy);
  });
});

const bitsOf = (data: Float32Array) => new Uint32Array(data.buffer, data.byteOffset, data.length).slice();

describe('decodeArrowResult', () => {
  const stream = (columns: Record<string, Vector>) => tableToIPC(new Table(columns), 'stream');
  const data = vectorFromArray([1, 2], new Float32());
  const shape = vectorFromArray([2, null], new Int32());

  it('gives views of the bytes', () => {
    const bytes = encodeArrowResult([float32([4])]);
    const decoded = decodeArrowResult(bytes)[0]?.data;
    assert.ok(decoded instanceof Float32Array);
    assert.equal(decoded.buffer, bytes.buffer);
  });

  it('reads its columns by name, in any order, nulls before values too', () => {
    const late = vectorFromArray([null, 2], new Int32());
    assert.deepEqual(decodeArrowResult(stream({ shape: late, data })), [float32([2], [1, 2])]);
  });

  it('reads a scalar: one value and no dimension', () => {
    const bytes = stream({
      data: vectorFromArray([7], new Float32()),
      shape: vectorFromArray([null], new Int32()),
    });
    assert.deepEqual(decodeArrowResult(bytes), [float32([], [7])]);
  });

  it('refuses other columns', () => {
    refused('bad_request', /column "data" of float32/, () => decodeArrowResult(stream({ shape })));
    const text = vectorFromArray(['a', 'b'], new Utf8());
    refused('bad_request', /column "shape" of int32, got utf8/, () =>
      decodeArrowResult(stream({ data, shape: text })),
    );
  });

  it('refuses nulls in data, negative dimensions and too many of them', () => {
    const holes = vectorFromArray([1, null], new Float32());
    refused('bad_request', /no nulls in data, got 1/, () =>
      decodeArrowResult(stream({ data: holes, shape })),
    );
    const negative = vectorFromArray([-2, null], new Int32());
    refused('bad_request', /dimensions >= 0, got -2/, () =>
      decodeArrowResult(stream({ data, shape: negative })),
    );
    const [many, ones] = [Array.from({ length: 17 }, () => 1), Array.from({ length: 17 }, () => 1)];
    const deep = { data: vectorFromArray(many, new Float32()), shape: vectorFromArray(ones, new Int32()) };
    refused('too_large', /17 dimensions are over the limit of 16/, () => decodeArrowResult(stream(deep)));
  });

  it('refuses a stream without batches', () => {
    const bytes = encodeArrowResult([float32([1])]);
    const schemaBytes = 8 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true);
    refused('bad_request', /expected a record batch, got none/, () =>
      decodeArrowResult(bytes.subarray(0, schemaBytes)),
    );
  });

  it('refuses a whole shape in the metadata that is none, or does not fit', () => {
    const bytes = encodeArrowResult([float32([1, 1, 2])]);
    const at = Buffer.from(bytes).indexOf('1,1,2');
    assert.notEqual(at, -1);
    const altered = (text: string) => {
      const copy = bytes.slice();
      copy.set(Buffer.from(text), at);
      return copy;
    };
    refused('bad_request', /cluster-serving\.shape: expected dimensions/, () =>
      decodeArrowResult(altered('1,,12')),
    );
    refused('bad_request', /shape \[1,1,3\] means 3 values, data has 2/, () =>
      decodeArrowResult(altered('1,1,3')),
    );
  });
});
