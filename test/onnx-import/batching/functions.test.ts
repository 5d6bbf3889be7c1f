/** Functions of the file: the proof follows the body that onnxruntime runs, or ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, integer, message, text } from '../../../onnx-import/wire/chunk.ts';
import { type NodeSpec, nodeProto } from '../../support/onnx.ts';
import { node, prove } from './prove-sample.ts';

interface FunctionSpec {
  readonly domain?: string;
  readonly name?: string;
  readonly overload?: string;
  /** Version of the standard operators. Default 17, as the models have. */
  readonly opset?: number;
  readonly body: readonly NodeSpec[];
}

/** The field of a model. */
function functionField({ domain = 'local', name = 'Inner', overload, opset = 17, body }: FunctionSpec) {
  const item = message([
    text(1, name),
    text(4, 'a'),
    text(5, 'b'),
    ...body.map((inner) => bytes(7, nodeProto(inner))),
    bytes(9, message([text(1, ''), integer(2, opset)])),
    text(10, domain),
    ...(overload === undefined ? [] : [text(13, overload)]),
  ]);
  return Buffer.concat(bytes(25, item).parts);
}

const MIXES = [node('Softmax', 'a', 'b', { axis: 0 })];
const KEEPS = [node('Relu', 'a', 'r'), node('Neg', 'r', 'b')];
const call = (overload?: string): NodeSpec => ({
  ...node('Inner', 'x', 'y', {}, 'local'),
  ...(overload === undefined ? {} : { overload }),
});

interface Case {
  readonly title: string;
  readonly nodes?: readonly NodeSpec[];
  readonly functions: readonly FunctionSpec[];
  /** The operator that ends the proof; undefined: proven. */
  readonly ends: string | undefined;
}

const CASES: readonly Case[] = [
  { title: 'a body that keeps rows apart', functions: [{ body: KEEPS }], ends: undefined },
  { title: 'a body that mixes rows', functions: [{ body: MIXES }], ends: 'Softmax' },
  {
    title: 'the overload that is called, beside one that mixes rows',
    nodes: [call('a')],
    functions: [
      { overload: 'a', body: KEEPS },
      { overload: 'b', body: MIXES },
    ],
    ends: undefined,
  },
  {
    title: 'an overload that mixes rows, beside one that does not',
    nodes: [call('a')],
    functions: [{ overload: 'a', body: MIXES }, { overload: 'b', body: KEEPS }, { body: KEEPS }],
    ends: 'Softmax',
  },
  {
    title: 'an overload that the file does not have',
    nodes: [call('c')],
    functions: [{ body: KEEPS }],
    ends: 'Inner',
  },
  {
    title: 'a body that calls an overload that mixes rows',
    functions: [
      { body: [{ ...node('Deep', 'a', 'b', {}, 'local'), overload: 'b' }] },
      { name: 'Deep', overload: 'b', body: MIXES },
      { name: 'Deep', body: KEEPS },
    ],
    ends: 'Softmax',
  },
  {
    title: 'two functions of one name and overload',
    functions: [{ body: KEEPS }, { body: KEEPS }],
    ends: 'Inner',
  },
  ...[
    { domain: '', op: 'Softmax' },
    { domain: 'ai.onnx', op: 'Softmax' },
    { domain: 'ai.onnx.ml', op: 'Scaler' },
    { domain: 'com.microsoft', op: 'Gelu' },
  ].map(({ domain, op }) => ({
    title: `a function of the name of ${domain}:${op}, in place of which onnxruntime runs its own`,
    nodes: [node(op, 'x', 'y', {}, domain)],
    functions: [{ domain, name: op, body: KEEPS }],
    ends: op,
  })),
  {
    title: 'a function for an older operator set, whose body onnxruntime runs by the newer one of the model',
    functions: [{ opset: 11, body: KEEPS }],
    ends: 'Inner',
  },
];

for (const { title, nodes = [call()], functions, ends } of CASES) {
  test(`${ends === undefined ? 'proven' : 'not proven'}: ${title}`, async (t) => {
    const { end } = await prove(t, { nodes, extra: Buffer.concat(functions.map(functionField)) });
    assert.equal(end?.operator, ends, end?.message);
  });
}
