/**
 * Changes texts where ONNX can do it exactly: lower case of ASCII, and replacing a fixed text or single characters.
 * Operators pad to the longest text of the run, so that a text is changed in a run of its own (a turn of Scan), where no
 * other text can reach it.
 */
import { cutAlong, TO_END } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Value } from '../../graph/value.ts';
import { reshape, sizesOf } from './dims.ts';
import { refuse } from './refuse.ts';

type Change = (g: GraphBuilder, texts: Value) => Value;

export function textConstant(g: GraphBuilder, value: string, shape: readonly number[] = []): Value {
  return g.constant({ dtype: 'string', shape, data: [value] });
}

/** The text of a constant scalar. */
export function literalText({ constant }: Value, what: string): string {
  const [text] =
    constant?.dtype === 'string' && constant.data.length === 1 ? (constant.data as string[]) : [];
  if (text === undefined) return refuse(`has a ${what} that is computed, which is not supported`);
  return /[\0\ufffd]/.test(text) ? refuse(`has a ${what} that is no UTF-8 text`) : text;
}

/** Applies a change to a list of texts that may be empty, whatever the shape of `x`. */
export function onList(g: GraphBuilder, x: Value, change: Change): Value {
  const sizes = sizesOf(g, x);
  const flat = reshape(g, x, [-1]);
  if (!isEmptySometimes(x)) return reshape(g, change(g, flat), sizes);
  // onnxruntime refuses empty lists: one more text makes it longer.
  const longer = g.one('Concat', [flat, textConstant(g, '', [1])], { axis: 0 });
  return reshape(g, cutAlong(g, change(g, longer), 0, 0, -1), sizes);
}

/** Only the batch is known to have a row. */
function isEmptySometimes({ shape }: Value): boolean {
  return shape?.every((dim) => (typeof dim === 'number' ? dim > 0 : dim === 'N')) !== true;
}

/** Applies a change to each text on its own. */
export function onEach(g: GraphBuilder, x: Value, change: Change, hint: string): Value {
  return onList(g, x, (outer, flat) => {
    const body = outer.body();
    const text = body.input(`${hint}/text`, 'string', []);
    const made = change(body, body.one('Unsqueeze', [text, body.ints([0])]));
    body.output(`${hint}:${outer.fresh()}`, body.one('Reshape', [made, body.ints([])]));
    return outer.add(
      'Scan',
      [flat],
      { body: { body: body.finish() }, num_scan_inputs: 1 },
      { hint, results: [{ dtype: 'string', shape: flat.shape }] },
    )[0] as Value;
  });
}

/** The parts of each text between the matches of a regular expression; empty ones are dropped. An empty pattern gives characters. */
export function tokenized(g: GraphBuilder, texts: Value, pattern: string, filler: string): Value {
  const attributes = { mark: 0, mincharnum: 1, pad_value: filler, separators: { strings: [pattern] } };
  const shape = [texts.shape?.[0] ?? g.fresh(), g.fresh()];
  return g.add('com.microsoft:Tokenizer', [texts], attributes, {
    results: [{ dtype: 'string', shape }],
  })[0] as Value;
}

/** Joins the columns of [texts, parts]: neighbours in each turn, so that a thousand parts take ten. */
export function joined(g: GraphBuilder, parts: Value): Value {
  const rows = parts.shape?.[0] ?? g.fresh();
  const column = g.one('Expand', [
    textConstant(g, '', [1, 1]),
    g.one('Concat', [g.one('Shape', [parts], { start: 0, end: 1 }), g.ints([1])], { axis: 0 }),
  ]);
  const body = g.body();
  const columns = (x: Value) => body.one('Shape', [x], { start: 1, end: 2 });
  const width = g.fresh();
  body.input('round', 'int64', []);
  body.input('go_on', 'bool', []);
  const state = body.input('parts', 'string', [rows, width]);
  const half = body.one('Div', [body.one('Add', [columns(state), body.ints([1])]), body.ints([2])]);
  const longer = body.one('Concat', [state, column], { axis: 1 });
  const end = body.one('Mul', [half, body.ints([2])]);
  const from = (start: number) =>
    body.add(
      'Slice',
      [longer, body.ints([start]), end, body.ints([1]), body.ints([2])],
      {},
      { results: [{ dtype: 'string', shape: [rows, body.fresh()] }] },
    )[0] as Value;
  const pairs = concatenated(body, [from(0), from(1)]);
  const more = body.one('Squeeze', [body.one('Greater', [columns(pairs), body.ints([1])]), body.ints([0])]);
  body.output(`more:${g.fresh()}`, more);
  body.output(`parts:${g.fresh()}`, pairs);
  const some = g.one('Squeeze', [
    g.one('Greater', [g.one('Shape', [parts], { start: 1, end: 2 }), g.ints([1])]),
    g.ints([0]),
  ]);
  const [one] = g.add(
    'Loop',
    [undefined, some, parts],
    { body: { body: body.finish() } },
    { results: [{ dtype: 'string', shape: [rows, g.fresh()] }] },
  ) as [Value];
  // Without any part there is no column.
  return g.one('Squeeze', [cutAlong(g, g.one('Concat', [one, column], { axis: 1 }), 1, 0, 1), g.ints([1])]);
}

/** Texts after one another, with broadcasting. */
export function concatenated(g: GraphBuilder, values: readonly Value[], hint?: string): Value {
  return values.reduce((left, right) => g.one('StringConcat', [left, right], {}, hint));
}

/** ASCII letters only, as TensorFlow does without an encoding: that is what the locale "C" means. */
export function changeCase(g: GraphBuilder, x: Value, action: 'LOWER' | 'UPPER', hint: string): Value {
  const attributes = { case_change_action: action, is_case_sensitive: 1, locale: 'C' };
  return onList(
    g,
    x,
    (on, texts) => on.add('StringNormalizer', [texts], attributes, { hint, results: [texts] })[0] as Value,
  );
}

/** A character class of single characters, ranges, and the classes of ASCII; and whether it is repeated. */
const CLASS = /^(\\[dswDSWfnrtv]|\[\^?(?:[^\][\\]|\[(?!:)|\\[dswDSWfnrtv]|\\[^\p{L}\p{N}])+\])(\+?)$/u;
/** Characters without a meaning of their own, and escaped ones. */
const LITERAL = /^(?:[^\\.+*?()|[\]{}^$]|\\[^\p{L}\p{N}])+$/u;

/** Replaces every match of a pattern whose meaning is plain. */
export function replaceAll(g: GraphBuilder, x: Value, pattern: string, by: string, hint: string): Value {
  if (by.includes('\\')) return refuse('puts parts of the match into the text, which is not supported');
  if (/[\0\ufffd]/.test(pattern + by)) return refuse('has a pattern that is no UTF-8 text');
  const [, one, repeated] = CLASS.exec(pattern) ?? [];
  if (one !== undefined) {
    if (by === '') return onEach(g, x, (on, texts) => joined(on, tokenized(on, texts, pattern, '')), hint);
    if (repeated === '')
      return onEach(g, x, (on, texts) => joined(on, replacedCharacters(on, texts, one, by)), hint);
  } else if (LITERAL.test(pattern)) {
    const from = pattern.replaceAll(/\\(.)/gsu, '$1');
    return onEach(g, x, (on, texts) => joined(on, replacedParts(on, texts, from, by)), hint);
  }
  return refuse(
    `replaces the pattern ${JSON.stringify(pattern.slice(0, 80))}, and only a fixed text or a set of characters can be replaced`,
  );
}

function replacedCharacters(g: GraphBuilder, texts: Value, one: string, by: string): Value {
  const characters = tokenized(g, texts, '', '');
  const hit = g.add(
    'RegexFullMatch',
    [characters],
    { pattern: one },
    { results: [{ dtype: 'bool', shape: characters.shape }] },
  )[0];
  return g.one('Where', [hit, textConstant(g, by), characters]);
}

/** Each part but the first with the new text before it. */
function replacedParts(g: GraphBuilder, texts: Value, from: string, by: string): Value {
  const shape = [texts.shape?.[0] ?? g.fresh(), g.fresh()];
  const [parts] = g.add(
    'StringSplit',
    [texts],
    { delimiter: from },
    {
      outputs: 2,
      results: [
        { dtype: 'string', shape },
        { dtype: 'int64', shape: texts.shape },
      ],
    },
  ) as [Value, Value];
  if (by === '') return parts;
  const rest = cutAlong(g, parts, 1, 1, TO_END);
  return g.one('Concat', [cutAlong(g, parts, 1, 0, 1), concatenated(g, [textConstant(g, by), rest])], {
    axis: 1,
  });
}
