/** Recurrent operators. Time is their first axis and the batch the second, unless `layout` is 1. */
import type { Call, RowRule } from '../rows/call.ts';
import { numberOf, ONE, type Size, same, size } from '../rows/size.ts';
import { type Data, fixedOf, isSamePlace, type Place, type Rows } from '../rows/value.ts';
import { all, type Operators } from './operator.ts';

/** A state or length beside the rows of X. */
function alongside(call: Call, value: Data | undefined, x: Rows, axis: number): void {
  if (!value) return;
  if (value.kind === 'rows') {
    if (!isSamePlace(value, { ...x, axis })) call.end('a state has its rows on another axis than the input');
    return;
  }
  // Of a fixed batch: the same state for all rows.
  const isAlike = value.uniform === true && same(value.shape?.[axis] ?? ONE, x.shape[x.axis] as Size);
  if (!isAlike) call.end('a state is a constant that differs along the batch axis');
}

const recurrent: RowRule = (call) => {
  const x = call.data(0);
  const [first, second, features] = call.shape(x);
  if (!first || !second || !features) return call.end('its input has other than three axes');
  const isBatchFirst = call.int('layout', 0) === 1;
  const batchAxis = isBatchFirst ? 0 : 1;
  // Weights, recurrence weights, bias; later the peepholes.
  for (const index of [1, 2, 3, 7]) call.fixed(index);
  const lengths = call.optional(4);
  const states = [call.optional(5), ...(call.operator === 'LSTM' ? [call.optional(6)] : [])];
  const directions = size(call.text('direction', 'forward') === 'bidirectional' ? 2 : 1);
  const hidden = call.dimOr(call.attribute('hidden_size')?.int ?? numberOf(call.fixed(2)?.shape?.at(-1)));
  const [time, batch] = isBatchFirst ? [second, first] : [first, second];
  const sequence = isBatchFirst ? [batch, time, directions, hidden] : [time, directions, batch, hidden];
  const state = isBatchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
  if (x.kind !== 'rows') {
    if ([lengths, ...states].some((value) => value?.kind === 'rows'))
      call.end('its input is a constant, its state is not');
    return [fixedOf(sequence), fixedOf(state), fixedOf(state)];
  }
  if (x.axis !== batchAxis)
    call.end(x.axis === 2 ? 'it reads the batch axis as features' : 'it reads the batch axis as time');
  alongside(call, lengths, x, 0);
  for (const value of states) alongside(call, value, x, batchAxis);
  const at = (axis: number): Place => ({ ...x, axis });
  const last = call.rows(state, at(isBatchFirst ? 0 : 1));
  return [call.rows(sequence, at(isBatchFirst ? 0 : 2)), last, last];
};

export const RECURRENT: Operators = all('LSTM GRU RNN', { rows: recurrent });
