/**
 * Finds the content of lookup tables. It is not in the table's node: the nodes that fill a table when TensorFlow loads
 * the model are searched, which import constants, saved tensors, or the lines of a file in the folder `assets`.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { allocate, type DType, type Tensor } from '../../../../lib/contract/tensor.ts';
import { numberOf } from '../../../wire/message.ts';
import type { Message } from '../../../wire/table.ts';
import type { TfNode } from '../graph.ts';
import type { ModelFolder } from './folder.ts';
import type { RawNode } from './raw.ts';
import type { Scope } from './scope.ts';
import { tfType } from './types.ts';
import { sharedKey, textAttribute, type Variables } from './variables.ts';

const TABLES = new Set(['HashTable', 'HashTableV2', 'MutableHashTable', 'MutableHashTableV2']);
const FILLS = /^(?:LookupTableImport|InitializeTable)(?:V2)?$|^InitializeTableFromTextFile(?:V2)?$/;
const FROM_FILE = /FromTextFile/;
/** A model with more should keep its vocabulary outside. */
const MAX_ENTRIES = 2_000_000;
const MAX_FILE_BYTES = 256 * 1024 * 1024;
const LINE_NUMBER = -1;
const WHOLE_LINE = -2;

export function isHashTable(node: RawNode): boolean {
  return TABLES.has(node.op);
}

/** Where SavedModels keep files: the file's name in `assets` by the tensor that holds its path. */
export interface Assets {
  readonly folder: ModelFolder;
  readonly files: ReadonlyMap<string, string>;
  /** The node that fills tables when the model is loaded. */
  readonly initialNode: string;
}

export class HashTables {
  private readonly scope: Scope;
  private readonly variables: Variables;
  private readonly assets: Assets | undefined;
  private fills: ReadonlyMap<string, readonly RawNode[]> | undefined;

  constructor(scope: Scope, variables: Variables, assets: Assets | undefined) {
    this.scope = scope;
    this.variables = variables;
    this.assets = assets;
  }

  /**
   * The table as a node without inputs, with the attributes `keys` and `values`.
   * @throws bad_model when nothing fills it, several nodes fill it, or keys and values do not match
   */
  nodeOf(table: RawNode): TfNode {
    const { keys, values } = this.contentOf(table);
    const count = keys.data.length;
    if (keys.shape.length !== 1 || values.shape[0] !== count) {
      throw badModel(
        `the table has keys of shape [${keys.shape.join(',')}] and values of shape [${values.shape.join(',')}]; both need one entry for each key`,
      );
    }
    if (count > MAX_ENTRIES) throw tooMany(count);
    const attributes = {
      keys: { kind: 'tensor', value: keys },
      values: { kind: 'tensor', value: values },
    } as const;
    return { name: table.name, op: 'HashTableV2', inputs: [], controlInputs: [], attributes };
  }

  private contentOf(table: RawNode): { keys: Tensor; values: Tensor } {
    this.fills ??= this.collectFills();
    const fills = new Set([
      ...(this.fills.get(table.name) ?? []),
      ...(this.fills.get(sharedKey(table)) ?? []),
    ]);
    // What a checkpoint saved of a table that can change counts more than what it began with.
    const saved = [...fills].filter(({ inputs }) => this.variables.isSaved(inputs[1] ?? ''));
    const all = (saved.length > 0 ? saved : [...fills]).map((fill) => this.read(fill, table));
    const [first] = all;
    if (!first) throw badModel('the table has no content: no node of the file fills it');
    if (all.some((other) => !isSame(first.keys, other.keys) || !isSame(first.values, other.values)))
      throw badModel('several nodes fill the table, each with something else');
    return first;
  }

  private collectFills(): Map<string, RawNode[]> {
    const { scope, variables, assets } = this;
    const filling = [assets?.initialNode ?? ''].filter((name) => scope.nodes.has(name));
    scope.reach([], { control: true }, filling);
    variables.inlineRestore();
    const fills = new Map<string, RawNode[]>();
    for (const node of scope.nodes.values()) {
      if (!FILLS.test(node.op)) continue;
      const table = variables.origin(node.inputs[0] ?? '');
      if (!table || !isHashTable(table)) continue;
      for (const key of new Set([table.name, sharedKey(table)])) {
        const list = fills.get(key);
        if (list) list.push(node);
        else fills.set(key, [node]);
      }
    }
    return fills;
  }

  private read(fill: RawNode, table: RawNode): { keys: Tensor; values: Tensor } {
    const types = ['key_dtype', 'value_dtype'].map((name) => dtypeAttribute(table, name));
    const [keyType, valueType] = types as [DType, DType];
    if (FROM_FILE.test(fill.op)) return this.readFile(fill, keyType, valueType);
    const [keys, values] = fill.inputs.slice(1).map((input) => this.variables.contentOf(input));
    if (!keys || !values)
      throw badModel(`the content of the table is computed by node "${fill.name}" (${fill.op})`);
    if (keys.dtype !== keyType || values.dtype !== valueType)
      throw badModel(
        `the table is from ${keyType} to ${valueType} and is filled with ${keys.dtype} to ${values.dtype}`,
      );
    return { keys, values };
  }

  private readFile(fill: RawNode, keyType: DType, valueType: DType): { keys: Tensor; values: Tensor } {
    const asset = this.assetOf(fill.inputs[1] ?? '');
    const { assets } = this;
    if (asset === undefined || !assets)
      throw badModel(
        `node "${fill.name}" (${fill.op}) fills the table from a file that is not in the model's folder; export the model with the file as an asset`,
      );
    const file = `assets/${asset}`;
    const content = assets.folder.read(file, MAX_FILE_BYTES);
    // TensorFlow drops every carriage return.
    const text = Buffer.from(content).toString('utf8').replaceAll('\r', '');
    const lines = (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
    const blank = lines.indexOf('');
    if (blank >= 0) throw badModel(`${file}: line ${blank + 1} is empty, which TensorFlow refuses`);
    const size = intAttribute(fill, 'vocab_size', -1);
    if (size > lines.length) throw badModel(`${file} has ${lines.length} lines, the table takes ${size}`);
    const from = intAttribute(fill, 'offset', 0);
    const used = lines.slice(from, size < 0 ? undefined : from + size);
    if (used.length > MAX_ENTRIES) throw tooMany(used.length);
    const delimiter = textAttribute(fill, 'delimiter') || '\t';
    const column = (name: string, fallback: number, dtype: DType): Tensor => {
      const at = intAttribute(fill, name, fallback);
      return parsed(
        used,
        dtype,
        (line, i) => {
          if (at === LINE_NUMBER) return String(i);
          return at === WHOLE_LINE ? line : line.split(delimiter)[at];
        },
        file,
      );
    };
    return {
      keys: column('key_index', WHOLE_LINE, keyType),
      values: column('value_index', LINE_NUMBER, valueType),
    };
  }

  /** The name of the asset whose path a tensor holds, straight or through a variable. */
  private assetOf(tensor: string): string | undefined {
    const { variables, assets } = this;
    const behind = variables.origin(tensor);
    const candidates = behind
      ? [`${behind.name}:0`, ...variables.valuesOf(behind).map((value) => variables.origin(value)?.name)]
      : [];
    for (const candidate of candidates) {
      const name = candidate?.endsWith(':0') ? candidate : `${candidate}:0`;
      const found = assets?.files.get(name);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

function tooMany(count: number) {
  return badModel(
    `the table has ${count.toLocaleString('en-US')} entries, at most ${MAX_ENTRIES.toLocaleString('en-US')} are converted; look them up outside of the model and name the table's result with --input`,
  );
}

function parsed(
  lines: readonly string[],
  dtype: DType,
  part: (line: string, i: number) => string | undefined,
  file: string,
): Tensor {
  const texts = lines.map((line, i) => {
    const text = part(line, i);
    if (text === undefined) throw badModel(`${file}: line ${i + 1} has too few columns`);
    if (dtype !== 'string' && !/^[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?$/i.test(text))
      throw badModel(`${file}: line ${i + 1} has "${text.slice(0, 40)}" where a number belongs`);
    return text;
  });
  if (dtype === 'string') return { dtype, shape: [texts.length], data: texts };
  const data = allocate(dtype, texts.length);
  for (const [i, text] of texts.entries()) {
    const isWhole = /^[+-]?\d+$/.test(text);
    if (!isWhole && !dtype.startsWith('float'))
      throw badModel(`${file}: line ${i + 1} has "${text.slice(0, 40)}" where a whole number belongs`);
    data[i] = (dtype === 'int64' ? BigInt(text) : Number(text)) as never;
    if (dtype !== 'float32' && String(data[i]) !== String(dtype === 'int64' ? BigInt(text) : Number(text)))
      throw badModel(`${file}: line ${i + 1} has ${text.slice(0, 40)}, which is no ${dtype}`);
  }
  return { dtype, shape: [texts.length], data };
}

function isSame(a: Tensor, b: Tensor): boolean {
  return (
    a === b ||
    (a.data.length === b.data.length && Array.prototype.every.call(a.data, (value, i) => value === b.data[i]))
  );
}

function dtypeAttribute(node: RawNode, name: string): DType {
  const value = node.attributes.get(name) as Message | undefined;
  const type = value === undefined ? undefined : tfType(numberOf(value, 'type'));
  if (typeof type === 'string') return type;
  throw badModel(`the table has no ${name} that is supported`);
}

function intAttribute(node: RawNode, name: string, fallback: number): number {
  const value = node.attributes.get(name) as Message | undefined;
  return value === undefined ? fallback : numberOf(value, 'i');
}
