/**
 * In: messages of the queue. Out: for each, its outcome, or the word to deliver it again.
 * Trap: one decision per message. A record that can never work is finished with a failure; a fault that may pass
 * sends it back; a message without a uri can be told to nobody and is sent back until the dead letters have it.
 */
import { decodeMessage } from '../codecs/message.ts';
import { ServingError } from '../contract/errors.ts';
import type { Inputs, NamedTensor, Outcome } from '../contract/values.ts';
import { type Scratch, withScratch } from './buffer-pool.ts';

export interface Message {
  readonly id: string;
  /** How often it was delivered, this time included. */
  readonly tries: number;
  /** The message, or why it could not be had (with its uri). */
  readonly body: string | ServingError;
}

export interface FinishedRecord {
  readonly id: string;
  readonly uri: string;
  readonly outcome: Outcome;
}

export interface RanRecords {
  readonly finished: readonly FinishedRecord[];
  /** Messages to deliver again, with the reason. */
  readonly returned: readonly { readonly id: string; readonly error: ServingError }[];
}

/** Records in, as many outcomes out. */
export type RunRecords = (records: readonly Inputs[]) => Promise<Outcome[]>;

type OnRunning = (uris: readonly string[]) => Promise<void>;

/**
 * Decodes, runs what can be decoded in one call, and sorts the outcomes. Never throws for a record's sake.
 * @param onRunning hears of the uris before they run; they wait for it
 */
export function runRecords(
  messages: readonly Message[],
  run: RunRecords,
  onRunning?: OnRunning,
): Promise<RanRecords> {
  return withScratch((scratch) => runDecoded(messages, run, onRunning, scratch));
}

async function runDecoded(
  messages: readonly Message[],
  run: RunRecords,
  onRunning: OnRunning | undefined,
  scratch: Scratch,
): Promise<RanRecords> {
  const allocate = (bytes: number) => scratch.take(bytes);
  const returned: { id: string; error: ServingError }[] = [];
  const finished: FinishedRecord[] = [];
  const runnable: { id: string; uri: string; inputs: Inputs }[] = [];
  for (const { id, body } of messages) {
    try {
      const { uri, inputs } = body instanceof ServingError ? unread(body) : decodeMessage(body, allocate);
      if (inputs instanceof ServingError && inputs.retryable) returned.push({ id, error: inputs });
      else if (inputs instanceof ServingError)
        finished.push({ id, uri, outcome: { ok: false, error: inputs } });
      else runnable.push({ id, uri, inputs });
    } catch (error) {
      returned.push({ id, error: ServingError.from(error) });
    }
  }
  await onRunning?.(runnable.map(({ uri }) => uri));
  const outcomes = await run(runnable.map((record) => record.inputs));
  for (const [i, { id, uri }] of runnable.entries()) {
    const outcome = outcomes[i] as Outcome;
    if (!outcome.ok && outcome.error.retryable) returned.push({ id, error: outcome.error });
    else finished.push({ id, uri, outcome: detached(outcome, scratch) });
  }
  return { finished, returned };
}

/** A runner may give back what it was given, as a pass-through does; that memory is used again. */
function detached(outcome: Outcome, scratch: Scratch): Outcome {
  if (!outcome.ok || !outcome.outputs.some(({ data }) => scratch.owns(data))) return outcome;
  return {
    ok: true,
    outputs: outcome.outputs.map((output): NamedTensor => {
      return scratch.owns(output.data) ? { ...output, data: output.data.slice() } : output;
    }),
  };
}

/** @throws the error itself when nobody can be told */
function unread(error: ServingError): { uri: string; inputs: ServingError } {
  if (error.uri === undefined) throw error;
  return { uri: error.uri, inputs: error };
}

interface Problem {
  readonly error: ServingError;
  readonly messageId?: string;
  readonly uri?: string;
}

/** What whoever runs the function should read: what came back, and failures that are not the record's own. */
export function problemsOf({ finished, returned }: RanRecords): Problem[] {
  const failures = finished.flatMap(({ uri, outcome }) =>
    !outcome.ok && outcome.error.status >= 500 ? [{ error: outcome.error, uri }] : [],
  );
  return [...returned.map(({ id, error }) => ({ error, messageId: id })), ...failures];
}
