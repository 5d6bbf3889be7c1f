/**
 * The names of classes that an ONNX file itself holds beside its answers: in its metadata, as exporters of detectors and
 * classifiers write them, and in tables of texts from which the best class is looked up.
 */
import type { FoundLabels } from '../../lib/registry/names.ts';
import { messageOf, messagesOf, plainNumbersOf, textOf, textsOf, utf8TextsOf } from '../wire/message.ts';
import type { Message } from '../wire/table.ts';
import { constantsOf } from './facts.ts';

/** What exporters call the list: `names` is that of YOLO. The first that is there counts. */
export const LABEL_KEYS = ['id2label', 'names', 'class_names', 'classes', 'labels'];
/** Operators that keep which class is which. */
const PASSING = new Set(['Identity', 'Softmax', 'LogSoftmax', 'Sigmoid', 'Normalizer', 'Cast']);
const MAX_METADATA = 1_000;

export interface OnnxLabels {
  /** Of outputs whose best class is looked up in a table. */
  readonly byOutput: Readonly<Record<string, readonly string[]>>;
  /** Of an output that the file does not name. */
  readonly labels: FoundLabels | undefined;
  readonly metadata: ReadonlyMap<string, string>;
}

export function onnxLabels(model: Message): OnnxLabels {
  const entries = messagesOf(model, 'metadata').slice(0, MAX_METADATA);
  const metadata = new Map(entries.map((entry) => [textOf(entry, 'key'), textOf(entry, 'value')]));
  const graph = messageOf(model, 'graph');
  return { byOutput: graph ? lookedUp(graph) : {}, labels: labelsOf(metadata), metadata };
}

function labelsOf(metadata: ReadonlyMap<string, string>): FoundLabels | undefined {
  for (const key of LABEL_KEYS) {
    const labels = listOf(metadata.get(key) ?? '');
    // The places of the classes are no names.
    const isNamed = labels?.some((label, place) => label !== `${place}`);
    if (labels && isNamed) return { labels, source: `"${key}" in the metadata of the model file` };
  }
  return undefined;
}

/** `{0: 'a', 1: 'b'}` or `['a', 'b']`, of Python or JSON, with every index once; otherwise one label a line. */
export function listOf(value: string): string[] | undefined {
  const trimmed = value.trim();
  const isDict = /^\{.*\}$/s.test(trimmed);
  if (!isDict && !/^\[.*\]$/s.test(trimmed)) {
    const lines = trimmed.split(/\r?\n/).map((line) => line.trim());
    return lines.length > 1 && !lines.includes('') ? lines : undefined;
  }
  const word = String.raw`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`;
  const item = new RegExp(
    String.raw`\s*${isDict ? String.raw`["']?(\d{1,7})["']?\s*:\s*` : '()'}(${word})\s*(,|$)`,
    'y',
  );
  const inner = trimmed.slice(1, -1).trim();
  const labels: string[] = [];
  while (item.lastIndex < inner.length) {
    const [, index, quoted] = item.exec(inner) ?? [];
    if (quoted === undefined || (isDict && Number(index) !== labels.length)) return undefined;
    labels.push(quoted.slice(1, -1).replaceAll(/\\(.)/g, '$1'));
  }
  return labels.length > 0 ? labels : undefined;
}

/** ArgMax of an output, then a table of texts: `ArrayFeatureExtractor`, `Gather` or `LabelEncoder`. */
function lookedUp(graph: Message): Record<string, readonly string[]> {
  const nodes = messagesOf(graph, 'nodes');
  const makers = new Map(
    nodes.flatMap((node) => textsOf(node, 'outputs').map((name) => [name, node] as const)),
  );
  const outputs = new Set(messagesOf(graph, 'outputs').map((output) => textOf(output, 'name')));
  const tables = new Map(constantsOf(graph).map(([name, item]) => [name, utf8TextsOf(item, 'texts')]));
  const found: Record<string, readonly string[]> = {};
  for (const node of nodes) {
    const [first = '', second = ''] = textsOf(node, 'inputs');
    const isEncoder = textOf(node, 'operator') === 'LabelEncoder';
    const isLookup = ['ArrayFeatureExtractor', 'Gather'].includes(textOf(node, 'operator'));
    const labels = isEncoder ? encoded(node) : isLookup ? (tables.get(first) ?? []) : [];
    const best =
      labels.length > 0
        ? through(isEncoder ? first : second, makers, new Set(['Identity', 'Cast', 'Reshape']))
        : undefined;
    if (best === undefined || textOf(makers.get(best) ?? {}, 'operator') !== 'ArgMax') continue;
    const scores = textsOf(makers.get(best) as Message, 'inputs')[0] ?? '';
    for (const output of outputs) if (isSame(output, scores, makers)) found[output] = labels;
  }
  return found;
}

/** Whether an output has the classes of a value: it is it, or only what keeps their places lies between. */
function isSame(output: string, scores: string, makers: ReadonlyMap<string, Message>): boolean {
  return through(output, makers, PASSING) === through(scores, makers, PASSING);
}

/** The value that comes in front of operators that only pass it on. */
function through(name: string, makers: ReadonlyMap<string, Message>, passing: ReadonlySet<string>): string {
  let at = name;
  for (let steps = 0; steps < makers.size; steps++) {
    const node = makers.get(at);
    if (!node || !passing.has(textOf(node, 'operator'))) break;
    at = textsOf(node, 'inputs')[0] ?? '';
  }
  return at;
}

/** Of whole numbers 0, 1, … in order. */
function encoded(node: Message): string[] {
  const attributes = new Map(messagesOf(node, 'attributes').map((item) => [textOf(item, 'name'), item]));
  const [keys, values] = [attributes.get('keys_int64s'), attributes.get('values_strings')];
  const places = keys ? plainNumbersOf(keys, 'ints') : [];
  const texts = values ? utf8TextsOf(values, 'texts') : [];
  return places.length === texts.length && places.every((place, i) => place === i) ? texts : [];
}
