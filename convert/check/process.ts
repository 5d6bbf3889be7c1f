/**
 * The process that runs a model that nobody has run yet. In: one request over the channel. Out: one answer.
 * Trap: onnxruntime blocks its thread, so that a model with an endless loop freezes its process, and a broken one may
 * take it down. And in the installed package this file is a part of a chunk, so only it can say where it is.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import type { CheckReport, CheckRequest } from './run.ts';

export type CheckAnswer = { readonly report: CheckReport } | { readonly failed: ErrorRecord };

/** What to start. */
export const SCRIPT = import.meta.url;

export async function answerOf(request: CheckRequest): Promise<CheckAnswer> {
  try {
    // On demand: who starts this process needs no onnxruntime.
    const { checkModel } = await import('./run.ts');
    return { report: await checkModel(request) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { failed: { code, message } };
  }
}

if (import.meta.main && process.send) {
  // Ctrl-C goes to all of a terminal's processes; who started us tells what it means, and ends us.
  process.on('SIGINT', () => undefined);
  process.once('message', (request) => {
    void answerOf(request as CheckRequest).then((answer) =>
      process.send?.(answer, undefined, undefined, () => process.exit(0)),
    );
  });
}
