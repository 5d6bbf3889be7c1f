/** A link that fills the form. It asks nothing: who opens it presses the button. */
import { linkTo } from '../address.ts';
import type { PortFacts } from '../api.ts';
import type { Given, Values } from './request.ts';

/** @returns undefined for what is too long for a link, as most pictures are */
export function linkOf(values: Values): string | undefined {
  return linkTo('model', { form: JSON.stringify(values) });
}

/** @returns what the model has inputs for; nothing of a link that is damaged */
export function linkedValues(form: string, inputs: readonly PortFacts[]): Values {
  const given = objectOf(parsed(form));
  return Object.fromEntries(
    inputs.flatMap(({ name }): [string, Given][] => {
      const { text, isNumbers, fileName } = objectOf(Object.hasOwn(given, name) ? given[name] : undefined);
      if (typeof text !== 'string') return [];
      const isNamed = typeof fileName === 'string';
      return [[name, { text, ...(isNumbers === true && { isNumbers }), ...(isNamed && { fileName }) }]];
    }),
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
