/** The OpenAPI document of a single machine for readers without one, and for reviewers: each operation and schema is a line. */
import { openApiDocument } from '../../../lib/openapi/document.ts';
import type { Json } from '../../../lib/openapi/facts.ts';
import { declarationsOfAll, FACTS } from './operations.ts';

export async function openApiText(): Promise<string> {
  const document = openApiDocument(FACTS, await declarationsOfAll());
  return `${lined(document, 3)}\n`;
}

/** JSON whose objects are broken into lines down to this depth. */
function lined(value: unknown, depth: number): string {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (depth === 0 || !isObject) return JSON.stringify(value);
  const entries = Object.entries(value as Json);
  const lines = entries.map(([key, one]) => `${JSON.stringify(key)}: ${lined(one, depth - 1)}`);
  return `{\n${lines.join(',\n')}\n}`;
}
