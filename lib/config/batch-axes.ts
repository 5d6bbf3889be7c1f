/** Reads which axis of inputs or outputs counts the rows of a run: `{state: {batchAxis: 1}, rate: {batchAxis: none}}`. */
import { badConfig } from '../contract/errors.ts';
import { plainWord, suggest } from '../contract/suggest.ts';
import type { BatchAxis } from '../contract/values.ts';
import { type Fields, isFields, numberOf, shown, shownKey, type Value } from './value.ts';

/** The batch axes of inputs or outputs, by name. */
export type Ports = Readonly<Record<string, { readonly batchAxis: BatchAxis }>>;

const KEY = 'batchAxis';
const MAX_PORTS = 100;
const MAX_NAME_LENGTH = 512;
const MAX_RANK = 16;

/** Undefined for a value that has no names with keys. @throws bad_config for what is wrong below a name */
export function portsOf(value: Value): Ports | undefined {
  if (!isFields(value) || value.fields.length > MAX_PORTS) return undefined;
  const ports = new Map<string, { batchAxis: BatchAxis }>();
  for (const { key: name, value: port } of value.fields) {
    if (name === '' || name.length > MAX_NAME_LENGTH || !isFields(port)) return undefined;
    if (ports.has(name)) throw badConfig(`${shownKey(name)} is there twice; keep one`);
    ports.set(name, { batchAxis: batchAxisOf(shownKey(name), port) });
  }
  return Object.fromEntries(ports);
}

function batchAxisOf(name: string, { fields: [field, ...others] }: Fields): BatchAxis {
  for (const { key } of field ? [field, ...others] : []) {
    if (plainWord(key) === plainWord(KEY)) continue;
    const meant = suggest(key, [KEY]);
    const hint = meant ? `did you mean ${meant}?` : `known is ${KEY}`;
    throw badConfig(`${name}: ${shownKey(key)}: unknown key; ${hint}`);
  }
  if (others.length > 0) throw badConfig(`${name}: ${KEY} is there twice; keep one`);
  const value = field?.value ?? null;
  if (value === 'none') return value;
  const axis = numberOf(value);
  if (axis !== undefined && Number.isInteger(axis) && axis >= 0 && axis < MAX_RANK) return axis;
  const expected = `a whole number from 0 to ${MAX_RANK - 1}, or none`;
  throw badConfig(`${name}: ${KEY}: expected ${expected}, got ${shown(value)}`);
}
