/**
 * The separate process of a check: one request over the channel, one answer. onnxruntime blocks its thread, so a
 * model with an endless loop freezes its process, and a broken one may end it. In the installed package this file is
 * part of a chunk, so it exports its own URL.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import type { ProbeReport, ProbeRequest } from '../batching/probe.ts';
import type { RewritesReport, RewritesRequest } from '../verify/rewrites.ts';
import type { CheckReport, CheckRequest } from './run.ts';

export type ModelRequest =
  | { readonly check: CheckRequest }
  | { readonly probe: ProbeRequest }
  | { readonly rewrites: RewritesRequest };
export type ModelAnswer =
  | { readonly report: CheckReport }
  | { readonly probe: ProbeReport }
  | { readonly rewrites: RewritesReport }
  | { readonly failed: ErrorRecord };

/** The script to start. */
export const SCRIPT = import.meta.url;

export async function answerOf(request: ModelRequest): Promise<ModelAnswer> {
  try {
    // Loaded on demand, because the parent process needs no onnxruntime.
    if ('probe' in request) {
      const { probeModel } = await import('../batching/probe.ts');
      return { probe: await probeModel(request.probe) };
    }
    if ('rewrites' in request) {
      const { compareRewrites } = await import('../verify/rewrites.ts');
      return { rewrites: await compareRewrites(request.rewrites) };
    }
    const { checkModel } = await import('./run.ts');
    return { report: await checkModel(request.check) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { failed: { code, message } };
  }
}

if (import.meta.main && process.send) {
  // Ctrl-C reaches all processes of a terminal; the parent decides what it means and ends this one.
  process.on('SIGINT', () => undefined);
  process.once('message', (request) => {
    void answerOf(request as ModelRequest).then((answer) =>
      process.send?.(answer, undefined, undefined, () => process.exit(0)),
    );
  });
}
