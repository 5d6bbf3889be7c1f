/**
 * `dlq list`. In: conditions. Out: a line, or a JSON object, for each parked message that is meant, as they come.
 * Trap: there may be a hundred thousand: nothing is gathered, and without --limit 0 it ends after the first hundred.
 */

import { EXIT, type Output } from '../output.ts';
import type { DlqPlace } from './place.ts';
import { bytesText, plain, timeText } from './text.ts';
import { type Found, findParked, type Where } from './where.ts';

export interface ListOptions {
  /** 0 has no limit. */
  readonly limit: number;
  readonly after: string | undefined;
}

export async function list(
  place: DlqPlace,
  where: Where,
  options: ListOptions,
  output: Output,
): Promise<number> {
  const { limit, after } = options;
  let count = 0;
  let last: string | undefined;
  let isMore = false;
  const tell = (found: Found) => {
    const text = output.json ? JSON.stringify(documentOf(found)) : lineOf(found);
    if (output.json) output.piece(`${count === 0 ? '{"parked":[' : ','}${text}`);
    else output.piece(`${count === 0 ? `${HEAD}\n` : ''}${text}\n`);
    count++;
    last = found.id;
  };
  search: for await (const part of findParked(place, where, { after })) {
    for (const found of part) {
      isMore = limit > 0 && count === limit;
      if (isMore) break search;
      tell(found);
    }
  }
  const next = isMore ? last : undefined;
  if (output.json) {
    const end = JSON.stringify({ count, ...(next === undefined ? {} : { next }) }).slice(1);
    output.piece(`${count === 0 ? '{"parked":[' : ''}],${end}\n`);
  } else if (count === 0) output.piece('nothing is parked, or nothing of what is meant\n');
  else if (next !== undefined) output.note(`and more: --after ${next} goes on, --limit 0 lists all`);
  return EXIT.ok;
}

const HEAD = `${'id'.padEnd(36)}  ${'parked'.padEnd(20)}  tries      size  stored result  uri`;

function lineOf({ id, parkedAt, tries, bytes, outcome, uri, readable }: Found): string {
  const name = uri === undefined ? (readable ? '(no uri)' : '(no parked message)') : plain(uri);
  return [
    id.padEnd(36),
    timeText(parkedAt),
    String(tries ?? '').padStart(5),
    bytesText(bytes).padStart(8),
    (outcome?.code ?? outcome?.status ?? '').padEnd(13),
    name,
  ].join('  ');
}

function documentOf({ id, uri, parkedAt, sentAt, tries, bytes, outcome, readable }: Found) {
  return {
    id,
    ...(uri === undefined ? {} : { uri }),
    parkedAt: new Date(parkedAt).toISOString(),
    ...(sentAt === undefined ? {} : { sentAt: new Date(sentAt).toISOString() }),
    ...(tries === undefined ? {} : { tries }),
    bytes,
    ...(readable ? {} : { readable }),
    ...(outcome === undefined ? {} : { result: outcome }),
  };
}
