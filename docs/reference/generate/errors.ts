/** The table of docs/reference/errors.md. */
import { ERRORS } from '../../../lib/contract/errors.ts';
import { commentsIn, sentences } from './comments.ts';
import { code, table } from './table.ts';

/** @param source text of lib/contract/errors.ts */
export function errorsTable(source: string): string {
  const comments = commentsIn(source, 'export const ERRORS =');
  const rows = Object.entries(ERRORS).map(([name, facts]) => {
    const [meaning, remedy] = sentences(comments.get(name) ?? '');
    if (remedy === '') throw new Error(`lib/contract/errors.ts: ${name} needs a sentence on what to do`);
    const message = facts.shown !== undefined ? `always "${facts.shown}"` : 'says what is wrong';
    return [code(name), String(facts.status), facts.retryable ? 'yes' : 'no', message, meaning, remedy];
  });
  const heads = ['code', 'status', 'try again', 'message over HTTP', 'meaning', 'what to do'];
  return table(heads, rows);
}
