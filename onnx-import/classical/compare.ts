/**
 * Compares what onnxruntime answers for each node of ai.onnx.ml with the specification, on made-up rows: its kernels are wrong
 * at every optimization level, so comparing levels shows nothing. Runs in a process that can be killed.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { AS_WRITTEN } from '../../lib/contract/verification.ts';
import { openSession } from '../../lib/inference/session.ts';
import { ELEMENT_TYPES } from '../graph/attributes.ts';
import { asIs, replaceFields } from '../onnx/rewrite/fields.ts';
import { ML_DOMAIN, mendKernel } from '../onnx/rewrite/kernels.ts';
import type { Answer, Evaluate } from '../onnx/rewrite/ml-node.ts';
import { bytes, type Chunk, integer, message, text } from '../wire/chunk.ts';
import { arrayFeatures, binarizer, categoryMapper, featureVectors, imputer, labelEncoder, normalizer, oneHot } from './encoders.ts'; // biome-ignore format: a list
import { classicalNodes, type FoundNode, hasClassicalNodes } from './find.ts';
import { linearClassifier, linearRegressor, scaler, svmClassifier, svmRegressor } from './linear.ts';
import { madeUpInputs } from './rows.ts';
import { treeClassifier, treeRegressor } from './trees.ts';

export const EVALUATED: Readonly<Record<string, Evaluate>> = {
  ArrayFeatureExtractor: arrayFeatures,
  Binarizer: binarizer,
  CategoryMapper: categoryMapper,
  FeatureVectorizer: featureVectors,
  Imputer: imputer,
  LabelEncoder: labelEncoder,
  LinearClassifier: linearClassifier,
  LinearRegressor: linearRegressor,
  Normalizer: normalizer,
  OneHotEncoder: oneHot,
  SVMClassifier: svmClassifier,
  SVMRegressor: svmRegressor,
  Scaler: scaler,
  TreeEnsemble: treeRegressor,
  TreeEnsembleClassifier: treeClassifier,
  TreeEnsembleRegressor: treeRegressor,
};

export interface NodesRequest {
  readonly file: string;
  /** Whether the nodes are compared as an import rewrites them. */
  readonly isMended: boolean;
}

/** A larger node would take too much memory. */
const MOST_BYTES = 32 * 1024 * 1024;
/** Of a file with more nodes, the first ones. */
const MOST_NODES = 500;
const STANDARD_OPSET = 17;
/** The rounding of a float32. */
const RELATIVE = 2 ** -22;
const SMALLEST = 1e-37;

/**
 * @returns what could not be compared, with the reason
 * @throws bad_model naming a node whose answers are wrong
 */
export async function compareNodes({ file, isMended }: NodesRequest): Promise<readonly string[]> {
  if (!hasClassicalNodes(file)) return [];
  const folder = await mkdtemp(join(tmpdir(), 'onnx-import-nodes-'));
  const open: string[] = [];
  try {
    let count = 0;
    for (const found of classicalNodes(await readFile(file))) {
      const problem =
        count++ < MOST_NODES
          ? await compareNode(found, join(folder, 'node.onnx'), isMended)
          : 'the file has too many nodes';
      if (problem !== undefined)
        open.push(`${titleOf(found)} was not compared with the specification: ${problem}`);
    }
    return open;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function titleOf({ node }: FoundNode): string {
  return `${node.operator} "${node.name || node.outputs[0]}"`;
}

/** @returns why it could not be compared. @throws bad_model */
async function compareNode(found: FoundNode, path: string, isMended: boolean): Promise<string | undefined> {
  const { node, content } = found;
  const evaluate = EVALUATED[node.operator];
  if (node.operator === 'ZipMap') return undefined;
  if (!evaluate) return 'it is not known';
  if (content.length > MOST_BYTES) return 'it is too large';
  const inputs = madeUpInputs(node, found.dtypes);
  if (!inputs) return 'its attributes do not say what it takes';
  const expected = evaluate(node, inputs);
  if (typeof expected === 'string') return expected;
  const outputs = node.outputs
    .map((name, i) => ({ name, answer: expected[i] }))
    .filter(({ name }) => found.isUsed(name));
  await writeFile(path, nodeModel(found, inputs, isMended));
  const answers = await answersOf(path, inputs);
  if (typeof answers === 'string') return answers;
  for (const [i, { name, answer }] of outputs.entries()) {
    const difference = answer && differenceOf(answers[i] as Tensor, answer);
    if (difference === undefined) continue;
    throw badModel(
      `${titleOf(found)}: onnxruntime answers ${difference} (output "${name}"); the model cannot be served with right answers`,
    );
  }
  return undefined;
}

async function answersOf(path: string, inputs: readonly Tensor[]): Promise<readonly Tensor[] | string> {
  try {
    const session = await openSession(path, { threads: 1, optimization: AS_WRITTEN });
    try {
      return await session.run(inputs);
    } finally {
      await session.close();
    }
  } catch (error) {
    return `onnxruntime does not take made-up rows (${ServingError.from(error).message})`;
  }
}

/** A model of the node alone, with inputs of these shapes. */
function nodeModel(
  { node, content, opset, isUsed }: FoundNode,
  inputs: readonly Tensor[],
  isMended: boolean,
): Uint8Array {
  const names = inputs.map((_, i) => `input ${i}`);
  let at = 0;
  const renamed = Buffer.concat(
    replaceFields(content, ({ number }) => (number === 1 ? [text(1, names[at++] ?? '')] : undefined)).parts,
  );
  const own = { ...node, inputs: names };
  let count = 0;
  const around = { fresh: () => `mended ${count++}`, opset: STANDARD_OPSET, isUsed };
  const mended = isMended ? mendKernel(own, renamed, around)?.chunks : undefined;
  const graph = message([
    ...(mended ?? [asIs(renamed)]).map((chunk) => bytes(1, chunk)),
    text(2, 'node'),
    ...inputs.map((tensor, i) => bytes(11, typed(names[i] as string, tensor))),
    ...node.outputs.filter(isUsed).map((name) => bytes(12, message([text(1, name)]))),
  ]);
  const opsets = [
    message([text(1, ''), integer(2, STANDARD_OPSET)]),
    message([text(1, ML_DOMAIN), integer(2, opset)]),
  ];
  const head = [integer(1, 10), bytes(7, graph)];
  return Buffer.concat(message([...head, ...opsets.map((each) => bytes(8, each))]).parts);
}

function typed(name: string, { dtype, shape }: Tensor): Chunk {
  const dims = shape.map((dim) => bytes(1, message([integer(1, dim)])));
  const type = message([integer(1, ELEMENT_TYPES[dtype]), bytes(2, message(dims))]);
  return message([text(1, name), bytes(2, message([bytes(1, type)]))]);
}

/** The first difference, as a text. */
function differenceOf(found: Tensor, { values, allowed }: Answer): string | undefined {
  if (found.data.length !== values.length)
    return `${found.data.length} values where ${values.length} are expected`;
  for (const [i, expected] of values.entries()) {
    const value = found.data[i] as number | bigint | string;
    const most = allowed?.[i] ?? 0;
    if (most === Infinity || isSame(value, expected, most)) continue;
    return `${value} where the specification says ${expected}`;
  }
  return undefined;
}

function isSame(
  value: number | bigint | string,
  expected: number | bigint | string,
  allowed: number,
): boolean {
  if (typeof value === 'string' || typeof expected === 'string') return value === expected;
  if (typeof value === 'bigint' && typeof expected === 'bigint') return value === expected;
  const [a, b] = [Number(value), Number(expected)];
  if (Object.is(a, b) || a === Math.fround(b)) return true;
  return Math.abs(a - b) <= allowed + RELATIVE * Math.abs(b) + SMALLEST;
}
