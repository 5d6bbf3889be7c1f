/** Model directories that hold no model that can serve. */
import { gzipSync } from 'node:zlib';
import { onnxModel, type ValueSpec } from '../../../support/onnx.ts';

/** Files of the directory by name; `model.onnx` unless it says otherwise. */
export type ModelCase = readonly [
  name: string,
  files: Readonly<Record<string, () => Uint8Array | string>>,
  message: RegExp,
];

const x: ValueSpec = { name: 'x', dtype: 'float32', shape: ['N', 2] };
const y: ValueSpec = { ...x, name: 'y' };
const good = () =>
  onnxModel({ inputs: [x], outputs: [y], nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }] });

const model = (name: string, make: () => Uint8Array | string, message: RegExp): ModelCase => [
  name,
  { 'model.onnx': make },
  message,
];

const NOT_LOADED = /^onnxruntime cannot load the model: .+/;
const found = (what: string) => new RegExp(`model\\.onnx: expected an ONNX model, found ${what}`);

const varint = (value: number): Buffer =>
  value < 128 ? Buffer.of(value) : Buffer.of((value & 127) | 128, value >> 7);
const field = (number: number, bytes: Uint8Array | string): Buffer =>
  Buffer.concat([Buffer.of((number << 3) | 2), varint(bytes.length), Buffer.from(bytes as string)]);
const integer = (number: number, value: number): Buffer =>
  Buffer.concat([Buffer.of(number << 3), varint(value)]);

/** y = x + w, and w lies in another file: 8 bytes at `location`. Fields are those of onnx.proto. */
export function externalModel(location: string): Buffer {
  const entry = (key: string, value: string) => field(13, Buffer.concat([field(1, key), field(2, value)]));
  const weight = Buffer.concat([
    integer(1, 2),
    integer(2, 1),
    field(8, 'w'),
    entry('location', location),
    entry('length', '8'),
    integer(14, 1),
  ]);
  const node = Buffer.concat([field(1, 'x'), field(1, 'w'), field(2, 'y'), field(4, 'Add')]);
  const dims = Buffer.concat([field(1, field(2, 'N')), field(1, integer(1, 2))]);
  const value = (name: string) =>
    Buffer.concat([field(1, name), field(2, field(1, Buffer.concat([integer(1, 1), field(2, dims)])))]);
  const graph = Buffer.concat([
    field(1, node),
    field(2, 'g'),
    field(5, weight),
    field(11, value('x')),
    field(12, value('y')),
  ]);
  return Buffer.concat([
    integer(1, 8),
    field(7, graph),
    field(8, Buffer.concat([field(1, ''), integer(2, 17)])),
  ]);
}

export const MODELS: readonly ModelCase[] = [
  ['no file', {}, /expected one \*\.onnx file, found none in 0 files/],
  ['another file', { 'model.pb': () => 'x' }, /expected one \*\.onnx file, found none in 1 files: model\.pb/],
  ['two models', { 'a.onnx': good, 'b.onnx': good }, /expected one \*\.onnx file, found a\.onnx, b\.onnx/],
  ['a name in capitals', { 'MODEL.ONNX': good }, /found none in 1 files: MODEL\.ONNX/],
  model('an empty file', () => '', found('an empty file')),
  model('a web page', () => '<!DOCTYPE html><html>404</html>', found('a web page')),
  model('a web page behind white space', () => '\n  <html>', found('a web page')),
  model(
    'an error of S3',
    () => '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    found('an XML text, as storage answers with an error'),
  ),
  model(
    'an error as JSON',
    () => '{"message":"Not Found"}',
    found('a JSON text, as hubs answer with an error'),
  ),
  model(
    'a Git LFS pointer',
    () => 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n',
    found('a Git LFS pointer'),
  ),
  model('gzip of a model', () => gzipSync(good()), found('a gzip archive')),
  model('a zip archive', () => 'PK\u0003\u0004model', found('a zip archive')),
  model(
    'random bytes',
    () => Buffer.from(Array.from({ length: 500 }, (_, i) => (i * 7919) % 251)),
    NOT_LOADED,
  ),
  model('zeros', () => Buffer.alloc(1000), NOT_LOADED),
  model('a text', () => 'model', NOT_LOADED),
  model('a model cut in half', () => good().subarray(0, 40), NOT_LOADED),
  model('a model cut by a byte', () => good().subarray(0, -1), NOT_LOADED),
  model(
    'an operator that does not exist',
    () =>
      onnxModel({ inputs: [x], outputs: [y], nodes: [{ op: 'Nonsense', inputs: ['x'], outputs: ['y'] }] }),
    /cannot load the model: .*Nonsense/,
  ),
  model(
    'opset 999',
    () =>
      onnxModel({
        inputs: [x],
        outputs: [y],
        nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
        opset: 999,
      }),
    /cannot load the model: .*the opset is newer than this onnxruntime: export the model again with opset 17/is,
  ),
  model(
    'an output without a producer',
    () => onnxModel({ inputs: [x], outputs: [y], nodes: [] }),
    NOT_LOADED,
  ),
  model(
    'a node that feeds itself',
    () =>
      onnxModel({ inputs: [x], outputs: [y], nodes: [{ op: 'Add', inputs: ['y', 'x'], outputs: ['y'] }] }),
    NOT_LOADED,
  ),
  model(
    'an input without a source',
    () =>
      onnxModel({ inputs: [x], outputs: [y], nodes: [{ op: 'Add', inputs: ['x', 'z'], outputs: ['y'] }] }),
    NOT_LOADED,
  ),
  model(
    'two outputs of one name',
    () =>
      onnxModel({
        inputs: [x],
        outputs: [y, y],
        nodes: [
          { op: 'Relu', inputs: ['x'], outputs: ['y'] },
          { op: 'Relu', inputs: ['x'], outputs: ['y'] },
        ],
      }),
    NOT_LOADED,
  ),
  model(
    'no input',
    () =>
      onnxModel({
        inputs: [],
        outputs: [{ ...y, shape: [2] }],
        nodes: [{ op: 'Identity', inputs: ['w'], outputs: ['y'] }],
        weights: [{ name: 'w', dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) }],
      }),
    /the model has no inputs/,
  ),
  model('weights in a file that is not there', () => externalModel('gone.bin'), NOT_LOADED),
  [
    'weights in a file that is too short',
    { 'model.onnx': () => externalModel('w.bin'), 'w.bin': () => Buffer.alloc(4) },
    NOT_LOADED,
  ],
  model('weights above its folder', () => externalModel('../w.bin'), NOT_LOADED),
  model('weights that climb and come back', () => externalModel('sub/../../w.bin'), NOT_LOADED),
  model('weights at an absolute path', () => externalModel('/etc/hostname'), NOT_LOADED),
];
