/** `capture purge`: deletes objects of captures, or takes the lines of one record out of them. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { CapturedObject, CaptureFilter, CaptureReader } from '../../lib/s3/capture-reader.ts';
import { confirmed } from '../confirm.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';

const zip = promisify(gzip);

interface PurgeOptions {
  readonly filter: CaptureFilter;
  /** The uri of a record, or the id of a request. Undefined: all. */
  readonly uri: string | undefined;
  /** Skips the question. */
  readonly yes: boolean;
  readonly job: string;
}

export async function purgeCaptures(
  readers: readonly CaptureReader[],
  { filter, uri, yes, job }: PurgeOptions,
  output: Output,
): Promise<number> {
  const objects: { readonly reader: CaptureReader; readonly object: CapturedObject }[] = [];
  for (const reader of readers)
    for await (const page of reader.pages(filter))
      objects.push(...page.map((object) => ({ reader, object })));
  const what = uri === undefined ? `${objects.length} objects of captures` : `the captures of ${uri}`;
  if (objects.length > 0 && !yes && !(await confirmed(`deletes ${what} of the job ${job} for good`))) {
    output.answer({ objects: 0, lines: 0 }, 'nothing was deleted');
    return EXIT.failed;
  }
  for (const reader of readers) await reader.removeReport();
  if (uri === undefined) {
    for (const [reader, some] of Map.groupBy(objects, (one) => one.reader))
      await reader.remove(some.map(({ object }) => object));
    output.answer({ objects: objects.length }, `${objects.length} objects deleted`);
    return EXIT.ok;
  }
  const progress = showProgress(output.json);
  let lines = 0;
  let changed = 0;
  try {
    for (const [i, { reader, object }] of objects.entries()) {
      const taken = await takeOut(reader, object, uri);
      lines += taken;
      if (taken > 0) changed++;
      progress.update({ done: i + 1, total: objects.length, label: 'objects read' });
    }
  } finally {
    progress.end();
  }
  output.answer({ objects: changed, lines }, `${lines} requests and records deleted from ${changed} objects`);
  return EXIT.ok;
}

/** @returns how many lines were taken out. What is damaged in the object is gone then, too. */
async function takeOut(reader: CaptureReader, object: CapturedObject, uri: string): Promise<number> {
  const kept: string[] = [];
  let taken = 0;
  for await (const line of reader.lines(object)) {
    if (!('text' in line)) break;
    if (line.number > 1 && isOf(line.text, uri)) taken++;
    else kept.push(line.text);
  }
  if (taken === 0) return 0;
  if (kept.length > 1) await reader.replace(object, await zip(`${kept.join('\n')}\n`));
  else await reader.remove([object]);
  return taken;
}

/** A line that cannot be read is of the record if its uri is anywhere in it. */
function isOf(line: string, uri: string): boolean {
  if (!line.includes(JSON.stringify(uri))) return false;
  try {
    return Object(JSON.parse(line)).id === uri;
  } catch {
    return true;
  }
}
