/**
 * A model with a tokenizer as a runner of texts: one text input, and one output with a row for each text. Texts are sorted
 * by length, so that a run pads few tokens, and answered in the caller's order. Where padding changes a model's answers,
 * only texts of equal length share a run.
 */
import { quoteName } from '../codecs/quote.ts';
import { badInput, badModel, ServingError } from '../contract/errors.ts';
import { elementAt, present } from '../contract/present.ts';
import { allocate, type Tensor } from '../contract/tensor.ts';
import { isNoText, TEXT_FILE, tokenIdsOf } from '../contract/texts.ts';
import type { NamedTensor, TensorRunner, TensorSpec } from '../contract/values.ts';
import { activated, answersOf } from './answers.ts';
import type { TextModel } from './files.ts';
import type { TextSettings } from './settings.ts';
import { assertOwnIds, type Encoded } from './template.ts';
import type { Tokenizer } from './tokenizer.ts';

export interface TextOptions {
  /** Most texts of one run of the model. */
  readonly maxRows: number;
  /** True if padding was shown to change no answer. */
  readonly mayPad: boolean;
  /** True: token ids need not be what the tokenizer makes of a text. Default false. */
  readonly anyIds?: boolean;
}

/** The inputs that a model may have, by what they are called. */
export const MODEL_INPUTS: readonly string[] = [
  'input_ids',
  'attention_mask',
  'token_type_ids',
  'position_ids',
];
export const TEXT_OUTPUTS = { softmax: 'probabilities', sigmoid: 'probabilities', none: 'scores' } as const;

/** The output that callers see. */
export function outputName({ kind, activation }: TextSettings): string {
  return kind === 'embedding' ? 'embedding' : TEXT_OUTPUTS[activation];
}

/** How many numbers a text becomes, from the model's own output. */
export function widthOf(
  { shape }: TensorSpec,
  { pooling, layers = [], dimensions }: TextSettings,
): number | string {
  const last = shape.at(-1) ?? '';
  const pooled = typeof last === 'number' ? last * Math.max(1, pooling.length) : last;
  const width = layers.reduce((before, layer) => (layer.kind === 'dense' ? layer.width : before), pooled);
  return typeof width === 'number' ? Math.min(width, dimensions ?? Number.POSITIVE_INFINITY) : width;
}

/** The input by which a record names its prompt. */
export const PROMPT_INPUT = 'prompt_name';

/** The model as one of texts. Closing it closes the model. */
export function textRunner(model: TensorRunner, text: TextModel, options: TextOptions): TensorRunner {
  const { settings } = text;
  const at = model.outputs.findIndex(({ name }) => name === settings.output);
  const output = model.outputs[at];
  if (!output) throw badModel(`${TEXT_FILE}: the model has no output "${settings.output}"`);
  const texts = (name: string): TensorSpec => ({ name, dtype: 'string', shape: ['N'], isText: true });
  const width = widthOf(output, settings);
  // Its score is answered, too: a sigmoid rounds large ones to 1.
  const isScore = settings.kind === 'classes' && settings.activation === 'sigmoid' && width === 1;
  const read: TextSettings = isScore ? { ...settings, activation: 'none' } : settings;
  const besides = [...(settings.pair ? ['text_pair'] : []), ...(settings.prompts ? [PROMPT_INPUT] : [])];
  return {
    inputs: [texts('text'), ...besides.map((name) => ({ ...texts(name), optional: true }) as const)],
    outputs: [{ name: outputName(settings), dtype: 'float32', shape: ['N', width] }],
    fixedRows: undefined,
    // Those that may not share a run of the model are kept apart here.
    separable: true,
    run: async (feeds, isOver) => {
      const stop = () => {
        if (isOver?.()) throw new ServingError('timeout', 'there was no time left for this text');
      };
      const encoded = encodeAll(feeds, text, options, stop);
      const rows = new Array<Float32Array>(encoded.length);
      const { mayPad } = options;
      for (const group of groupsOf(encoded, rowsPerRun(model, options), settings, mayPad)) {
        stop();
        const own = group.map((index) => elementAt(encoded, index, 'encoded'));
        const answers = await runGroup(
          model,
          { ...text, settings: read },
          { texts: own, output: at, mayPad },
        );
        for (const [i, index] of group.entries()) rows[index] = elementAt(answers, i, 'answers');
      }
      const answer = answerTensor(outputName(settings), rows, encoded);
      return [isScore ? withLogits(answer) : answer];
    },
    close: () => model.close(),
  };
}

function rowsPerRun({ separable, fixedRows }: TensorRunner, { maxRows }: TextOptions): number {
  return separable ? (fixedRows ?? maxRows) : 1;
}

/** @param stop throws where no time is left: a long text takes part of a second */
function encodeAll(
  feeds: readonly Tensor[],
  { tokenizer, settings }: TextModel,
  { anyIds = false }: TextOptions,
  stop: () => void,
): Encoded[] {
  const [texts, next, last] = feeds.map(({ data }) => data as readonly string[]);
  const pairs = settings.pair ? next : undefined;
  const names = (settings.prompts && (settings.pair ? last : next)) ?? [];
  const ready = (text: string) => (settings.lowercase ? text.toLowerCase() : text);
  return (texts ?? []).map((text, i) => {
    stop();
    const ids = tokenIdsOf(text);
    if (ids) {
      if (!anyIds) assertOwnIds(tokenizer.templates, ids);
      if (names[i] !== undefined && !isNoText(names[i]))
        throw badInput(`${PROMPT_INPUT} goes with a text, and not with token ids`);
      return tokensAsTheyAre(ids, tokenizer, settings);
    }
    const pair = pairs?.[i];
    const second = pair === undefined || isNoText(pair) ? undefined : ready(pair);
    const whole = `${promptOf(names[i], settings)}${text}`;
    const encoded = tokenizer.encode(ready(whole), second, settings.maxTokens);
    if (encoded.ids.length === 0) throw badInput('a text without any token; the tokenizer adds none to it');
    return encoded;
  });
}

/** @throws bad_input for a name that is none of the model's */
function promptOf(name: string | undefined, { prompts = {}, defaultPrompt }: TextSettings): string {
  const wanted = name === undefined || isNoText(name) ? defaultPrompt : name;
  if (wanted === undefined) return '';
  if (Object.hasOwn(prompts, wanted)) return prompts[wanted] ?? '';
  const names = Object.keys(prompts).join(', ');
  throw badInput(`${PROMPT_INPUT} ${quoteName(wanted)}: the model's prompts are ${names}`);
}

/** @throws bad_input for ids that the tokenizer does not know, or too many */
function tokensAsTheyAre(ids: readonly number[], { size }: Tokenizer, { maxTokens }: TextSettings): Encoded {
  const wrong = ids.find((id) => id < 0 || id >= size);
  if (wrong !== undefined) throw badInput(`token id ${wrong}: the tokenizer has ${size} tokens`);
  if (ids.length > maxTokens)
    throw badInput(`${ids.length} token ids are over the ${maxTokens} that the model takes`);
  return { ids, types: ids.map(() => 0) };
}

/** A run does not mix texts with ones that are several times as long: their padding would cost more than a run. */
const MOST_STRETCH = 2;
const SHORT = 16;

/** The texts of each run, by their places. */
export function groupsOf(
  encoded: readonly Encoded[],
  maxRows: number,
  { padding }: Pick<TextSettings, 'padding'>,
  mayPad: boolean,
): number[][] {
  // Where padding counts, each text has as much of it as it has alone.
  const lengthOf = (index: number) => {
    const { length } = elementAt(encoded, index, 'encoded').ids;
    return mayPad ? length : paddedLength(length, padding);
  };
  const order = Array.from(encoded.keys()).sort((a, b) => lengthOf(a) - lengthOf(b));
  const groups: number[][] = [];
  let shortest = 0;
  for (const index of order) {
    const group = groups.at(-1);
    const length = lengthOf(index);
    const most = mayPad && padding ? Math.max(SHORT, shortest * MOST_STRETCH) : shortest;
    if (group && group.length < maxRows && length <= most) {
      group.push(index);
      continue;
    }
    groups.push([index]);
    shortest = length;
  }
  return groups;
}

/** As the tokenizer pads a text alone. */
function paddedLength(length: number, padding: TextSettings['padding']): number {
  const { fixed = null, multipleOf = 1 } = padding ?? {};
  return Math.ceil(Math.max(length, fixed ?? 0) / multipleOf) * multipleOf;
}

interface Group {
  readonly texts: readonly Encoded[];
  /** Index among the model's outputs. */
  readonly output: number;
  readonly mayPad: boolean;
}

async function runGroup(
  model: TensorRunner,
  { settings, chain }: TextModel,
  { texts, output, mayPad }: Group,
): Promise<readonly Float32Array[]> {
  const fixedLength = model.inputs.map(({ shape }) => shape[1]).find((size) => typeof size === 'number');
  const longest = Math.max(...texts.map(({ ids }) => ids.length));
  const length = fixedLength ?? (mayPad ? longest : paddedLength(longest, settings.padding));
  const rows = Math.max(texts.length, model.fixedRows ?? 1);
  const isLeft = settings.padding?.side === 'left';
  const startOf = ({ ids }: Encoded) => (isLeft ? length - ids.length : 0);
  const mask = texts.map(
    (text): Uint8Array => new Uint8Array(length).fill(1, startOf(text), startOf(text) + text.ids.length),
  );
  const valuesOf: Readonly<Record<string, (text: Encoded, at: number) => number>> = {
    input_ids: ({ ids }, at) => ids[at] ?? settings.padding?.id ?? 0,
    attention_mask: ({ ids }, at) => (ids[at] === undefined ? 0 : 1),
    token_type_ids: ({ types }, at) => types[at] ?? settings.padding?.type ?? 0,
    // Padding has the first place on the left, and goes on counting on the right.
    position_ids: (_, at) => Math.max(0, at),
  };
  const feeds = model.inputs.map(({ name, dtype }): Tensor => {
    const valueOf = valuesOf[name];
    if (dtype === 'string' || !valueOf)
      throw badModel(`the model's input "${name}" is not one of ${MODEL_INPUTS.join(', ')}`);
    const data = allocate(dtype, rows * length);
    for (let row = 0; row < rows; row++) {
      // Rows that only fill up a fixed batch repeat the last text: a row without tokens would divide by zero.
      const text = (texts[row] ?? texts.at(-1)) as Encoded;
      for (let at = 0; at < length; at++) {
        const value = valueOf(text, at - startOf(text));
        data[row * length + at] = data instanceof BigInt64Array ? BigInt(value) : value;
      }
    }
    return { dtype, shape: [rows, length], data };
  });
  const result = elementAt(await model.run(feeds), output, 'the outputs');
  const filled = mask.concat(
    new Array<Uint8Array>(rows - texts.length).fill(present(mask.at(-1), 'row of the mask')),
  );
  return answersOf(result, filled, settings, chain);
}

function answerTensor(
  name: string,
  rows: readonly Float32Array[],
  encoded: readonly Encoded[],
): NamedTensor & { readonly data: Float32Array } {
  const width = rows[0]?.length ?? 0;
  const data = new Float32Array(rows.length * width);
  for (const [i, row] of rows.entries()) data.set(row, i * width);
  return {
    name,
    dtype: 'float32',
    shape: [rows.length, width],
    data,
    tokens: encoded.map(({ ids }) => ids.length),
    ...(encoded.some(({ wholeTokens }) => wholeTokens !== undefined) && {
      wholeTokens: encoded.map(({ ids, wholeTokens = ids.length }) => wholeTokens),
    }),
  };
}

function withLogits(scores: NamedTensor & { readonly data: Float32Array }): NamedTensor {
  const { data } = scores;
  return { ...scores, dtype: 'float32', data: activated(data, 'sigmoid'), logits: [...data] };
}
