/** Fills the form from a request that the model answers. A picture that means nothing is replaced by one that is drawn. */
import type { Example, PortFacts } from '../api.ts';
import type { Given, Values } from './request.ts';

const FILE_NAME = 'example.png';

/**
 * @param picture a picture as base64
 * @returns undefined for what the form cannot hold, or not to the last digit
 */
export function exampleValues(
  { body, isGolden }: Example,
  inputs: readonly PortFacts[],
  picture: () => string,
): Values | undefined {
  let isExact = true;
  const { instances } = JSON.parse(body, (_, value: unknown) => {
    const isWhole = typeof value === 'number' && Number.isInteger(value);
    if (isWhole && (!Number.isSafeInteger(value) || Object.is(value, -0))) isExact = false;
    if (typeof value === 'number' && !Number.isFinite(value)) isExact = false;
    return value;
  }) as { readonly instances: readonly unknown[] };
  const byName = isExact ? namedValues(instances[0], inputs) : undefined;
  if (!byName) return undefined;
  const given = inputs.flatMap((input): (readonly [string, Given | undefined])[] => {
    if (input.takes === 'image' && !isGolden) return [[input.name, { text: picture(), fileName: FILE_NAME }]];
    return byName.has(input.name) ? [[input.name, givenOf(input, byName.get(input.name))]] : [];
  });
  return given.every(([, value]) => value) ? (Object.fromEntries(given) as Values) : undefined;
}

/** @returns undefined for a body that the form cannot hold: other parts, several records, or not to the last digit */
export function heldValues(body: string, inputs: readonly PortFacts[]): Values | undefined {
  try {
    const { instances, ...others }: Readonly<Record<string, unknown>> = JSON.parse(body);
    if (!Array.isArray(instances) || instances.length !== 1 || Object.keys(others).length > 0)
      return undefined;
    return exampleValues({ body, isGolden: true }, inputs, () => '');
  } catch {
    return undefined;
  }
}

/** By the names of the inputs; those of columns, and a bare value, are the only input's. */
function namedValues(
  instance: unknown,
  inputs: readonly PortFacts[],
): ReadonlyMap<string, unknown> | undefined {
  const [only, second] = inputs;
  const values = new Map(Object.entries(Object(instance)));
  if (typeof instance !== 'object' || Array.isArray(instance) || instance === null)
    return only && !second ? new Map([[only.name, instance]]) : undefined;
  if ([...values.keys()].every((name) => inputs.some((input) => input.name === name))) return values;
  const columns = second ? undefined : only?.names;
  if (!only || columns?.length !== values.size || !columns.every((name) => values.has(name)))
    return undefined;
  return new Map([[only.name, columns.map((name) => values.get(name))]]);
}

function givenOf({ takes }: PortFacts, value: unknown): Given | undefined {
  if (takes === 'numbers') return { text: JSON.stringify(value) };
  const { b64 }: { readonly b64?: unknown } = Object(value);
  const [text, second] = [b64 ?? value].flat(Infinity);
  if (takes === 'image' && typeof text !== 'string') return { text: JSON.stringify(value), isNumbers: true };
  if (typeof text !== 'string' || second !== undefined) return undefined;
  return { text, ...(takes === 'image' && { fileName: FILE_NAME }) };
}
