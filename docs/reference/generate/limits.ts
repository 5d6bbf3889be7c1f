/** Tables of docs/reference/limits.md: the limits of requests and records, and those of other parts. */
import { LIMITS } from '../../../lib/contract/limits.ts';
import { commentsIn, numbersIn, sentences } from './comments.ts';
import { code, table, thousands } from './table.ts';

/** Files with other limits that users meet: constants whose comment says what they limit, and what happens above it. */
export const OTHERS: readonly string[] = [
  'lib/config/file.ts',
  'lib/http/results.ts',
  'lib/registry/download.ts',
  'lib/registry/pointer.ts',
  'lib/registry/source.ts',
  'release/hub/client.ts',
  'release/hub/list.ts',
  'sdk/fetch.ts',
  'sdk/wkr/answers.ts',
  'cli/records.ts',
  'cli/table.ts',
  'infra/template/config.ts',
  'lib/queue/names.ts',
  'local/service/start-options.ts',
  'local/gateway/body.ts',
  'local/gateway/event.ts',
  'local/gateway/gateway.ts',
];

const MiB = 1024 * 1024;
const HEADS = ['limit', 'value', 'of what', 'above it'];

/** @param source text of lib/contract/limits.ts */
export function limitsTable(source: string): string {
  const comments = commentsIn(source, 'export const LIMITS =');
  const rows = Object.entries(LIMITS).map(([name, value]) => {
    const comment = comments.get(name);
    if (comment === undefined) throw new Error(`lib/contract/limits.ts: ${name} has no comment`);
    const [what, above] = sentences(comment);
    return [code(name), valueOf(name, value), what, above || '`too_large`'];
  });
  return table(HEADS, rows);
}

/** @param sources texts of the files of OTHERS, in that order */
export function otherLimitsTable(sources: readonly string[]): string {
  const rows = OTHERS.flatMap((file, i) => {
    const limits = numbersIn(sources[i] as string).flatMap(({ name, value, comment }) => {
      const [what, above] = sentences(comment);
      return above === '' ? [] : [[`${code(name)} in ${code(file)}`, valueOf(name, value), what, above]];
    });
    if (limits.length === 0) throw new Error(`${file}: no comment says what happens above a limit`);
    return limits;
  });
  return table(HEADS, rows);
}

function valueOf(name: string, value: number): string {
  if (name.endsWith('SECONDS')) return `${value} s`;
  if (!/bytes$/i.test(name)) return thousands(value);
  return value % MiB === 0 ? `${value / MiB} MiB` : `${thousands(value)} bytes`;
}
