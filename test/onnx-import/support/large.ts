/** Writes a model of about 100 MB of each kind, for what memory an import needs. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openArchive } from '../../../onnx-import/files/zip.ts';
import { ARCHIVE } from '../../../onnx-import/formats/pytorch/files/archive.ts';
import { randomNumbers } from '../../../onnx-import/samples/inputs.ts';
import { onnxModel } from '../../support/onnx.ts';
import { moduleBytes } from './bigdl/writer.ts';
import { bundleFiles } from './bundle.ts';
import { caffemodel, inputText } from './caffe/net.ts';
import { netText } from './openvino.ts';
import { scriptEntries, zip } from './pytorch/archive.ts';
import {
  attr,
  constant,
  DT,
  floatTensor,
  graph,
  metaGraph,
  node,
  placeholder,
  savedModel,
} from './tensorflow.ts';

/** Four layers of width × width float32 numbers are 105 MB. */
const WIDTH = 2_560;
const LAYERS = [0, 1, 2, 3];
const SHAPE = [WIDTH, WIDTH];

/** Weights that keep the size of what passes through. */
function weights(seed: number, count = WIDTH * WIDTH): Float32Array {
  const next = randomNumbers(seed + 1);
  return Float32Array.from({ length: count }, () => (next() - 0.5) / 15);
}

type Files = Readonly<Record<string, string | Uint8Array>>;

const FLOAT = { T: attr.type(DT.float) };
const nameOf = (i: number) => (i < 0 ? 'x' : `y${i}`);
const products = LAYERS.map((i) => node('MatMul', nameOf(i), [nameOf(i - 1), `w${i}`], FLOAT));
const variables = () =>
  Object.fromEntries(LAYERS.map((i) => [`w${i}`, { shape: SHAPE, data: weights(i) }] as const));
const tfGraph = (layerOf: (i: number) => Buffer) =>
  graph([placeholder('x', [-1, WIDTH]), ...LAYERS.map(layerOf), ...products]);
const withVariables = () =>
  tfGraph((i) => node('VariableV2', `w${i}`, [], { dtype: attr.type(DT.float), shape: attr.shape(SHAPE) }));
const signature = { inputs: { x: 'x:0' }, outputs: { y: 'y3:0' } };

function openvino(): Files {
  const shape = [1, WIDTH];
  const layers = LAYERS.flatMap((i) => {
    const data = {
      element_type: 'f32',
      shape: SHAPE.join(),
      offset: i * 4 * WIDTH ** 2,
      size: 4 * WIDTH ** 2,
    };
    return [
      { id: 2 * i + 1, type: 'Const', data, shapes: [SHAPE] },
      { id: 2 * i + 2, type: 'MatMul', from: [2 * i, 2 * i + 1], shapes: [shape] },
    ];
  });
  const input = {
    id: 0,
    type: 'Parameter',
    data: { shape: shape.join(), element_type: 'f32' },
    shapes: [shape],
  };
  const result = { id: 9, type: 'Result', from: [8] };
  return {
    'net.xml': netText(11, [input, ...layers, result]),
    'net.bin': Buffer.concat(LAYERS.map((i) => new Uint8Array(weights(i).buffer))),
  };
}

function bigdl(): Files {
  const attributes = { inputSize: WIDTH, outputSize: WIDTH, withBias: false };
  const children = LAYERS.map((i) => {
    const tensor = { size: SHAPE, stride: [WIDTH, 1], storage: i };
    return moduleBytes({ type: 'nn.Linear', attributes, parameters: [tensor] });
  });
  const storages = LAYERS.map((i) => ({ size: SHAPE, stride: [WIDTH, 1], storage: i, data: weights(i) }));
  return { 'net.bigdl': moduleBytes({ type: 'nn.Sequential', children, storages }) };
}

/** A balanced tree of XGBoost or LightGBM. */
const DEPTH = 12;
const INNER = 2 ** DEPTH - 1;
const LEAVES = INNER + 1;
const FEATURES = 100;

function appender(path: string) {
  const file = openSync(path, 'w');
  let size = 0;
  const add = (part: string | Uint8Array) => {
    const bytes = Buffer.from(part as string);
    size += bytes.length;
    writeSync(file, bytes);
  };
  return { add, size: () => size, close: () => closeSync(file) };
}

const TREE_BYTES = 100e6;

/** The lists of a tree as XGBoost writes them, those that are not read too. */
function xgboostTree(id: number): Readonly<Record<string, Float32Array | Int32Array | Uint8Array>> {
  const count = INNER + LEAVES;
  const next = randomNumbers(id + 1);
  const floats = () => Float32Array.from({ length: count }, () => next() - 0.5);
  const ints = (of: (i: number) => number) => Int32Array.from({ length: count }, (_, i) => of(i));
  return {
    base_weights: floats(),
    categories: new Int32Array(0),
    categories_nodes: new Int32Array(0),
    categories_segments: new Int32Array(0),
    categories_sizes: new Int32Array(0),
    default_left: Uint8Array.from({ length: count }, (_, i) => i & 1),
    left_children: ints((i) => (i < INNER ? 2 * i + 1 : -1)),
    loss_changes: floats(),
    parents: ints((i) => (i === 0 ? 2_147_483_647 : (i - 1) >> 1)),
    right_children: ints((i) => (i < INNER ? 2 * i + 2 : -1)),
    split_conditions: floats(),
    split_indices: ints((i) => (i < INNER ? i % FEATURES : 0)),
    split_type: new Uint8Array(count),
    sum_hessian: floats(),
  };
}

const LEARNER = {
  feature_names: [],
  feature_types: [],
  learner_model_param: { base_score: '5E-1', num_class: '0', num_feature: `${FEATURES}`, num_target: '1' },
  objective: { name: 'reg:squarederror' },
};
const treeParam = () => ({
  num_deleted: '0',
  num_feature: `${FEATURES}`,
  num_nodes: `${INNER + LEAVES}`,
  size_leaf_vector: '1',
});

/** As XGBoost writes floats: 9.942269E-2. */
function floatText(value: number): string {
  return value.toExponential(7).toUpperCase().replace('+', '');
}

async function xgboostJson(folder: string): Promise<void> {
  const to = appender(join(folder, 'model.json'));
  to.add(`{"learner":{"attributes":{},"gradient_booster":{"model":{"trees":[`);
  let trees = 0;
  for (; to.size() < TREE_BYTES; trees++) {
    const lists = Object.entries(xgboostTree(trees)).map(([name, list]) => {
      const texts = list instanceof Float32Array ? Array.from(list, floatText) : Array.from(list, String);
      return `"${name}":[${texts.join()}]`;
    });
    const rest = `"id":${trees},"tree_param":${JSON.stringify(treeParam())}`;
    to.add(`${trees > 0 ? ',' : ''}{${lists.join()},${rest}}`);
  }
  const info = Array.from({ length: trees }, () => 0).join();
  const others = JSON.stringify(LEARNER).slice(1);
  to.add(`],"tree_info":[${info}],"gbtree_model_param":{"num_parallel_tree":"1","num_trees":"${trees}"}},`);
  to.add(`"name":"gbtree"},${others},"version":[3,2,0]}`);
  to.close();
}

const length = (value: number) => {
  const bytes = Buffer.alloc(9, 'L');
  bytes.writeBigInt64BE(BigInt(value), 1);
  return bytes;
};
const key = (name: string) => Buffer.concat([length(name.length), Buffer.from(name)]);

/** Texts, lists without a type, and objects of UBJSON. */
function ubjson(value: unknown): Buffer {
  if (typeof value === 'string') return Buffer.concat([Buffer.from('S'), key(value)]);
  if (Array.isArray(value))
    return Buffer.concat([Buffer.from('[#'), length(value.length), ...value.map(ubjson)]);
  const fields = Object.entries(value as object).flatMap(([name, item]) => [key(name), ubjson(item)]);
  return Buffer.concat([Buffer.from('{'), ...fields, Buffer.from('}')]);
}

function typed(list: Float32Array | Int32Array | Uint8Array): Buffer {
  const wide = list.BYTES_PER_ELEMENT === 4;
  const bytes = Buffer.from(list.buffer.slice(0));
  const type = list instanceof Float32Array ? 'd' : wide ? 'l' : 'U';
  return Buffer.concat([Buffer.from(`[$${type}#`), length(list.length), wide ? bytes.swap32() : bytes]);
}

async function xgboostUbj(folder: string): Promise<void> {
  const to = appender(join(folder, 'model.ubj'));
  const open = (name: string, marker: string) => to.add(Buffer.concat([key(name), Buffer.from(marker)]));
  to.add('{');
  open('learner', '{');
  open('gradient_booster', '{');
  open('model', '{');
  open('trees', '[');
  let trees = 0;
  for (; to.size() < TREE_BYTES; trees++) {
    const lists = Object.entries(xgboostTree(trees)).flatMap(([name, list]) => [key(name), typed(list)]);
    const rest = [key('tree_param'), ubjson(treeParam())];
    to.add(Buffer.concat([Buffer.from('{'), ...lists, ...rest, Buffer.from('}')]));
  }
  to.add(']');
  to.add(Buffer.concat([key('tree_info'), typed(new Int32Array(trees)), Buffer.from('}')]));
  to.add(Buffer.concat([key('name'), ubjson('gbtree'), Buffer.from('}')]));
  to.add(Buffer.concat([ubjson(LEARNER).subarray(1), Buffer.from('}')]));
  to.close();
}

async function lightgbm(folder: string): Promise<void> {
  const to = appender(join(folder, 'model.txt'));
  const names = Array.from({ length: FEATURES }, (_, i) => `Column_${i}`).join(' ');
  to.add(
    `tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=${FEATURES - 1}\n` +
      `objective=regression\nfeature_names=${names}\n\n`,
  );
  for (let tree = 0; to.size() < TREE_BYTES; tree++) {
    const next = randomNumbers(tree + 1);
    const list = (name: string, count: number, of: (i: number) => number) =>
      `${name}=${Array.from({ length: count }, (_, i) => of(i)).join(' ')}`;
    const child = (i: number) => (i < INNER ? i : ~(i - INNER));
    const lines = [
      `Tree=${tree}`,
      `num_leaves=${LEAVES}`,
      'num_cat=0',
      list('split_feature', INNER, (i) => i % FEATURES),
      list('split_gain', INNER, next),
      list('threshold', INNER, () => next() - 0.5),
      list('decision_type', INNER, () => 2),
      list('left_child', INNER, (i) => child(2 * i + 1)),
      list('right_child', INNER, (i) => child(2 * i + 2)),
      list('leaf_value', LEAVES, () => next() - 0.5),
      list('leaf_weight', LEAVES, next),
      list('leaf_count', LEAVES, (i) => i),
      list('internal_value', INNER, next),
      list('internal_weight', INNER, next),
      list('internal_count', INNER, (i) => i),
      'is_linear=0',
      'shrinkage=0.1',
    ];
    to.add(`${lines.join('\n')}\n\n\n`);
  }
  to.add(
    'end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\npandas_categorical:null\n',
  );
  to.close();
}

/** A cloudpickled class with a Linear(2, 1), made as wide as it is asked to be. */
function widened(file: Buffer, width: number): Buffer {
  const archive = openArchive(file, 'model.pt', ARCHIVE);
  const text = Buffer.from(archive.read('data.pkl')).toString('latin1');
  const start = text.indexOf('in_features');
  const int = (value: number) => {
    const bytes = Buffer.alloc(5, 'J');
    bytes.writeUInt32LE(value, 1);
    return bytes.toString('latin1');
  };
  const size = int(width);
  // The numbers in the order of the file: the layer's sizes, then count, offset, shape and strides of both weights.
  const numbers = [
    size,
    size,
    int(width * width),
    'K\0',
    size,
    size,
    size,
    'K\x01',
    size,
    'K\0',
    size,
    'K\x01',
  ];
  const tail = text.slice(start).replaceAll(/K[^ -\u00FF]/g, () => numbers.shift() as string);
  return zip(
    new Map([
      ['m/data.pkl', Buffer.from(text.slice(0, start) + tail, 'latin1')],
      ['m/data/0', Buffer.from(weights(0, width * width).buffer as ArrayBuffer)],
      ['m/data/1', Buffer.from(weights(1, width).buffer as ArrayBuffer)],
      ['m/version', Buffer.from('3\n')],
    ]),
  );
}

const FILES: Readonly<Record<string, () => Files>> = {
  onnx: () => ({
    'model.onnx': onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', WIDTH] }],
      outputs: [{ name: 'y3', dtype: 'float32', shape: ['N', WIDTH] }],
      nodes: LAYERS.map((i) => ({ op: 'MatMul', inputs: [nameOf(i - 1), `w${i}`], outputs: [nameOf(i)] })),
      weights: LAYERS.map((i) => ({ name: `w${i}`, dtype: 'float32', shape: SHAPE, data: weights(i) })),
    }),
  }),
  caffe: () => {
    const layers = LAYERS.map(
      (i) =>
        `layer { name: "y${i}" type: "InnerProduct" bottom: "${nameOf(i - 1)}" top: "y${i}" ` +
        `inner_product_param { num_output: ${WIDTH} bias_term: false } }\n`,
    );
    const blobs = LAYERS.map((i) => [`y${i}`, [{ shape: SHAPE, data: weights(i) }]] as const);
    return {
      'deploy.prototxt': inputText('x', [1, WIDTH]) + layers.join(''),
      'net.caffemodel': caffemodel(Object.fromEntries(blobs)),
    };
  },
  tf_frozen: () => ({
    'frozen_inference_graph.pb': tfGraph((i) => constant(`w${i}`, floatTensor(SHAPE, weights(i)))),
    'graph_meta.json': JSON.stringify({ input_names: ['x:0'], output_names: ['y3:0'] }),
  }),
  tf_saved_model: () => ({
    'saved_model.pb': savedModel({ graph: withVariables(), signatures: { serving_default: signature } }),
    ...bundleFiles('variables/variables', variables()),
  }),
  tf_checkpoint: () => ({
    'model.meta': metaGraph({ graph: withVariables() }),
    ...bundleFiles('model', variables()),
  }),
  openvino,
  bigdl,
  torchscript: () => ({
    'model.pt': zip(
      scriptEntries({
        forward:
          LAYERS.map((i) => `${nameOf(i)} = torch.matmul(${nameOf(i - 1)}, self.w${i})\n`).join('') +
          'return y3',
        weights: variables(),
      }),
    ),
  }),
};

/** Writes the model of each kind into a folder. */
export const LARGE: Readonly<Record<string, (folder: string) => Promise<void>>> = {
  ...Object.fromEntries(
    Object.entries(FILES).map(([kind, make]) => [kind, (folder: string) => writeAll(folder, make())]),
  ),
  'xgboost json': xgboostJson,
  'xgboost ubj': xgboostUbj,
  lightgbm,
};

async function writeAll(folder: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

/** @param small the corpus' cloudpickled model that is widened */
export async function largePickled(folder: string, small: string): Promise<void> {
  await writeFile(join(folder, 'model.pt'), widened(await readFile(small), 2 * WIDTH));
}
