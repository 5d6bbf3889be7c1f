/** Mends kernels (kernels.ts) wherever a file has nodes: in its graph, in bodies of If, Loop and Scan, and in its functions. */
import { readMessage } from '../../wire/binary.ts';
import { bytes, type Chunk, integer, message, text } from '../../wire/chunk.ts';
import { numberOf, textOf, textsOf } from '../../wire/message.ts';
import type { Table } from '../../wire/table.ts';
import { PLAIN_NODE } from '../tables.ts';
import { fieldsOf, type RawField, replaceFields } from './fields.ts';
import { nodeOf, type RawNode } from './graph.ts';
import { ML_DOMAIN, mendKernel } from './kernels.ts';

const OPSET: Table = { 1: { name: 'domain', type: 'string' }, 2: { name: 'version', type: 'int64' } };
const FUNCTION: Table = { 1: { name: 'name', type: 'string' }, 10: { name: 'domain', type: 'string' } };

/** The first opset with all that is written. A file of an older one stays, and is refused where its answers differ. */
const LEAST_OPSET = 9;
/** For files that have no standard operators. */
const NEW_OPSET = 17;
/** Where a model, and a function, has its opsets. */
const [MODEL_OPSETS, FUNCTION_OPSETS] = [8, 9];
const FUNCTION_NODES = 7;
const STANDARD = ['', 'ai.onnx'];

export class Mender {
  readonly notes: string[] = [];
  readonly #shadowed: ReadonlySet<string>;
  readonly #used: ReadonlySet<string>;
  #opset: number | undefined;
  #names = 0;

  /** @param model the fields of the file */
  constructor(model: readonly RawField[]) {
    this.#opset = opsetIn(model, MODEL_OPSETS, STANDARD);
    this.#used = usedNames(model);
    this.#shadowed = ownKernels(model);
  }

  /** The opset that has to be added to the file. */
  added(): readonly Chunk[] {
    return this.notes.length > 0 && this.#opset === undefined ? [opsetChunk(MODEL_OPSETS)] : [];
  }

  /** The nodes that take the place of one; undefined when it stays. */
  node(content: Uint8Array, node: RawNode = nodeOf(content)): readonly Chunk[] | undefined {
    if (node.domain !== ML_DOMAIN) return this.#withBodies(content);
    if (this.#shadowed.has(node.operator) || (this.#opset ?? NEW_OPSET) < LEAST_OPSET) return undefined;
    const mended = mendKernel(node, content, {
      fresh: () => this.#fresh(),
      opset: this.#opset ?? NEW_OPSET,
      isUsed: (output) => this.#used.has(output),
    });
    if (mended) this.notes.push(mended.note);
    return mended?.chunks;
  }

  #fresh(): string {
    for (;;) {
      const name = `mended ${this.#names++}`;
      if (!this.#used.has(name)) return name;
    }
  }

  /** A function, which has opsets of its own. */
  function(content: Uint8Array): Uint8Array {
    const fields = fieldsOf(content);
    const [outer, before] = [this.#opset, this.notes.length];
    this.#opset = opsetIn(fields, FUNCTION_OPSETS, STANDARD);
    const changed = replaceFields(content, (item) =>
      item.number === FUNCTION_NODES ? inField(FUNCTION_NODES, this.node(item.content)) : undefined,
    );
    const added = this.#opset === undefined ? [opsetChunk(FUNCTION_OPSETS)] : [];
    this.#opset = outer;
    return this.notes.length === before ? content : Buffer.concat(message([changed, ...added]).parts);
  }

  #withBodies(content: Uint8Array): readonly Chunk[] | undefined {
    const before = this.notes.length;
    const body = (graph: Uint8Array) =>
      replaceFields(graph, (item) => (item.number === 1 ? inField(1, this.node(item.content)) : undefined));
    const changed = replaceFields(content, (item) => {
      if (item.number !== 5) return undefined;
      const attribute = replaceFields(item.content, ({ number, content: graph }) =>
        number === 6 || number === 11 ? [bytes(number, body(graph))] : undefined,
      );
      return [bytes(5, attribute)];
    });
    return this.notes.length === before ? undefined : [changed];
  }
}

const PORT: Table = { 1: { name: 'name', type: 'string' } };

/** The names of all values that a node takes or a graph or a function gives, at any depth. */
export function usedNames(model: readonly RawField[]): ReadonlySet<string> {
  const used = new Set<string>();
  const visit = (fields: readonly RawField[], at: number) => {
    for (const { number, content } of fields) {
      if (at === 1 && number === 12) used.add(textOf(readMessage(content, PORT), 'name'));
      if (at === FUNCTION_NODES && number === 5) used.add(Buffer.from(content).toString());
      if (number === at) visitNode(content);
    }
  };
  const visitNode = (content: Uint8Array) => {
    const node = readMessage(content, PLAIN_NODE);
    for (const input of textsOf(node, 'inputs')) used.add(input);
    if (textOf(node, 'domain') === ML_DOMAIN) return;
    for (const attribute of fieldsOf(content).filter(({ number }) => number === 5)) {
      for (const { number, content: body } of fieldsOf(attribute.content)) {
        if (number === 6 || number === 11) visit(fieldsOf(body), 1);
      }
    }
  };
  for (const { number, content } of model) {
    if (number === 7) visit(fieldsOf(content), 1);
    if (number === 25) visit(fieldsOf(content), FUNCTION_NODES);
  }
  return used;
}

export function inField(number: number, chunks: readonly Chunk[] | undefined): Chunk[] | undefined {
  return chunks?.map((chunk) => bytes(number, chunk));
}

/** The version of a domain's operators; undefined: they are not imported. @param domains its names */
export function opsetIn(
  fields: readonly RawField[],
  at: number,
  domains: readonly string[],
): number | undefined {
  const versions = fields.flatMap(({ number, content }) => {
    if (number !== at) return [];
    const opset = readMessage(content, OPSET);
    return domains.includes(textOf(opset, 'domain')) ? [numberOf(opset, 'version')] : [];
  });
  return versions.length === 0 ? undefined : Math.max(...versions);
}

/** The operators of ai.onnx.ml that a file has functions for, which run in their place. @param model the fields of the file */
export function ownKernels(model: readonly RawField[]): ReadonlySet<string> {
  const functions = model
    .filter(({ number }) => number === 25)
    .map((item) => readMessage(item.content, FUNCTION));
  const own = functions.filter((item) => textOf(item, 'domain') === ML_DOMAIN);
  return new Set(own.map((item) => textOf(item, 'name')));
}

function opsetChunk(at: number): Chunk {
  return bytes(at, message([text(1, ''), integer(2, NEW_OPSET)]));
}
