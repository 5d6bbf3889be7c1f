/** Reads S3 and Redis for a console: dead letters with their reasons, and the versions of the model. */
import {
  type DeadLetterPage,
  type Done,
  EDIT_CHARACTERS,
  type EditableLetter,
  type NoticeFacts,
  type Part,
  type Versions,
} from '../../console/api.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { verificationNotes } from '../../lib/contract/verification-text.ts';
import { listVersions, rollBack } from '../../lib/registry/versions.ts';
import type { DeadLetterHead } from '../../lib/s3/dead-letters.ts';
import { type EditPlace, editableText, replayEdited } from './edit.ts';
import { assertGoldenHere } from './golden.ts';
import type { Notices } from './notices.ts';
import { type OnReplaced, Replay, type ReplayPlace, type ReplayRunner } from './replay.ts';
import { furtherTrials, trialFacts, type VersionPlace } from './trial.ts';

const PAGE_LETTERS = 50;

/** @param after continues after this id */
export async function deadLetterPage(
  { deadLetters, results }: Pick<ReplayPlace, 'deadLetters' | 'results'>,
  after: string | undefined,
): Promise<DeadLetterPage> {
  const found: DeadLetterHead[] = [];
  for await (const entries of deadLetters.pages(after)) {
    // One more than are shown says whether there are more.
    const heads = await deadLetters.heads(entries.slice(0, PAGE_LETTERS + 1 - found.length));
    found.push(...heads.filter((head) => head !== undefined));
    if (found.length > PAGE_LETTERS) break;
  }
  const shown = found.slice(0, PAGE_LETTERS);
  const uris = shown.flatMap(({ uri }) => uri ?? []);
  const stored = results && uris.length > 0 ? await results.outcomes(uris) : [];
  const byUri = new Map(uris.map((uri, i) => [uri, stored[i]]));
  // Pages continue by id, and ids do not show the time.
  const newestFirst = shown.toSorted((a, b) => b.archivedAt - a.archivedAt);
  return {
    letters: newestFirst.map(({ id, uri, archivedAt, attempts, bytes, readable }) => {
      const outcome = byUri.get(uri ?? '');
      const { code, message, status } = outcome ?? {};
      const known = code === undefined ? (status ?? 'no result is stored') : `${code}: ${message ?? ''}`;
      const reason = results ? known : 'the error is in Redis, which is not reached from here';
      return {
        id,
        uri,
        archivedAt: new Date(archivedAt).toISOString(),
        attempts,
        bytes,
        reason: readable ? reason : 'the file is not a dead letter',
      };
    }),
    next: found.length > PAGE_LETTERS ? shown.at(-1)?.id : undefined,
  };
}

/** Runs one dead letter again and stores its result. @throws not_found, conflict, or what the record fails with */
export async function replayOne(
  place: ReplayPlace,
  runner: ReplayRunner,
  id: string,
  onReplaced?: OnReplaced,
): Promise<Done> {
  const [message] = await place.deadLetters.messages([id]);
  if (message === undefined) throw new ServingError('not_found', `there is no dead letter ${id} (any more)`);
  let failure: ServingError | undefined;
  const replay = new Replay(place, runner, {
    dryRun: false,
    send: undefined,
    onReplaced,
    onFailed: ({ error }) => {
      failure = error;
    },
  });
  await replay.part([id]);
  if (failure) throw failure;
  const done = replay.counts.over > 0 ? 'It has a result already' : 'It ran, and its result is stored';
  return { done: `${done}; the dead letter was removed.` };
}

/** @throws not_found, bad_request */
export async function editableLetter(place: EditPlace, id: string): Promise<Part<EditableLetter>> {
  const text = await editableText(place, id);
  if (text.length <= EDIT_CHARACTERS) return { text };
  return {
    unavailable: `It is too long for this page: \`cluster-serving dlq replay ${id} --edit\` opens an editor.`,
  };
}

/** @param enqueue resolves when the queue has the record. @throws not_found, bad_request, queue_unavailable */
export async function editOne(
  place: EditPlace,
  id: string,
  payload: string,
  enqueue: Parameters<typeof replayEdited>[3],
): Promise<Done> {
  const { uri } = await replayEdited(place, id, payload, enqueue);
  return { done: `${uri} was enqueued with this payload; the dead letter was removed.` };
}

export const NO_TARGETS = 'The job has no targets: `notify` in config.yaml.';

export async function noticeFacts(notices: Notices): Promise<Part<NoticeFacts>> {
  return (await notices.facts()) ?? { unavailable: NO_TARGETS };
}

export async function resumeTarget(notices: Notices, target: string): Promise<Done> {
  const sent = await notices.resume(target);
  return { done: `${sent} given up notices of ${target} are sent again.` };
}

export async function versionsOf({ s3, location, job }: VersionPlace): Promise<Versions> {
  const versions = await listVersions(s3, location);
  return {
    versions: versions.map(({ version, uploadedAt, bytes, format, verification, serves, before, trial }) => {
      const [batching] = verificationNotes(verification, job.batching);
      return { version, uploadedAt, bytes, format, batching, serves, before, trial };
    }),
    trial: await trialFacts({ s3, location }),
    further: await furtherTrials({ s3, location }),
    refreshSeconds: job.modelRefreshSeconds,
  };
}

/** @throws not_found, bad_model (a golden request), model_unavailable, conflict */
export async function activateVersion(place: VersionPlace, wanted: string): Promise<Done> {
  const { version, from } = await rollBack(place.s3, place.location, wanted, {
    check: (pointer) => assertGoldenHere(place, pointer, place.job),
  });
  if (from === version) return { done: `Version ${version} serves already.` };
  const seconds = place.job.modelRefreshSeconds;
  return {
    done: `Version ${version} is chosen instead of ${from ?? 'none'}; it serves within ${seconds} s.`,
  };
}
