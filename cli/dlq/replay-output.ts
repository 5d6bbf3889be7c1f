/**
 * Prints a replay: progress while it runs, then a table of failures with reasons, or one document with --json.
 * Failures are written as they occur, so that a hundred thousand need no memory, and the document is completed even
 * if the replay is interrupted.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import type { Counts, Unreplayed } from '../../local/console/replay.ts';
import { wrongUse } from '../command.ts';
import { EXIT, listDocument, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import type { DlqPlace } from './place.ts';
import { type ReplayOptions, replay } from './replay.ts';
import { plain } from './text.ts';
import { assertRedis, type Where } from './where.ts';

type Chosen = Pick<ReplayOptions, 'dryRun' | 'send' | 'limitMs'>;

const SHOWN_RECORDS = 20;

interface Failures {
  count: number;
  /** Failures by code. */
  readonly reasons: Map<string, { records: number; readonly first: string }>;
  /** The first failures. */
  readonly shown: Unreplayed[];
}

/**
 * @returns the exit code. @throws bad_config when there is no place for results, and errors that end the replay at
 * once
 */
export async function reportReplay(place: DlqPlace, where: Where, chosen: Chosen, output: Output) {
  if (!chosen.dryRun && !chosen.send && !place.results) {
    throw wrongUse(
      'where are the results? Pass --redis-url; --enqueue puts records back into the queue instead',
    );
  }
  assertRedis(where, place.results);
  // Counts by the listing alone, before a uri or a code excludes any.
  let total = 0;
  for await (const page of place.deadLetters.pages()) total += page.filter(where.entry).length;
  const progress = showProgress(output.json);
  const failures: Failures = { count: 0, reasons: new Map(), shown: [] };
  const document = listDocument(output, `{"dryRun":${chosen.dryRun},"failed":[`);
  const onFailed = (failed: Unreplayed) => {
    const { id, uri, error } = failed;
    const { code, message } = error;
    const reason = failures.reasons.get(code) ?? { records: 0, first: message };
    reason.records++;
    failures.reasons.set(code, reason);
    if (output.json) document.add({ id, uri, code, error: message });
    else if (failures.count < SHOWN_RECORDS) failures.shown.push(failed);
    failures.count++;
  };
  let model = '';
  let stopped: true | undefined;
  const onSignal = () => {
    stopped = true;
    output.note('stopping after the current records; interrupt again to stop at once');
  };
  process.once('SIGINT', onSignal);
  try {
    const counts = await replay(place, where, {
      ...chosen,
      onStart: (version) => void (model = version),
      onFailed,
      onProgress: (done) => progress.update({ done, total }),
      isStopped: () => stopped === true,
    });
    progress.end();
    const { succeeded, over, failed } = counts;
    if (stopped) output.note('stopped: the remaining dead letters are unchanged');
    // JSON omits undefined values.
    if (output.json) document.end({ model, stopped, succeeded, over, stillFailing: failed });
    else output.answer({}, textOf(model, counts, failures, chosen, place));
    return failed === 0 && !stopped ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!output.json || failures.count === 0) throw error;
    const { code, message } = ServingError.from(error);
    output.note(`error: ${message}`);
    document.end({ error: message, code });
    return EXIT.failed;
  } finally {
    progress.end();
    process.off('SIGINT', onSignal);
  }
}

function textOf(
  model: string,
  { succeeded, over, failed }: Counts,
  { reasons, shown }: Failures,
  { dryRun, send }: Chosen,
  { config = 'default settings', job }: DlqPlace,
): string {
  const row = (name: string, count: number, example = '') =>
    `${name.padEnd(22)} ${String(count).padStart(7)}  ${example}`.trimEnd();
  const what = dryRun ? 'would succeed' : send ? 'back in the queue' : 'succeeded';
  const lines = [`model ${model} of ${job.jobName}, with ${config}`, row(what, succeeded)];
  if (over > 0) lines.push(row('had a result already', over));
  lines.push(row(dryRun ? 'would still fail' : 'still fail', failed));
  for (const [code, { records, first }] of reasons) lines.push(row(`  ${code}`, records, plain(first)));
  for (const { id, uri, error } of shown) {
    const name = uri === undefined ? '(no uri)' : plain(uri);
    lines.push(`${id}  ${name}  ${plain(error.message)} (${error.code})`);
  }
  if (failed > shown.length) lines.push(`and ${failed - shown.length} more; --json names all`);
  return lines.join('\n');
}
