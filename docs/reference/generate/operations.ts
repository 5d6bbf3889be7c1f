/** The table of docs/reference/http.md with the operations of a single machine. */
import { ERRORS } from '../../../lib/contract/errors.ts';
import { type Declaration, operationsOf } from '../../../lib/openapi/declaration.ts';
import type { ServiceFacts } from '../../../lib/openapi/facts.ts';
import { localDeclarations } from '../../../local/service/declarations.ts';
import { code, table } from './table.ts';

export const FACTS: ServiceFacts = {
  job: 'serving_stream',
  version: 'v1',
  model: undefined,
  inputAlreadyBatched: false,
  example: undefined,
  security: 'none',
  url: '/',
};

export async function declarationsOfAll(): Promise<readonly Declaration[]> {
  // Loaded when it is written.
  const { DECLARATIONS } = await import('../../../lib/http/routes/lists/declarations.ts');
  return [...DECLARATIONS, ...localDeclarations(true)];
}

export async function operationsTable(): Promise<string> {
  const operations = operationsOf(FACTS, await declarationsOfAll());
  const groups = Map.groupBy(operations, ({ tag }) => tag);
  const rows = [...groups.values()].flat().map(({ method, path, id, summary, answers, errors, isLocal }) => {
    const statuses = new Set([...Object.keys(answers), ...errors.map((one) => String(ERRORS[one].status))]);
    const where = isLocal ? ' (single machine only)' : '';
    return [
      code(`${method.toUpperCase()} ${path}`),
      code(id),
      `${summary}${where}`,
      [...statuses].sort().join(', '),
    ];
  });
  return table(['operation', 'id', 'what', 'statuses'], rows);
}
