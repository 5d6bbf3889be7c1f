/**
 * Converts what splits texts into words, and what makes dense tensors of the words of each text. Words are a flat list
 * with the number of its text beside each of them, as in TensorFlow.
 */

import { cutAlong, unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, intAttribute, listAttribute, type TfNode } from '../graph.ts';
import { transpose } from './dims.ts';
import { cast, emit, int64, oneNumber } from './kernels.ts';
import { countTo } from './matrix.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';
import { literalText, textConstant, tokenized } from './texts.ts';

/** TensorFlow's whitespace is that of ASCII. */
const WHITESPACE = ' \t\n\v\f\r';

/** @returns the index of each word as [text, position], the words, and [texts, most words] */
function wordsOf(node: TfNode, words: Value, isWord: Value, counts: Value, g: GraphBuilder): Value[] {
  const places = transpose(g, g.one('NonZero', [isWord]), [1, 0], node.name);
  const values = g.add(
    'GatherND',
    [words, places],
    {},
    { results: [{ dtype: 'string', shape: [g.fresh()] }] },
  )[0] as Value;
  const most = emit(g, 'ReduceMax', [counts], { axes: [0], keepdims: 1 });
  return [places, values, g.one('Concat', [g.one('Shape', [counts]), most], { axis: 0 })];
}

const splitWords: Rule = (node, [x, separator], g) => {
  if (intAttribute(node, 'maxsplit', -1) >= 0) refuse('is supported without maxsplit only');
  const by = literalText(separator, 'separator');
  if (rank(x) !== 1) refuse('splits lists of texts only');
  if (by === '') return splitAtAny(node, x, WHITESPACE, g);
  const rows = g.fresh();
  const [pieces, found] = g.add(
    'StringSplit',
    [x],
    { delimiter: by },
    {
      outputs: 2,
      results: [
        { dtype: 'string', shape: [...(x.shape as []), rows] },
        { dtype: 'int64', shape: x.shape },
      ],
    },
  ) as [Value, Value];
  // An empty text is one empty word; onnxruntime gives none.
  const empty = g.one('Expand', [
    textConstant(g, '', [1, 1]),
    g.one('Concat', [g.one('Shape', [x]), g.ints([1])], { axis: 0 }),
  ]);
  const words = g.one('Concat', [pieces, empty], { axis: 1 });
  const counts = emit(g, 'Max', [found, g.scalar('int64', 1)]);
  const columns = countTo(g, g.one('Shape', [words], { start: 1, end: 2 }));
  return wordsOf(node, words, g.one('Less', [columns, unsqueeze(g, counts, [1])]), counts, g);
};

/** Splits at each of these characters of ASCII and drops empty words. */
function splitAtAny(node: TfNode, x: Value, characters: string, g: GraphBuilder): Value[] {
  // No word holds one of the characters, so that the first fills up the rows.
  const filler = characters.slice(0, 1);
  const listed = Array.from(characters, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`);
  const words = tokenized(g, x, `[${listed.join('')}]`, filler);
  const none = g.one('Equal', [words, textConstant(g, filler)]);
  const isWord = g.one('Not', [none]);
  const counts = emit(g, 'ReduceSum', [cast(g, isWord, 'int64'), g.ints([1])], { keepdims: 0 });
  return wordsOf(node, words, isWord, counts, g);
}

/** The first form of the operation: each character of the delimiter separates, and empty words are dropped. */
const splitByCharacters: Rule = (node, [x, delimiter], g) => {
  if (!flagAttribute(node, 'skip_empty', true)) refuse('is supported with skip_empty only');
  const by = literalText(delimiter, 'delimiter');
  if (!/^[\0-\x7f]+$/.test(by)) refuse('is supported for delimiters of ASCII characters only');
  return splitAtAny(node, x, by, g);
};

interface Rows {
  /** The row of each value, ascending. */
  readonly numbers: Value;
  /** How many rows, a list with one element. */
  readonly count: Value;
}

function rowsOfSplits(g: GraphBuilder, splits: Value, values: Value): Rows {
  const ends = cutAlong(g, int64(g, splits), 0, 1, 2 ** 31 - 1);
  const places = unsqueeze(g, countTo(g, g.one('Shape', [values], { start: 0, end: 1 })), [1]);
  const before = cast(g, g.one('LessOrEqual', [unsqueeze(g, ends, [0]), places]), 'int64');
  return {
    numbers: emit(g, 'ReduceSum', [before, g.ints([1])], { keepdims: 0 }),
    count: g.one('Shape', [ends]),
  };
}

/** How many values each row has. */
function countsOf(g: GraphBuilder, { numbers, count }: Rows): Value {
  const ones = g.one('Expand', [g.scalar('int64', 1), g.one('Shape', [numbers])]);
  const none = g.one('Expand', [g.scalar('int64', 0), count]);
  return g.one('ScatterND', [none, unsqueeze(g, numbers, [1]), ones], { reduction: 'add' });
}

const toDense: Rule = (node, [shape, values, fallback, ...partitions], g) => {
  const types = listAttribute(node, 'row_partition_types').strings;
  if (rank(values) !== 1) refuse('is supported for one value per word only');
  const [first, second] = partitions as readonly (Value | undefined)[];
  const rows =
    types.join() === 'ROW_SPLITS' && first
      ? rowsOfSplits(g, first, values)
      : types.join() === 'FIRST_DIM_SIZE,VALUE_ROWIDS' && first && second
        ? { numbers: int64(g, second), count: oneNumber(g, first, 'int64') }
        : refuse(`is not supported for rows given as ${types.join(', ')}`);
  const sizes = shape.elements ?? [];
  const [height, width] = sizes;
  const isOpen = sizes.length === 0 && shape.shape?.length === 0;
  if (!isOpen && (sizes.length !== 2 || height !== -1 || typeof width !== 'number'))
    refuse('is supported for the shape [-1, length] only');
  const counts = countsOf(g, rows);
  const length =
    typeof width === 'number' && width >= 0
      ? g.ints([width])
      : emit(g, 'ReduceMax', [counts], { axes: [0], keepdims: 1 });
  const starts = emit(g, 'CumSum', [counts, g.scalar('int64', 0)], { exclusive: 1 });
  const places = countTo(g, g.one('Shape', [values], { start: 0, end: 1 }));
  const columns = g.one('Sub', [places, g.one('Gather', [starts, rows.numbers], { axis: 0 })]);
  const inside = g.one('Less', [columns, length]);
  return scattered(node, rows, columns, inside, length, values, { start: fallback, reduction: 'none' }, g);
};

/** Writes the values that are `inside` to [row, column] of a table. */
function scattered(
  node: TfNode,
  rows: Rows,
  columns: Value,
  inside: Value,
  width: Value,
  values: Value,
  { start, reduction }: { readonly start: Value; readonly reduction: 'none' | 'add' },
  g: GraphBuilder,
): Value {
  const table = g.one('Expand', [
    g.one('Reshape', [start, g.ints([1, 1])]),
    g.one('Concat', [rows.count, width], { axis: 0 }),
  ]);
  const places = g.one('Concat', [unsqueeze(g, rows.numbers, [1]), unsqueeze(g, columns, [1])], { axis: 1 });
  const keep = (value: Value, shape: readonly (number | string)[]) =>
    g.add('Compress', [value, inside], { axis: 0 }, { results: [{ dtype: value.dtype, shape }] })[0] as Value;
  const kept = g.fresh();
  return g.one('ScatterND', [table, keep(places, [kept, 2]), keep(values, [kept])], { reduction }, node.name);
}

const raggedBincount: Rule = (node, [splits, values, size, weights], g) => {
  if (!weights.shape?.includes(0)) refuse('is supported without weights only');
  const numbers = int64(g, values);
  const rows = rowsOfSplits(g, splits, numbers);
  const width = oneNumber(g, size, 'int64');
  const inside = g.one('And', [
    g.one('Less', [numbers, width]),
    g.one('GreaterOrEqual', [numbers, g.scalar('int64', 0)]),
  ]);
  const ones = g.one('Expand', [g.scalar('int64', 1), g.one('Shape', [numbers])]);
  const counts = scattered(
    node,
    rows,
    numbers,
    inside,
    width,
    ones,
    { start: g.scalar('int64', 0), reduction: 'add' },
    g,
  );
  const found = flagAttribute(node, 'binary_output', false)
    ? emit(g, 'Min', [counts, g.scalar('int64', 1)])
    : counts;
  return cast(g, found, weights.dtype);
};

export const RAGGED: OpTable = {
  ...takes(2, { StringSplit: splitByCharacters, StringSplitV2: splitWords }),
  ...takes(4, { RaggedBincount: raggedBincount, RaggedTensorToTensor: toDense }),
};
