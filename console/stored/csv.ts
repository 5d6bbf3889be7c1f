/** The listed records as a table for a spreadsheet. */
import type { RecordFacts } from '../api.ts';

const COLUMNS = ['uri', 'status', 'finishedAt', 'model', 'identity', 'code', 'error', 'result'] as const;

/** RFC 4180, with a byte order mark, without which a spreadsheet reads another encoding than UTF-8. */
export function csvOf(records: readonly RecordFacts[]): string {
  const rows = records.map((record) => COLUMNS.map((column) => cellOf(record[column] ?? '')).join(','));
  const head = COLUMNS.map((column) => (column === 'finishedAt' ? 'finishedAt (UTC)' : column));
  return `\ufeff${[head.join(','), ...rows].join('\r\n')}\r\n`;
}

/** A text that a spreadsheet would take for a formula is led in by an apostrophe. */
function cellOf(text: string): string {
  const isFormula = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text));
  return `"${(isFormula ? `'${text}` : text).replaceAll('"', '""')}"`;
}
