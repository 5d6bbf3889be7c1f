/** The Open Inference Protocol over gRPC: every method, both forms of tensors, and malformed messages. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type ServiceError, status } from '@grpc/grpc-js';
import { DATATYPES } from '../../../lib/codecs/open-inference/tensor.ts';
import { readMessage } from '../../../onnx-import/wire/binary.ts';
import type { Message, Table } from '../../../onnx-import/wire/table.ts';
import { type ModelName, Models } from '../../functions/hostile/models.ts';
import { bytes, double, float, int, ints, tag, varint } from '../../onnx-import/support/protobuf.ts';
import { bytesOf, textBytes } from '../../support/open-inference.ts';
import { writePng } from '../../support/png.ts';
import { type Call, connect, inferMessage, jobOf, type Sent, serviceOf } from './client.ts';

const TENSOR: Table = {
  1: { name: 'name', type: 'string' },
  2: { name: 'datatype', type: 'string' },
  3: { name: 'shape', type: 'int64', repeated: true },
};
const ANSWER: Table = {
  1: { name: 'model', type: 'string' },
  2: { name: 'version', type: 'string' },
  3: { name: 'id', type: 'string' },
  5: { name: 'outputs', type: () => TENSOR, repeated: true },
  6: { name: 'raw', type: 'bytes', repeated: true },
};

interface Answer {
  readonly model: string;
  readonly version: string;
  readonly id?: string;
  readonly outputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: BigInt64Array;
  }[];
  readonly raw: readonly Uint8Array[];
}

const answered = (message: Buffer) => readMessage(message, ANSWER) as unknown as Answer;
const int64s = (...values: bigint[]) => bytesOf(BigInt64Array.from(values));

/** Model, its elements as bytes, and as `contents`; half has no such form. */
const TENSORS: readonly (readonly [ModelName, Uint8Array, Buffer | undefined])[] = [
  ['bool', Uint8Array.of(1, 0, 0, 1), ints(1, [1, 0, 0, 1])],
  ['int8', bytesOf(Int8Array.of(-128, -1, 0, 127)), ints(2, [-128, -1, 0, 127])],
  ['int16', bytesOf(Int16Array.of(-32_768, -1, 0, 32_767)), ints(2, [-32_768, -1, 0, 32_767])],
  [
    'int32',
    bytesOf(Int32Array.of(-(2 ** 31), -1, 0, 2 ** 31 - 1)),
    ints(2, [-(2 ** 31), -1, 0, 2 ** 31 - 1]),
  ],
  [
    'int64',
    int64s(-(2n ** 63n), -1n, 2n ** 53n + 1n, 2n ** 63n - 1n),
    ints(3, [-(2n ** 63n), -1n, 2n ** 53n + 1n, 2n ** 63n - 1n]),
  ],
  ['uint8', Uint8Array.of(0, 1, 254, 255), ints(4, [0, 1, 254, 255])],
  ['uint16', bytesOf(Uint16Array.of(0, 1, 256, 65_535)), ints(4, [0, 1, 256, 65_535])],
  ['uint32', bytesOf(Uint32Array.of(0, 1, 2 ** 31, 2 ** 32 - 1)), ints(4, [0, 1, 2 ** 31, 2 ** 32 - 1])],
  [
    'uint64',
    bytesOf(BigUint64Array.of(0n, 1n, 2n ** 53n + 1n, 2n ** 64n - 1n)),
    ints(5, [0n, 1n, 2n ** 53n + 1n, 2n ** 64n - 1n]),
  ],
  [
    'pair',
    bytesOf(Float32Array.of(1.5, -0.25, 1e10, Number.NaN)),
    bytes(6, bytesOf(Float32Array.of(1.5, -0.25, 1e10, Number.NaN))),
  ],
  // Not packed.
  [
    'double',
    bytesOf(Float64Array.of(1.5, -0.25, 1e300, 0.1)),
    Buffer.concat([1.5, -0.25, 1e300, 0.1].map((one) => double(7, one))),
  ],
  ['half', bytesOf(Uint16Array.of(0x3c00, 0xc000, 0x7bff, 0x3555)), undefined],
  [
    'texts',
    textBytes(['a', '', 'wörld', '😀']),
    Buffer.concat(['a', '', 'wörld', '😀'].map((one) => bytes(8, one))),
  ],
];

const OTHERS = ['two', 'vector', 'grey'] as const;
/** The grey of each pixel of a picture of 8 x 8. */
const GREY = Array.from({ length: 64 }, (_, i) => (i * 37) % 256);

const datatypeOf = (model: ModelName) =>
  model === 'pair'
    ? 'FP32'
    : DATATYPES[
        ({ half: 'float16', double: 'float64', texts: 'string' } as const)[model as 'half'] ??
          (model as 'bool')
      ];

describe('the service before one job for each model', () => {
  let call: Call;
  let zipped: Call;
  const after: (() => Promise<void>)[] = [];
  const hooks = { after: (work: () => Promise<void>) => after.push(work) };

  before(async () => {
    const models = new Models(hooks);
    const names: ModelName[] = [...TENSORS.map(([model]) => model), ...OTHERS];
    const jobs = await Promise.all(names.map(async (name) => jobOf(name, await models.runner(name))));
    const { port } = await serviceOf(hooks, jobs);
    call = connect(hooks, port);
    zipped = connect(hooks, port, { 'grpc.default_compression_algorithm': 2 });
  });
  test.after(async () => {
    for (const work of after.reverse()) await work();
  });

  const infer = async (...args: Parameters<typeof inferMessage>) =>
    answered(await call('ModelInfer', inferMessage(...args)));

  for (const [model, raw, typed] of TENSORS) {
    const datatype = datatypeOf(model);
    test(`${datatype} comes back with all its bits, sent as bytes${typed ? ' and as contents' : ''}`, async () => {
      const forms: Sent[] = [{ datatype, shape: [2, 2], raw }];
      if (typed) forms.push({ datatype, shape: [2, 2], typed });
      for (const form of forms) {
        const { outputs, raw: got } = await infer(model, [form]);
        assert.deepEqual(
          outputs.map((one) => [one.name, one.datatype, ...one.shape]),
          [['x_out', datatype, 2n, 2n]],
        );
        assert.deepEqual(
          got.map((one) => Buffer.from(one)),
          [Buffer.from(raw)],
        );
      }
    });
  }

  test('tensors without elements and NUL behind texts are taken, as bytes and as contents', async () => {
    for (const form of [{ raw: Buffer.alloc(0) }, { typed: Buffer.alloc(0) }, {}]) {
      for (const [model, datatype] of [
        ['vector', 'FP32'],
        ['texts', 'BYTES'],
      ] as const) {
        const { outputs, raw } = await infer(model, [{ datatype, shape: [2, 0], ...form }]);
        assert.deepEqual(
          outputs.map(({ shape }) => [...shape]),
          [[2n, 0n]],
        );
        assert.deepEqual(
          raw.map((one) => one.length),
          [0],
        );
      }
    }
    const texts = ['a\0\0', 'b\0'];
    for (const form of [
      { raw: textBytes(texts) },
      { typed: Buffer.concat(texts.map((one) => bytes(8, one))) },
    ]) {
      const { raw } = await infer('texts', [{ datatype: 'BYTES', shape: [1, 2], ...form }]);
      assert.deepEqual(
        raw.map((one) => Buffer.from(one)),
        [textBytes(['a', 'b'])],
      );
    }
    for (const [model, sent] of [
      ['texts', { datatype: 'BYTES', shape: [1, 1], raw: textBytes(['a\0b']) }],
      ['texts', { datatype: 'BYTES', shape: [1, 1], raw: textBytes(['\0']) }],
      ['vector', { datatype: 'FP32', shape: [0, 2], raw: Buffer.alloc(0) }],
      ['pair', { datatype: 'FP32', shape: [1, 0], raw: Buffer.alloc(0) }],
    ] as const)
      await assert.rejects(infer(model, [sent]), { code: status.INVALID_ARGUMENT });
  });

  test('image files are pictures for a model that takes them, as bytes and as contents', async () => {
    const sample = (x: number, y: number) => [GREY[8 * y + x] ?? 0];
    const picture = Buffer.from(writePng({ width: 8, height: 8, depth: 8, colourType: 0, sample }));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(picture.length);
    const element = Buffer.concat([length, picture]);
    const want = await infer('grey', [
      { datatype: 'FP32', shape: [2, 1, 8, 8], raw: bytesOf(Float32Array.from([...GREY, ...GREY])) },
    ]);
    for (const form of [
      { raw: Buffer.concat([element, element]) },
      { typed: Buffer.concat([bytes(8, picture), bytes(8, picture)]) },
    ]) {
      const got = await infer('grey', [{ datatype: 'BYTES', shape: [2], ...form }]);
      assert.deepEqual({ ...got, version: '' }, { ...want, version: '' });
    }
    await assert.rejects(
      infer('texts', [{ datatype: 'BYTES', shape: [1, 1], raw: element }]),
      /is no UTF-8 text, but an image/,
    );
  });

  test('an answer has the id, the version and the outputs that were asked for, in their order', async () => {
    const inputs = [
      { name: 'b', datatype: 'INT64', shape: [1, 1], raw: int64s(5n) },
      { name: 'a', datatype: 'FP32', shape: [1, 2], raw: bytesOf(Float32Array.of(1, 2)) },
    ];
    const all = await infer('two', inputs, bytes(3, 'ünï'));
    assert.equal(all.id, 'ünï');
    assert.ok(all.version.length > 0);
    const reversed = all.outputs.map(({ name }) => name).toReversed();
    const asked = await infer(
      'two',
      inputs,
      bytes(2, all.version),
      ...reversed.map((name) => bytes(6, bytes(1, name))),
    );
    assert.deepEqual(
      asked.outputs.map(({ name }) => name),
      reversed,
    );
    assert.deepEqual(
      asked.raw.map((one) => one.length),
      all.raw.map((one) => one.length).toReversed(),
    );
    assert.equal(asked.id, undefined);
  });

  test('gzip is read', async () => {
    const raw = Buffer.alloc(80_000);
    const message = inferMessage('pair', [{ datatype: 'FP32', shape: [10_000, 2], raw }]);
    assert.deepEqual(Buffer.from(answered(await zipped('ModelInfer', message)).raw[0] as Uint8Array), raw);
  });

  test('health, metadata, index, configuration and statistics say what REST says', async () => {
    const named = bytes(1, 'two');
    assert.deepEqual([...(await call('ServerLive'))], [8, 1]);
    assert.deepEqual([...(await call('ServerReady'))], [8, 1]);
    assert.deepEqual([...(await call('ModelReady', named))], [8, 1]);
    assert.match((await call('ServerMetadata')).toString(), /cluster-serving.*binary_tensor_data/s);
    const metadata: Table = {
      1: ANSWER[1] as never,
      3: { name: 'platform', type: 'string' },
      4: { ...ANSWER[5], name: 'inputs' } as never,
    };
    const { inputs, ...said } = readMessage(await call('ModelMetadata', named), metadata);
    assert.deepEqual({ ...said }, { model: 'two', platform: 'onnxruntime_onnx' });
    assert.deepEqual(
      (inputs as Message[]).map(({ name, datatype, shape }) => [name, datatype, ...(shape as BigInt64Array)]),
      [
        ['a', 'FP32', -1n, 2n],
        ['b', 'INT64', -1n, 1n],
      ],
    );
    assert.match((await call('ModelConfig', named)).toString('latin1'), /two.*onnxruntime/s);
    const { models } = readMessage(await call('RepositoryIndex'), {
      1: { name: 'models', type: () => TENSOR, repeated: true },
    });
    assert.equal((models as Message[]).length, TENSORS.length + OTHERS.length);
    const statistics: Table = {
      1: {
        name: 'all',
        type: () => ({ 1: { name: 'name', type: 'string' }, 5: { name: 'runs', type: 'uint64' } }),
        repeated: true,
      },
    };
    const counted = async (message?: Buffer) =>
      readMessage(await call('ModelStatistics', message), statistics)['all'] as Message[];
    assert.equal((await counted()).length, TENSORS.length + OTHERS.length);
    const [one] = await counted(bytes(1, 'double'));
    assert.equal(one?.['name'], 'double');
    assert.ok((one?.['runs'] as number) >= 2);
  });

  const x = { datatype: 'FP32', shape: [1, 2], raw: bytesOf(Float32Array.of(1, 2)) };
  const parameter = (name: string, value: Buffer) => bytes(4, bytes(1, name), bytes(2, value));
  const REFUSED: readonly (readonly [string, Buffer, status, RegExp])[] = [
    ['an unknown model', inferMessage('none', [x]), status.NOT_FOUND, /^no model "none"; there is "bool"/],
    ['an unknown version', inferMessage('pair', [x], bytes(2, '7')), status.NOT_FOUND, /no version "7"/],
    ['no input', inferMessage('pair', []), status.INVALID_ARGUMENT, /"inputs" is empty/],
    [
      'a message that is cut off',
      inferMessage('pair', [x]).subarray(0, -3),
      status.INVALID_ARGUMENT,
      /^the message: a length says/,
    ],
    ['no message at all', Buffer.from('GET / HTTP/1.1\r\n\r\n'), status.INVALID_ARGUMENT, /^the message: /],
    [
      'bytes that are too few',
      inferMessage('pair', [{ ...x, raw: Buffer.alloc(7) }]),
      status.INVALID_ARGUMENT,
      /takes 8 bytes, and 7 came/,
    ],
    [
      'bytes for another input only',
      inferMessage('pair', [x, { ...x, name: 'y', raw: undefined as never }]),
      status.INVALID_ARGUMENT,
      /1 raw_input_contents came for 2 inputs/,
    ],
    [
      'both forms',
      inferMessage('pair', [{ ...x, typed: float(6, 1) }]),
      status.INVALID_ARGUMENT,
      /has contents and raw_input_contents/,
    ],
    [
      'contents of another type',
      inferMessage('pair', [{ ...x, raw: undefined as never, typed: ints(2, [1, 2]) }]),
      status.INVALID_ARGUMENT,
      /has int_contents; FP32 travels in fp32_contents/,
    ],
    [
      'contents that are too few',
      inferMessage('pair', [{ ...x, raw: undefined as never, typed: float(6, 1) }]),
      status.INVALID_ARGUMENT,
      /fp32_contents has 1 elements; \[1,2\] takes 2/,
    ],
    [
      'contents that do not fit',
      inferMessage('int8', [{ datatype: 'INT8', shape: [1, 2], typed: ints(2, [0, 128]) }]),
      status.INVALID_ARGUMENT,
      /128/,
    ],
    [
      'contents of halves',
      inferMessage('half', [{ datatype: 'FP16', shape: [1, 2], typed: float(6, 1) }]),
      status.INVALID_ARGUMENT,
      /FP16 travels in raw_input_contents only/,
    ],
    [
      'a text that is none',
      inferMessage('texts', [{ datatype: 'BYTES', shape: [1, 1], typed: bytes(8, Buffer.of(0xff)) }]),
      status.INVALID_ARGUMENT,
      /BYTES element 0 is not UTF-8 text/,
    ],
    [
      'an unknown datatype',
      inferMessage('pair', [{ ...x, datatype: 'FP8' }]),
      status.INVALID_ARGUMENT,
      /datatype "FP8" is not served/,
    ],
    [
      'a shape that is huge',
      inferMessage('pair', [{ ...x, shape: [2 ** 40, 2 ** 40] }]),
      status.RESOURCE_EXHAUSTED,
      /over the limit/,
    ],
    [
      'a shape beyond 2^53',
      inferMessage('pair', [{ ...x, shape: [2n ** 62n] }]),
      status.INVALID_ARGUMENT,
      /"shape": expected whole numbers/,
    ],
    [
      'a shape below 0',
      inferMessage('pair', [{ ...x, shape: [-1, 2] }]),
      status.INVALID_ARGUMENT,
      /"shape": expected whole numbers/,
    ],
    ['an input twice', inferMessage('pair', [x, x]), status.INVALID_ARGUMENT, /"x" is there twice/],
    [
      'an output that is not there',
      inferMessage('pair', [x], bytes(6, bytes(1, 'z'))),
      status.INVALID_ARGUMENT,
      /output "z": the model has "x_out"/,
    ],
    [
      'shared memory',
      inferMessage(
        'pair',
        [x],
        bytes(6, bytes(1, 'x_out'), bytes(2, bytes(1, 'shared_memory_region'), bytes(2, bytes(3, 'r')))),
      ),
      status.INVALID_ARGUMENT,
      /shared memory is not served/,
    ],
    [
      'a sequence',
      inferMessage('pair', [x], parameter('sequence_id', int(2, 7))),
      status.INVALID_ARGUMENT,
      /sequences \(sequence_id\) are not served/,
    ],
    [
      'a hundred thousand inputs',
      inferMessage('pair', [], Buffer.concat(Array<Buffer>(100_000).fill(bytes(5, '')))),
      status.RESOURCE_EXHAUSTED,
      /100000 inputs are/,
    ],
    [
      'a million inputs',
      inferMessage('pair', [], Buffer.concat(Array<Buffer>(1_000_000).fill(bytes(5, '')))),
      status.INVALID_ARGUMENT,
      /more than 262144 messages and texts/,
    ],
    [
      'a million texts',
      inferMessage('texts', [
        {
          datatype: 'BYTES',
          shape: [1_000_000],
          typed: Buffer.concat(Array<Buffer>(1_000_000).fill(bytes(8, ''))),
        },
      ]),
      status.INVALID_ARGUMENT,
      /more than 262144 messages and texts/,
    ],
    [
      'a number of eleven bytes',
      Buffer.concat([tag(3, 0), Buffer.alloc(11, 0x80), varint(0)]),
      status.INVALID_ARGUMENT,
      /longer than ten bytes/,
    ],
    [
      'half of a character in an error',
      inferMessage(`${'n'.repeat(79)}😀${'n'.repeat(9)}`, [x]),
      status.NOT_FOUND,
      /^no model "n{79}/,
    ],
  ];
  for (const [what, message, code, details] of REFUSED) {
    test(`refused, and the service continues: ${what}`, async () => {
      await assert.rejects(call('ModelInfer', message), (error: ServiceError) => {
        assert.equal(status[error.code], status[code], error.details);
        assert.match(error.details, details);
        assert.match(String(error.metadata.get('error-code')), /^[a-z_]+$/);
        return true;
      });
      assert.deepEqual([...(await call('ServerLive'))], [8, 1]);
    });
  }

  test('what unzips to more than a message may have is refused while it grows', async () => {
    await assert.rejects(zipped('ModelInfer', Buffer.alloc(40 * 1024 * 1024)), (error: ServiceError) => {
      assert.equal(error.code, status.RESOURCE_EXHAUSTED);
      assert.match(error.details, /decompresses to a size larger than 33554432/);
      return true;
    });
    assert.deepEqual([...(await call('ServerLive'))], [8, 1]);
  });

  test('what is not served says what to do', async () => {
    for (const [method, details] of [
      ['ModelStreamInfer', /call ModelInfer for each request/],
      ['RepositoryModelLoad', /cluster-serving model push/],
      ['SystemSharedMemoryRegister', /send tensors in the messages/],
      ['TraceSetting', /made at the start/],
    ] as const) {
      await assert.rejects(call(method), (error: ServiceError) => {
        assert.equal(error.code, status.UNIMPLEMENTED);
        assert.match(error.details, details);
        return true;
      });
    }
    await assert.rejects(call('NoSuchMethod'), { code: status.UNIMPLEMENTED });
  });
});
