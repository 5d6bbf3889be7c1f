/**
 * `dlq list`. There may be a hundred thousand messages: each is printed as it comes, nothing is collected, and without
 * --limit 0 the listing ends after the first hundred.
 */
import { EXIT, listDocument, type Output } from '../output.ts';
import type { DlqPlace } from './place.ts';
import { bytesText, plain, timeText } from './text.ts';
import { type Found, findParked, type Where } from './where.ts';

export interface ListOptions {
  /** 0 has no limit. */
  readonly limit: number;
  readonly after?: string | undefined;
}

export async function list(place: DlqPlace, where: Where, options: ListOptions, output: Output) {
  const { limit, after } = options;
  const document = listDocument(output, '{"parked":[');
  let count = 0;
  let last: string | undefined;
  let next: string | undefined;
  search: for await (const part of findParked(place, where, after)) {
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
  else if (count === 0) output.piece('nothing is parked, or nothing of what is meant\n');
  else if (next !== undefined) output.note(`and more: --after ${next} goes on, --limit 0 lists all`);
  return EXIT.ok;
}

const HEAD = `${'id'.padEnd(36)}  ${'parked'.padEnd(20)}  tries      size  ${'stored result'.padEnd(21)}  uri\n`;

function lineOf({ id, parkedAt, tries, bytes, outcome, uri, readable }: Found): string {
  const name = uri === undefined ? (readable ? '(no uri)' : '(no parked message)') : plain(uri);
  return [
    id.padEnd(36),
    timeText(parkedAt),
    String(tries ?? '').padStart(5),
    bytesText(bytes).padStart(8),
    (outcome?.code ?? outcome?.status ?? '').padEnd(21),
    name,
  ].join('  ');
}

/** JSON leaves out what is undefined. */
function documentOf({ id, uri, parkedAt, sentAt, tries, bytes, outcome, readable }: Found) {
  return {
    id,
    uri,
    parkedAt: new Date(parkedAt).toISOString(),
    sentAt: sentAt === undefined ? undefined : new Date(sentAt).toISOString(),
    tries,
    bytes,
    readable: readable ? undefined : false,
    result: outcome,
  };
}
