/**
 * In: --input, --output, --constant, --signature, --tag as they were written. Out: options of a conversion.
 * Trap: a TensorFlow name ends in `:0`, which is no shape; and a size may be a word.
 */
import type { Tolerance } from '../../convert/check/compare.ts';
import type { ConvertOptions } from '../../convert/conversion.ts';
import { type ShapeText, shapeOf } from '../../lib/config/import-values.ts';
import { wrongUse } from '../command.ts';

export interface ConvertValues {
  readonly input?: readonly string[] | undefined;
  readonly output?: readonly string[] | undefined;
  readonly constant?: readonly string[] | undefined;
  readonly signature?: string | undefined;
  readonly tag?: readonly string[] | undefined;
}

/** @throws bad_config naming the option and what was expected */
export function convertOptionsOf({ input, output, constant, signature, tag }: ConvertValues): ConvertOptions {
  const inputs = (input ?? []).map(readInput);
  const shapes = inputs
    .filter(({ shape }) => shape !== undefined)
    .map(({ name, shape }) => [name, shape] as const);
  assertOnce(
    '--input',
    inputs.map(({ name }) => name),
  );
  assertOnce('--output', output ?? []);
  assertOnce('--tag', tag ?? []);
  const constants = (constant ?? []).map(readConstant);
  assertOnce(
    '--constant',
    constants.map(([name]) => name),
  );
  // An input without a shape says which inputs there are; shapes alone say more of those in the file.
  const isChoice = inputs.some(({ shape }) => shape === undefined);
  return {
    ...(shapes.length > 0 ? { inputShapes: Object.fromEntries(shapes) as Record<string, ShapeText> } : {}),
    ...(isChoice ? { inputNames: inputs.map(({ name }) => name) } : {}),
    ...(output ? { outputNames: output.map((name) => named('--output', name)) } : {}),
    ...(constants.length > 0 ? { constants: Object.fromEntries(constants) } : {}),
    ...(signature === undefined ? {} : { signature: named('--signature', signature) }),
    ...(tag ? { tags: tag.map((name) => named('--tag', name)) } : {}),
  };
}

function readInput(text: string): { name: string; shape: ShapeText | undefined } {
  const colon = text.lastIndexOf(':');
  const after = text.slice(colon + 1);
  if (colon < 0 || /^\d$/.test(after)) return { name: named('--input', text), shape: undefined };
  // A scalar is said as `data:[]`.
  const shape = after.trim() === '' ? undefined : shapeOf(after);
  if (shape === undefined) {
    throw wrongUse(
      `--input: expected name or name:shape, e.g. data:N,3,224,224, got ${JSON.stringify(text)}`,
    );
  }
  return { name: named('--input', text.slice(0, colon)), shape };
}

function readConstant(text: string): readonly [string, number] {
  const [, name = '', number = ''] = /^(.+)=([^=]+)$/.exec(text) ?? [];
  const value = Number(number);
  if (name === '' || number.trim() === '' || !Number.isFinite(value)) {
    throw wrongUse(`--constant: expected name=number, e.g. keep_prob=1, got ${JSON.stringify(text)}`);
  }
  return [name, value];
}

function named(option: string, name: string): string {
  if (name.trim() !== '' && name !== '__proto__') return name;
  throw wrongUse(`${option}: expected a name, got ${JSON.stringify(name)}`);
}

function assertOnce(option: string, names: readonly string[]): void {
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw wrongUse(`${option}: ${JSON.stringify(twice)} is given twice`);
}

/** Undefined for the default. @throws bad_config */
export function toleranceOf(text: string | undefined): Tolerance | undefined {
  if (text === undefined) return undefined;
  const atol = Number(text);
  if (text.trim() !== '' && Number.isFinite(atol) && atol >= 0) return { atol, rtol: 1e-3 };
  throw wrongUse(`--tolerance: expected a number >= 0, got ${JSON.stringify(text)}`);
}
