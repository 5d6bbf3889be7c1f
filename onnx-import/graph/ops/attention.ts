/**
 * Fused attention, and what stands around it: each entry of the batch attends to itself. The batch is the first axis of what is
 * attended to, of masks and of the state that a turn hands to the next one.
 */
import type { Call, RowRule } from '../rows/call.ts';
import { numberOf, ONE, type Shape, type Size, same, size, times } from '../rows/size.ts';
import { type Data, fixedOf, isSamePlace, type Place, type Rows } from '../rows/value.ts';
import { oneForAll } from './matmul.ts';
import type { Operators } from './operator.ts';

const DIFFERENT = 'its inputs have their rows on different axes';

/**
 * An input that has an entry for each of the batch.
 * @param axis of the batch in it
 */
function entries(call: Call, index: number, batch: Place, axis = 0): Rows | undefined {
  const value = call.optional(index);
  if (!value) return undefined;
  if (value.kind !== 'rows') return call.end('a constant is attended to, or masks, in place of the rows');
  return isSamePlace(value, { ...batch, axis }) ? value : call.end(DIFFERENT);
}

/** An input that is broadcast to four axes, the batch first: it has entries of the batch, or is the same for all. */
function shared(call: Call, index: number, batch: Place): void {
  const value = call.optional(index);
  if (!value) return;
  const shape = call.shape(value);
  if (value.kind === 'rows') {
    if (shape.length !== 4 || !isSamePlace(value, { ...batch, axis: 0 })) call.end(DIFFERENT);
  } else if (shape.length > 2 && !same(shape[0] as Size, ONE)) {
    // Of three axes, kernels of onnxruntime take the first one for the batch or for the heads.
    call.end('it combines the rows with a constant that differs along the batch axis');
  }
}

/** The rows that are attended from; of constants nothing is followed. */
function queries(call: Call): Rows {
  const query = call.data(0);
  if (query.kind !== 'rows') return call.end('it attends from a constant');
  return query.axis === 0 ? query : call.end('the batch axis is not its first');
}

/** What it answers, and the states behind it: batch, heads, length and size. */
function answers(call: Call, batch: Rows, answer: Shape): Rows[] {
  const state = [batch.shape[0] as Size, call.dim(), call.dim(), call.dim()];
  return [answer, state, state, state].map((shape) => call.rows(shape, { ...batch, axis: 0 }));
}

const BUFFER = 'its state is a buffer that turns share';

/** Of the standard: three axes [batch, length, heads · size], or four [batch, heads, length, size]. */
const attention: RowRule = (call) => {
  const query = queries(call);
  const [, value] = [1, 2].map(
    (index) => entries(call, index, query) ?? call.end('it has no keys or values'),
  );
  shared(call, 3, query);
  for (const index of [4, 5, 6]) entries(call, index, query);
  const isSplit = query.shape.length === 4 || call.int('q_num_heads', 0) === call.int('kv_num_heads', 0);
  return answers(call, query, [...query.shape.slice(0, -1), (isSplit && value?.shape.at(-1)) || call.dim()]);
};

/** X · W is split into queries, keys and values; the state has its batch second, behind keys and values. */
const packedAttention: RowRule = (call) => {
  const x = queries(call);
  const [weights] = [call.fixed(1), call.fixed(2)];
  if (call.operator === 'QAttention') {
    for (const index of [3, 4, 6, 7]) oneForAll(call, index);
    entries(call, 5, x);
    entries(call, 8, x, 1);
  } else {
    entries(call, 3, x);
    entries(call, 4, x, 1);
    shared(call, 5, x);
  }
  if (call.int('past_present_share_buffer', 0) === 1 || (call.has(6) && call.operator === 'Attention'))
    call.end(BUFFER);
  const third = (numberOf(weights?.shape?.[1]) ?? Number.NaN) / 3;
  const hidden = call.ints('qkv_hidden_sizes')?.[2] ?? (Number.isInteger(third) ? third : undefined);
  const present = [size(2), x.shape[0] as Size, call.dim(), call.dim(), call.dim()];
  const [answer] = answers(call, x, [...x.shape.slice(0, -1), call.dimOr(hidden)]);
  return [answer as Rows, call.rows(present, { ...x, axis: 1 })];
};

/** Keys and values have three axes, or four with the heads second. */
const multiHeadAttention: RowRule = (call) => {
  const query = queries(call);
  const PACKED = 'it packs queries, keys and values';
  if (query.shape.length !== 3) call.end(PACKED);
  const [, value] = [1, 2].map((index) => entries(call, index, query) ?? call.end(PACKED));
  call.fixed(3);
  entries(call, 4, query);
  shared(call, 5, query);
  for (const index of [6, 7]) entries(call, index, query);
  if (call.has(8) || call.has(9)) call.end(BUFFER);
  const [, heads, third, width] = value?.shape ?? [];
  const hidden = heads && width ? times(heads, width) : third;
  return answers(call, query, [...query.shape.slice(0, -1), hidden ?? call.dim()]);
};

/** Behind the length of a row, onnxruntime leaves its answers and its state undefined: they are what another run left there. */
const groupQueryAttention: RowRule = (call) =>
  call.end('what it answers behind the length of a row is not defined');

/** Positions are one number for all, or a list for each entry; the tables of angles are the same for all. */
function rotated(call: Call, x: Data, tables: readonly number[], positions: number): Data {
  const shape = call.shape(x);
  if (call.int('is_packed_batching', 0) === 1) call.end('it packs the rows');
  if (x.kind === 'rows' && x.axis !== 0) call.end('the batch axis is not its first');
  const places = call.optional(positions);
  if (x.kind !== 'rows') {
    if (places?.kind === 'rows') call.end('it rotates a constant by positions of the rows');
    for (const index of tables) call.fixed(index);
    return fixedOf(shape);
  }
  if (places?.kind === 'rows') entries(call, positions, x);
  else if ((places?.shape ?? []).some((dim) => !same(dim, ONE)) || (places && !places.shape))
    call.end('its positions are a constant that differs along the batch axis');
  // Without positions a table has an entry for each of the batch.
  for (const index of tables)
    if (places) call.fixed(index);
    else entries(call, index, x);
  return call.moved(x, shape);
}

/** The sum of embeddings of tokens, of places and of segments, normalized; a length for each row beside it. */
const embedding: RowRule = (call) => {
  const tokens = queries(call);
  for (const index of [2, 3, 4, 5, 6]) call.fixed(index);
  for (const index of [1, 7]) entries(call, index, tokens);
  const places = call.optional(8);
  if (places?.kind === 'rows') entries(call, 8, tokens);
  else if (places && !same(places.shape?.[0] ?? call.dim(), ONE))
    call.end('its positions are a constant that differs along the batch axis');
  const [sum] = answers(call, tokens, [...tokens.shape, call.fixed(2)?.shape?.[1] ?? call.dim()]);
  return [sum as Rows, call.rows(tokens.shape.slice(0, 1), tokens), sum as Rows];
};

export const ATTENTION: Operators = {
  Attention: { rows: attention },
  'com.microsoft:Attention': { rows: packedAttention },
  'com.microsoft:QAttention': { rows: packedAttention },
  'com.microsoft:MultiHeadAttention': { rows: multiHeadAttention },
  'com.microsoft:GroupQueryAttention': { rows: groupQueryAttention },
  RotaryEmbedding: { rows: (call) => rotated(call, call.data(0), [1, 2], 3) },
  'com.microsoft:RotaryEmbedding': { rows: (call) => rotated(call, call.data(0), [2, 3], 1) },
  'com.microsoft:EmbedLayerNormalization': { rows: embedding },
};
