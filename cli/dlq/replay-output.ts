/**
 * In: a replay. Out: a bar while it runs; then a table of what failed and why, or with --json one document.
 * Trap: failures are told as they come, so that a hundred thousand of them need no memory; the document that has begun
 * ends well, also when the replay breaks off.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import type { DlqPlace } from './place.ts';
import { type Counts, type ReplayOptions, replay, type Unreplayed } from './replay.ts';
import { plain } from './text.ts';
import { assertRedis, type Where } from './where.ts';

type Said = Pick<ReplayOptions, 'dryRun' | 'send' | 'limitMs'>;

interface Reason {
  records: number;
  readonly first: string;
}

interface Told extends Counts {
  readonly model: string;
  readonly stopped: boolean;
}

const SHOWN_RECORDS = 20;

/** @returns the exit code. @throws bad_config when the results cannot be stored anywhere, and what ends a replay at once */
export async function tellReplay(place: DlqPlace, where: Where, said: Said, output: Output): Promise<number> {
  if (!said.dryRun && !said.send && !place.results) {
    throw wrongUse(
      'where are the results? Say --redis-url; --enqueue puts records back into the queue instead',
    );
  }
  assertRedis(where, place.results);
  const progress = showProgress(process.stderr, await countOf(place, where), () => performance.now());
  const reasons = new Map<string, Reason>();
  const shown: Unreplayed[] = [];
  let failures = 0;
  const begin = `{"dryRun":${said.dryRun},"failed":[`;
  const onFailed = (failed: Unreplayed) => {
    const { code, message } = failed.error;
    const reason = reasons.get(code) ?? { records: 0, first: message };
    reason.records++;
    reasons.set(code, reason);
    if (output.json) output.piece(`${failures === 0 ? begin : ','}${JSON.stringify(documentOf(failed))}`);
    else if (shown.length < SHOWN_RECORDS) shown.push(failed);
    failures++;
  };
  const onProgress = (looked: number) => progress.update(looked);
  let model = '';
  const onStart = (version: string) => {
    model = version;
  };
  let stopped = false;
  const onSignal = () => {
    stopped = true;
    output.note('stopping after the records that are under way; again stops at once');
  };
  process.once('SIGINT', onSignal);
  try {
    const isStopped = () => stopped;
    const counts = await replay(place, where, { ...said, onStart, onFailed, onProgress, isStopped });
    progress.end();
    const rest = { model, stopped, ...counts };
    if (stopped) output.note('stopped: what was not looked at stays as it is');
    if (output.json)
      output.piece(`${failures === 0 ? begin : ''}],${JSON.stringify(renamed(rest)).slice(1)}\n`);
    else output.answer({}, textOf(rest, reasons, shown, said, place));
    return counts.failed === 0 && !stopped ? EXIT.ok : EXIT.failed;
  } catch (error) {
    progress.end();
    if (!output.json || failures === 0) throw error;
    const { code, message } = ServingError.from(error);
    output.note(`error: ${message}`);
    output.piece(`],${JSON.stringify({ error: message, code }).slice(1)}\n`);
    return EXIT.failed;
  } finally {
    process.removeListener('SIGINT', onSignal);
  }
}

/** By the listing alone: without what a uri or a code leaves out. */
async function countOf({ parked }: DlqPlace, where: Where): Promise<number> {
  let count = 0;
  for await (const page of parked.pages()) count += page.filter(where.entry).length;
  return count;
}

function documentOf({ id, uri, error: { code, message } }: Unreplayed) {
  return { id, ...(uri === undefined ? {} : { uri }), code, error: message };
}

function renamed({ model, stopped, succeeded, over, failed }: Told) {
  return { model, ...(stopped ? { stopped } : {}), succeeded, over, stillFailing: failed };
}

function textOf(
  { model, succeeded, over, failed }: Told,
  reasons: ReadonlyMap<string, Reason>,
  shown: readonly Unreplayed[],
  { dryRun, send }: Said,
  { config, job }: DlqPlace,
): string {
  const what = dryRun ? 'would succeed' : send ? 'back in the queue' : 'succeeded';
  const settings = config === undefined ? 'default settings' : config;
  const lines = [`model ${model} of ${job.jobName}, with ${settings}`, row(what, succeeded)];
  if (over > 0) lines.push(row('had a result already', over));
  lines.push(row(dryRun ? 'would still fail' : 'still fail', failed));
  for (const [code, { records, first }] of reasons) lines.push(row(`  ${code}`, records, plain(first)));
  for (const { id, uri, error } of shown) {
    lines.push(
      `${id}  ${uri === undefined ? '(no uri)' : plain(uri)}  ${plain(error.message)} (${error.code})`,
    );
  }
  if (failed > shown.length) lines.push(`and ${failed - shown.length} more; --json names all`);
  return lines.join('\n');
}

function row(name: string, count: number, example = ''): string {
  return `${name.padEnd(22)} ${String(count).padStart(7)}  ${example}`.trimEnd();
}
