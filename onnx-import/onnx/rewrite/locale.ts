/**
 * Lower-casing without a locale. onnxruntime's StringNormalizer asks the machine for en_US, which bare Linux and Lambda
 * lack; the locale "C" is everywhere, and changes ASCII letters only. The answers are the same where every word that the
 * model compares with is ASCII: a text of other letters matches none of them in either case. (The Kelvin sign and the
 * dotted capital I, whose lower case is ASCII, are left as they are.)
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { bytes, integer, message, text } from '../../wire/chunk.ts';
import { replaceFields } from './fields.ts';
import { attributeName, type RawNode } from './graph.ts';

const WITHOUT = ['C', 'POSIX'];

export function needsLocale(node: RawNode): boolean {
  const changesCase = ['LOWER', 'UPPER'].includes(node.text('case_change_action'));
  const comparesCase = node.number('is_case_sensitive') === 0 && node.texts('stopwords').length > 0;
  return (changesCase || comparesCase) && !WITHOUT.includes(node.text('locale'));
}

/** The same node with the locale "C". */
export function withoutLocale(content: Uint8Array): Uint8Array {
  const others = replaceFields(content, (item) =>
    item.number === 5 && attributeName(item.content) === 'locale' ? [] : undefined,
  );
  const locale = bytes(5, message([text(1, 'locale'), text(4, 'C'), integer(20, 3)]));
  return Buffer.concat(message([others, locale]).parts);
}

/** Operators that hand texts on, or cut them, without comparing them. */
const PASSING = new Set([
  'Identity',
  'Reshape',
  'Flatten',
  'Squeeze',
  'Unsqueeze',
  'Concat',
  'Slice',
  'Gather',
  'Tokenizer',
  'StringNormalizer',
  'StringSplit',
]);
/** Operators that compare texts with words of their own, by the attribute with the words. */
const COMPARING: Readonly<Record<string, string>> = {
  TfIdfVectorizer: 'pool_strings',
  OneHotEncoder: 'cats_strings',
  LabelEncoder: 'keys_strings',
};

/** @throws bad_model unless all that is done with the node's texts is to compare them with words in ASCII */
export function assertAsciiWords(
  normalizer: RawNode,
  nodes: readonly RawNode[],
  outputs: ReadonlySet<string>,
): void {
  const reached = new Set(normalizer.outputs);
  assertAscii(normalizer, normalizer, normalizer.texts('stopwords'));
  // The nodes of a graph are in order.
  for (const node of nodes) {
    if (!node.inputs.some((input) => reached.has(input))) continue;
    const words = COMPARING[node.operator];
    if (words !== undefined) assertAscii(normalizer, node, node.texts(words));
    else if (PASSING.has(node.operator)) {
      assertAscii(normalizer, node, [...node.texts('separators'), ...node.texts('stopwords')]);
      assertPattern(normalizer, node);
      for (const output of node.outputs) reached.add(output);
    } else throw refused(normalizer, `its texts go to ${node.operator} "${node.name}"`);
  }
  const shown = [...reached].find((name) => outputs.has(name));
  if (shown !== undefined) throw refused(normalizer, `its texts are the output "${shown}"`);
}

function assertAscii(normalizer: RawNode, node: RawNode, words: readonly string[]): void {
  const other = words.find((word) => !isAscii(word));
  if (other !== undefined) {
    throw refused(normalizer, `${node.operator} compares them with ${JSON.stringify(other.slice(0, 40))}`);
  }
}

/** A pattern that tells letters beyond ASCII apart would cut words elsewhere. */
function assertPattern(normalizer: RawNode, node: RawNode): void {
  const pattern = node.text('tokenexp');
  if (isAscii(pattern) && !/\\[pPxu]|\(\?/.test(pattern)) return;
  throw refused(normalizer, `Tokenizer cuts them with ${JSON.stringify(pattern.slice(0, 40))}`);
}

function isAscii(word: string): boolean {
  return Buffer.byteLength(word) === word.length;
}

function refused({ name, operator }: RawNode, why: string) {
  return badModel(
    `${operator} "${name}" needs the locale en_US, which bare Linux and Lambda lack, and cannot do without: ${why}; ` +
      'export the model with lowercase=False, and change the case of the texts before they are sent',
  );
}
