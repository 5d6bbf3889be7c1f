/**
 * `dlq list`. There may be a hundred thousand messages, so each is printed as it arrives, and without --limit 0 the
 * listing ends after the first hundred.
 */
import { EXIT, listDocument, type Output } from '../output.ts';
import type { DlqPlace } from './place.ts';
import { bytesText, plain, timeText } from './text.ts';
import { type Found, findDeadLetters, type Where } from './where.ts';

export interface ListOptions {
  /** 0 means no limit. */
  readonly limit: number;
  readonly after?: string | undefined;
}

export async function list(place: DlqPlace, where: Where, options: ListOptions, output: Output) {
  const { limit, after } = options;
  const document = listDocument(output, '{"deadLetters":[');
  let count = 0;
  let last: string | undefined;
  let next: string | undefined;
  search: for await (const part of findDeadLetters(place, where, after)) {
    for (const found of part) {
      if (limit > 0 && count === limit) {
        next = last;
        break search;
      }
      if (output.json) document.add(documentOf(found));
      else output.piece(`${count === 0 ? HEAD : ''}${lineOf(found)}\n`);
      count++;
      last = found.id;
    }
  }
  if (output.json) document.end({ count, next });
  else if (count === 0) output.piece('there are no dead letters, or none that match\n');
  else if (next !== undefined) output.note(`and more: --after ${next} continues, --limit 0 lists all`);
  return EXIT.ok;
}

const HEAD = `${'id'.padEnd(36)}  ${'archived'.padEnd(20)}  attempts      size  ${'stored result'.padEnd(21)}  uri\n`;

function lineOf({ id, archivedAt, attempts, bytes, outcome, uri, readable }: Found): string {
  const name = uri === undefined ? (readable ? '(no uri)' : '(not a dead letter)') : plain(uri);
  return [
    id.padEnd(36),
    timeText(archivedAt),
    String(attempts ?? '').padStart(8),
    bytesText(bytes).padStart(8),
    (outcome?.code ?? outcome?.status ?? '').padEnd(21),
    name,
  ].join('  ');
}

/** JSON leaves out what is undefined. */
function documentOf({ id, uri, archivedAt, sentAt, attempts, bytes, outcome, readable }: Found) {
  return {
    id,
    uri,
    archivedAt: new Date(archivedAt).toISOString(),
    sentAt: sentAt === undefined ? undefined : new Date(sentAt).toISOString(),
    attempts,
    bytes,
    readable: readable ? undefined : false,
    result: outcome,
  };
}
