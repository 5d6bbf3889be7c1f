/**
 * Rewrites what the exporters of scikit-learn, LightGBM and XGBoost write and no function can serve: ZipMap makes a list
 * of maps of plain probabilities, StringNormalizer wants a locale that bare machines lack, and onnxruntime answers some
 * nodes wrongly. Everything else in the file stays as it is.
 */
import { readFile } from 'node:fs/promises';
import { badModel } from '../../../lib/contract/errors.ts';
import { bytes, type Chunk, integer, message, text } from '../../wire/chunk.ts';
import { asIs, field, fieldsOf, type RawField, replaceFields } from './fields.ts';
import { hasNode, nodeOf, outputOf, type RawNode, type RawOutput } from './graph.ts';
import { MENDED } from './kernels.ts';
import { assertAsciiWords, needsLocale, withoutLocale } from './locale.ts';
import { inField, Mender } from './mender.ts';

export interface Rewritten {
  /** The file, unless nothing had to be rewritten. */
  readonly model: Chunk | undefined;
  /** The names of an output's classes, where the file has them. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  readonly notes: readonly string[];
}

const REWRITTEN = new Set(['ZipMap', 'StringNormalizer', 'SequenceConstruct', ...MENDED]);

/** Whether an import would rewrite or refuse the file; false when it cannot be read. */
export async function needsRewrite(path: string): Promise<boolean> {
  if (!mayNeedRewrite(path)) return false;
  return rewriteOnnx(path).then(
    ({ model }) => model !== undefined,
    () => true,
  );
}

/** A quick look at the operators. */
export function mayNeedRewrite(path: string): boolean {
  try {
    return hasNode(path, (operator) => REWRITTEN.has(operator));
  } catch {
    return false;
  }
}

/** @throws bad_model when the file is damaged, or has what cannot be rewritten with the same answers */
export async function rewriteOnnx(path: string): Promise<Rewritten> {
  const model = fieldsOf(await readFile(path));
  const graph = model.find(({ number }) => number === 7);
  if (!graph) return { model: undefined, labels: {}, notes: [] };
  const mender = new Mender(model);
  const rewrite = new GraphRewrite(fieldsOf(graph.content), mender);
  const changed = rewrite.run(graph.content);
  const whole = model.map((item) => {
    if (item === graph) return bytes(7, changed);
    return item.number === 25 ? field(25, mender.function(item.content)) : asIs(item.raw);
  });
  const notes = [...rewrite.notes, ...mender.notes];
  return {
    model: notes.length > 0 ? message([...whole, ...mender.added()]) : undefined,
    labels: rewrite.labels(),
    notes,
  };
}

class GraphRewrite {
  readonly notes: string[] = [];
  readonly #nodes = new Map<RawField, RawNode>();
  readonly #outputs = new Map<RawField, RawOutput>();
  readonly #madeBy = new Map<string, RawNode>();
  readonly #mender: Mender;

  constructor(fields: readonly RawField[], mender: Mender) {
    this.#mender = mender;
    for (const item of fields) {
      if (item.number === 12) this.#outputs.set(item, outputOf(item.content));
      if (item.number !== 1) continue;
      const node = nodeOf(item.content);
      this.#nodes.set(item, node);
      for (const name of node.outputs) this.#madeBy.set(name, node);
    }
  }

  run(graph: Uint8Array): Chunk {
    // The same order as in the constructor.
    const [nodes, outputs] = [this.#nodes.values(), this.#outputs.values()];
    return replaceFields(graph, (item) => {
      if (item.number === 1) return this.#node(item, nodes.next().value as RawNode);
      if (item.number === 12) return this.#output(outputs.next().value as RawOutput);
      return undefined;
    });
  }

  #node(item: RawField, node: RawNode): readonly Chunk[] | undefined {
    if (node.operator === 'ZipMap') return [identity(node.inputs[0] ?? '', node.outputs[0] ?? '')];
    if (node.operator === 'StringNormalizer' && needsLocale(node)) {
      assertAsciiWords(node, [...this.#nodes.values()], this.#outputNames());
      this.notes.push(
        `StringNormalizer "${node.name}" changes the case of ASCII letters only, so that it needs no locale; ` +
          'the vocabulary behind it has no others',
      );
      return [field(1, withoutLocale(item.content))];
    }
    const [name = ''] = node.outputs;
    if (node.operator !== 'SequenceConstruct' || !this.#outputNames().has(name)) {
      return inField(1, this.#mender.node(item.content, node));
    }
    return node.inputs.map((input, i) => identity(input, `${name}_${i}`));
  }

  /** The declared type of an output that is no tensor any more. */
  #output({ name, isTensor, itemType }: RawOutput): readonly Chunk[] | undefined {
    if (isTensor) return undefined;
    const maker = this.#made(name, ['Identity']);
    if (maker?.operator === 'ZipMap') {
      this.notes.push(
        `output "${name}" is a tensor of ${classesOf(maker).length} probabilities instead of a map`,
      );
      return [outputChunk(name, tensorType(classesOf(maker).length))];
    }
    const isOwn = maker?.operator === 'SequenceConstruct' && maker.outputs[0] === name;
    if (isOwn && itemType) {
      const names = maker.inputs.map((_, i) => `${name}_${i}`);
      this.notes.push(`output "${name}", a list of tensors, became ${names.join(', ')}`);
      return names.map((each) => outputChunk(each, asIs(itemType)));
    }
    throw badModel(
      `output "${name}" of ${maker?.operator ?? 'the model'} is a sequence or a map, which is not served; ` +
        'export the model with tensors as outputs (skl2onnx: options={"zipmap": False})',
    );
  }

  #outputNames(): ReadonlySet<string> {
    return new Set(Array.from(this.#outputs.values(), ({ name }) => name));
  }

  /** The node that makes a value, through nodes that pass their first input on. */
  #made(name: string, passing: readonly string[]): RawNode | undefined {
    let node = this.#madeBy.get(name);
    for (let i = 0; node && passing.includes(node.operator) && i < this.#nodes.size; i++) {
      node = this.#madeBy.get(node.inputs[0] ?? '');
    }
    return node;
  }

  /** The classes of outputs that are the scores of a classifier. Those that are their own index say nothing. */
  labels(): Record<string, readonly string[]> {
    const found = Array.from(this.#outputs.values(), ({ name }) => [name, this.#classes(name)] as const);
    return Object.fromEntries(found.filter(([, classes]) => classes.some((label, i) => label !== String(i))));
  }

  #classes(output: string): readonly string[] {
    let name = output;
    for (let i = 0; i < this.#nodes.size; i++) {
      const node = this.#madeBy.get(name);
      const isScores = node?.operator.endsWith('Classifier') === true && node.outputs[1] === name;
      if (node && (isScores || node.operator === 'ZipMap')) return classesOf(node);
      if (!node || !['Identity', 'Normalizer', 'Cast'].includes(node.operator)) return [];
      name = node.inputs[0] ?? '';
    }
    return [];
  }
}

function classesOf(node: RawNode): readonly string[] {
  const texts = [...node.texts('classlabels_strings'), ...node.texts('classlabels_string')];
  if (texts.length > 0) return texts;
  return [...node.numbers('classlabels_int64s'), ...node.numbers('classlabels_ints')].map(String);
}

function identity(input: string, output: string): Chunk {
  return bytes(1, message([text(1, input), text(2, output), text(3, output), text(4, 'Identity')]));
}

function outputChunk(name: string, type: Chunk): Chunk {
  return bytes(12, message([text(1, name), bytes(2, message([bytes(1, type)]))]));
}

/** float32, any number of rows. */
function tensorType(columns: number): Chunk {
  const [rows, dim] = [message([]), message([integer(1, columns)])];
  return message([integer(1, 1), bytes(2, message([bytes(1, rows), bytes(1, dim)]))]);
}
