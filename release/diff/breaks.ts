/**
 * The changes between two versions that clients would not notice before their results are wrong: each has a name, by which its
 * owner accepts it. A change that widens what is taken, such as a fixed size that becomes free, is none.
 */
import { elementAt } from '../../lib/contract/present.ts';
import type { Face, Port } from './face.ts';

export interface Break {
  /** `input:features`, `labels:scores`, `image`. */
  readonly name: string;
  /** One line for a person. */
  readonly text: string;
}

/** @param before the version that clients know */
export function breaksOf(before: Face, after: Face): Break[] {
  return [
    ...inputBreaks(before.inputs, after.inputs),
    ...outputBreaks(before.outputs, after.outputs),
    ...nameBreaks('columns', before.names.columns, after.names.columns, after.inputs),
    ...nameBreaks('labels', before.names.labels, after.names.labels, after.outputs),
    ...settingBreaks('image', 'pictures', before.image, after.image),
    ...settingBreaks('text', 'texts', before.text, after.text),
  ];
}

function inputBreaks(before: readonly Port[], after: readonly Port[]): Break[] {
  const breaks = before.flatMap((was): Break[] => {
    const name = `input:${was.name}`;
    const is = after.find((port) => port.name === was.name);
    if (!is) return [{ name, text: `input ${quoted(was)} is gone` }];
    const isNarrower =
      was.shape.length !== is.shape.length || was.shape.some((dim, axis) => !takes(is.shape[axis], dim));
    if (was.dtype === is.dtype && was.isText === is.isText && !isNarrower) return [];
    return [{ name, text: `input ${quoted(was)} is ${portText(is)}, and was ${portText(was)}` }];
  });
  const added = after.filter(({ name, optional }) => !optional && !before.some((port) => port.name === name));
  return [
    ...breaks,
    ...added.map((port) => ({
      name: `input:${port.name}`,
      text: `input ${quoted(port)} is new, and records have none`,
    })),
    ...orderBreaks('inputs', before, after),
  ];
}

/** A free size takes each. */
function takes(is: number | string | undefined, was: number | string): boolean {
  return typeof is === 'string' || is === was;
}

function outputBreaks(before: readonly Port[], after: readonly Port[]): Break[] {
  const breaks = before.flatMap((was): Break[] => {
    const name = `output:${was.name}`;
    const is = after.find((port) => port.name === was.name);
    if (!is) return [{ name, text: `output ${quoted(was)} is gone` }];
    const isOther = (dim: number | string, axis: number) => {
      const now = is.shape[axis];
      return typeof dim === 'number' && typeof now === 'number' && dim !== now;
    };
    if (was.dtype === is.dtype && was.shape.length === is.shape.length && !was.shape.some(isOther)) return [];
    return [{ name, text: `output ${quoted(was)} is ${portText(is)}, and was ${portText(was)}` }];
  });
  return [...breaks, ...orderBreaks('outputs', before, after)];
}

/** Results and records without names have them in this order. */
function orderBreaks(what: 'inputs' | 'outputs', before: readonly Port[], after: readonly Port[]): Break[] {
  const [was, is] = [before, after].map((ports) => ports.map(({ name }) => name));
  const common = (names: readonly string[] = [], others: readonly string[] = []) =>
    names.filter((name) => others.includes(name));
  const [first, second] = [common(was, is), common(is, was)];
  if (first.every((name, i) => name === second[i])) return [];
  return [
    { name: what, text: `${what} have another order: ${second.join(', ')}, and had ${first.join(', ')}` },
  ];
}

type Lists = Readonly<Record<string, readonly string[]>>;

function nameBreaks(
  what: 'columns' | 'labels',
  before: Lists,
  after: Lists,
  ports: readonly Port[],
): Break[] {
  return Object.entries(before).flatMap(([port, was]): Break[] => {
    // Said already.
    if (!ports.some(({ name }) => name === port)) return [];
    const is = after[port];
    const name = `${what}:${port}`;
    if (!is) return [{ name, text: `${JSON.stringify(port)} has no ${what} any more` }];
    const place = was.findIndex((label, i) => label !== is[i]);
    if (place < 0) return [];
    const label = elementAt(was, place, what);
    const now = is.indexOf(label);
    const moved = was.filter((one, i) => one !== is[i]).length;
    const where = now < 0 ? 'is gone' : `is number ${now}`;
    const text = `${what} of ${JSON.stringify(port)}: ${JSON.stringify(label)} was number ${place} and ${where}; ${moved} of ${was.length} changed`;
    return [{ name, text }];
  });
}

function settingBreaks(name: string, what: string, before: object, after: object): Break[] {
  const [was, is] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  const keys = [...new Set([...was.keys(), ...is.keys()])].sort();
  const text = (value: unknown) => (value === undefined ? 'unset' : JSON.stringify(value));
  const changed = keys.filter((key) => text(was.get(key)) !== text(is.get(key)));
  if (changed.length === 0) return [];
  const list = changed.map((key) => `${key} ${text(was.get(key))} -> ${text(is.get(key))}`);
  return [{ name, text: `${what} are prepared in another way: ${list.join(', ')}` }];
}

export function portText({ dtype, shape, isText }: Port): string {
  return isText ? 'text' : `${dtype} [${shape.map((dim) => (dim === '' ? '?' : dim)).join(', ')}]`;
}

function quoted({ name }: Port): string {
  return JSON.stringify(name);
}
