/**
 * Decides which value of a record belongs to which input of the model. Names count only when all match. A name that
 * differs from an input's only in case, blanks or similar is refused, because position would swap `Fare,Age` in
 * silence. Of names that mean nothing to the model one binds, and several where the record says so (Inputs.binding).
 */

import { quoteName, quoteNames } from '../../codecs/quote.ts';
import { badInput } from '../../contract/errors.ts';
import { present } from '../../contract/present.ts';
import { foldName, suggest } from '../../contract/suggest.ts';
import { NO_TEXT } from '../../contract/texts.ts';
import type { Inputs, TensorSpec, Value } from '../../contract/values.ts';
import { rowShape } from '../batch/batch-axes.ts';
import { formatSpec } from './shape-check.ts';

export interface NamedValue {
  readonly name: string;
  readonly value: Value;
}

/** The value of an optional text input that a record omits. The first input is never optional. */
export const ABSENT: Value = { kind: 'tensor', tensor: { dtype: 'string', shape: [], data: [NO_TEXT] } };

/** @param byName one name that differs is refused, too. @throws bad_input when the names are not the model's */
export function matchInputs(inputs: Inputs, specs: readonly TensorSpec[], byName = false): NamedValue[] {
  const given = specs.filter(({ name, optional }) => !optional || inputs.has(name));
  const values = matchGiven(inputs, given, specs, byName);
  if (given.length === specs.length) return values;
  return specs.map((spec) => values[given.indexOf(spec)] ?? { name: spec.name, value: ABSENT });
}

function matchGiven(
  inputs: Inputs,
  given: readonly TensorSpec[],
  specs: readonly TensorSpec[],
  byName: boolean,
): NamedValue[] {
  const missing = given.filter((spec) => !inputs.has(spec.name));
  if (missing.length === 0 && inputs.size === given.length) {
    return given.map((spec) => ({
      name: spec.name,
      value: present(inputs.get(spec.name), `input ${spec.name}`),
    }));
  }
  const mayBind = !byName && missing.length === given.length && inputs.size === given.length;
  if (mayBind && bindsByPosition(inputs) && !hasNearName(inputs, specs)) {
    return [...inputs].map(([name, value]) => ({ name, value }));
  }
  const extra = [...inputs.keys()].filter((name) => !specs.some((spec) => spec.name === name));
  const expected = given.map(
    (spec) =>
      `${JSON.stringify(spec.name)} ${spec.dtype} ${formatSpec(byName ? spec.shape : rowShape(spec))}`,
  );
  const parts = [
    missing.length > 0 ? `missing input ${quoteNames(missing.map((spec) => spec.name))}` : '',
    extra.length > 0 ? `unknown input ${quoteNames(extra)}` : '',
  ].filter((part) => part !== '');
  const open = specs.flatMap(({ name }) => (inputs.has(name) ? [] : [name]));
  const hint = meantNames(extra, open) || (mayBind ? HOW : '');
  throw badInput(`${parts.join(', ')}; the model expects ${expected.join(', ')}${hint}`);
}

const HOW =
  '; use these names, or, where the order of the JSON is that of the model, say "bindByPosition": true beside "instances"';

function bindsByPosition({ binding, size }: Inputs): boolean {
  return binding === 'position' || (binding === undefined && size === 1);
}

/** True if the inputs bind in their order because their names mean nothing to the model. For the log. */
export function isByPosition(inputs: Inputs, specs: readonly TensorSpec[]): boolean {
  return (
    inputs.size > 1 &&
    inputs.binding === 'position' &&
    inputs.size === specs.length &&
    !specs.some(({ name }) => inputs.has(name)) &&
    !hasNearName(inputs, specs)
  );
}

interface Folds {
  readonly names: ReadonlySet<string>;
  /** Names of inputs that are near to none of them: a client sends the same ones again. */
  readonly far: Set<string>;
}

/** By the inputs or columns of a model. */
const folds = new WeakMap<object, Folds>();
const MOST_FAR = 256;

/** True if an input's name resembles one of the model's. */
export function hasNearName(inputs: Inputs, known: readonly (TensorSpec | string)[]): boolean {
  let fold = folds.get(known);
  if (fold === undefined) {
    const names = new Set(known.map((one) => foldName(typeof one === 'string' ? one : one.name)));
    folds.set(known, (fold = { names, far: new Set() }));
  }
  const { names, far } = fold;
  for (const name of inputs.keys()) {
    if (far.has(name)) continue;
    if (names.has(foldName(name))) return true;
    if (far.size < MOST_FAR) far.add(name);
  }
  return false;
}

/** Names that a message suggests, because it stays short. */
const MOST_MEANT = 4;

/** `; did you mean "age"?`, or nothing. With what was written where there are several. */
export function meantNames(unknown: readonly string[], known: readonly string[]): string {
  const meant = unknown.slice(0, MOST_MEANT).flatMap((name) => {
    const near = suggest(name, known);
    return near === undefined ? [] : [`${quoteName(near)} for ${quoteName(name)}`];
  });
  return meant.length === 0 ? '' : `; did you mean ${meant.join(', ')}?`;
}
