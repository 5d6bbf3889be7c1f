/** The tables of docs/reference/limits.md: the limits of requests and records, and those of other parts. */
import { LIMITS } from '../../../lib/contract/limits.ts';
import { commentsIn, numberIn, sentences } from './comments.ts';
import { code, table, thousands } from './table.ts';

/** Other limits that users meet. The comment of each constant says what it limits, and what happens above it. */
export const OTHERS: readonly (readonly [file: string, ...constants: string[]])[] = [
  ['lib/config/file.ts', 'MAX_CONFIG_BYTES', 'MAX_TOKENS', 'MAX_ALIASES', 'MAX_DEPTH'],
  ['lib/http/predictions.ts', 'MAX_WAIT_SECONDS'],
  ['lib/http/results.ts', 'PAGE'],
  ['lib/registry/download.ts', 'MAX_MODEL_FILES'],
  ['lib/registry/pointer.ts', 'MAX_HISTORY'],
  ['lib/registry/source.ts', 'MAX_SOURCE_BYTES'],
  ['sdk/fetch.ts', 'MAX_ANSWER_BYTES'],
  ['sdk/wkr/answers.ts', 'MAX_FRAME_BYTES'],
  ['cli/records.ts', 'MAX_FILE_BYTES'],
  ['cli/table.ts', 'MAX_TABLE_BYTES'],
  ['infra/config.ts', 'MAX_JOB_BYTES'],
  ['lib/queue/names.ts', 'MAX_STAGE_LENGTH'],
  ['local/start-options.ts', 'MAX_JOBS'],
  ['local/gateway/body.ts', 'MAX_BODY_BYTES'],
  ['local/gateway/event.ts', 'MAX_HEADER_BYTES'],
  ['local/gateway/gateway.ts', 'MAX_WAITS'],
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
  const rows = OTHERS.flatMap(([file, ...constants], i) =>
    constants.map((name) => {
      const { value, comment } = numberIn(sources[i] as string, name);
      const [what, above] = sentences(comment);
      if (above === '') throw new Error(`${file}: ${name} needs a sentence on what happens above it`);
      return [`${code(name)} in ${code(file)}`, valueOf(name, value), what, above];
    }),
  );
  return table(HEADS, rows);
}

function valueOf(name: string, value: number): string {
  if (name.endsWith('SECONDS')) return `${value} s`;
  if (!/bytes$/i.test(name)) return thousands(value);
  return value % MiB === 0 ? `${value / MiB} MiB` : `${thousands(value)} bytes`;
}
