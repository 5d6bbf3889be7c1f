/** `dlq replay --edit`: a dead letter with another payload, from an editor or a file, as a new enqueue. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';
import { editableText, replayEdited } from '../../local/console/edit.ts';
import { InputQueue } from '../../sdk/index.ts';
import { canAsk } from '../confirm.ts';
import { EXIT, type Output } from '../output.ts';
import { readInput } from '../records.ts';
import type { DlqPlace } from './place.ts';

interface EditOptions {
  /** A file, "-", or JSON. Undefined: an editor is opened. */
  readonly payload: string | undefined;
  readonly dryRun: boolean;
  readonly queueUrl: string;
}

/** @throws not_found, bad_request, queue_unavailable, results_unavailable */
export async function replayEdit(
  place: DlqPlace,
  id: string,
  { payload, dryRun, queueUrl }: EditOptions,
  output: Output,
): Promise<number> {
  const send = async (text: string) => {
    const queue = openQueue(place, queueUrl);
    try {
      return await replayEdited(dryRun ? unchanging(place) : place, id, text, async (record) =>
        dryRun ? undefined : queue.enqueueMessage(record),
      );
    } finally {
      await queue.close();
    }
  };
  const record =
    payload === undefined
      ? await withEditor(await editableText(place, id), send)
      : await send(await payloadText(payload));
  if (!record) {
    output.answer(
      { id, sent: false },
      'the payload was not changed: nothing was sent, the dead letter stays',
    );
    return EXIT.ok;
  }
  const { uri, identity } = record;
  const done = dryRun ? 'would be enqueued' : 'was enqueued; the dead letter was removed';
  output.answer({ id, sent: !dryRun, uri, identity }, `${uri} (${identity}) ${done}`);
  return EXIT.ok;
}

function openQueue({ job, endpoint, region, bucket, redisUrl }: DlqPlace, queueUrl: string): InputQueue {
  const places = { endpoint, region, bucket, redisUrl };
  const known = Object.entries(places).filter((one): one is [string, string] => one[1] !== undefined);
  return new InputQueue({ ...Object.fromEntries(known), queueUrl, name: job.jobName });
}

function unchanging(place: DlqPlace): Parameters<typeof replayEdited>[0] {
  const { deadLetters } = place;
  const reading = { messages: deadLetters.messages.bind(deadLetters), remove: async () => undefined };
  return { ...place, deadLetters: reading };
}

async function payloadText(payload: string): Promise<string> {
  return payload.trimStart().startsWith('{') ? payload : (await readInput(payload)).toString();
}

/** A text that cannot be sent stays in its file. @returns undefined where nothing was changed */
async function withEditor<T>(text: string, send: (text: string) => Promise<T>): Promise<T | undefined> {
  const editor = variables['VISUAL'] || variables['EDITOR'];
  if (!editor || !canAsk())
    throw new ServingError(
      'bad_request',
      editor
        ? 'there is no terminal for an editor; --payload <file> gives the payload'
        : '--edit opens the editor of VISUAL or EDITOR, and neither is set; --payload <file> gives the payload',
    );
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-edit-'));
  const file = join(folder, 'record.json');
  await writeFile(file, text, { mode: 0o600 });
  // The variable may have options, as in "code --wait".
  const [program = '', ...options] = editor.trim().split(/\s+/);
  const child = spawn(program, [...options, file], { stdio: 'inherit' });
  const [code]: unknown[] = await once(child, 'exit');
  const edited = await readFile(file, 'utf8');
  if (code !== 0) throw kept(`the editor ended with ${String(code)}`, file);
  let sent: T | undefined;
  try {
    sent = edited.trim() === text.trim() ? undefined : await send(edited);
  } catch (error) {
    throw kept(ServingError.from(error).message, file, error);
  }
  await rm(folder, { recursive: true });
  return sent;
}

function kept(reason: string, file: string, cause?: unknown): ServingError {
  const { code } = ServingError.from(cause ?? new ServingError('bad_request', reason));
  const message = `${reason}; the dead letter stays, and what you wrote is in ${file} (--payload ${file} sends it)`;
  return new ServingError(code, message, { cause });
}
