/**
 * The separate process in which models are tried: a request over the channel, an answer, the next request.
 * onnxruntime blocks its thread, so a model with an endless loop freezes its process, and a broken one may end it. In the
 * installed package this file is part of a chunk, so it exports its own URL.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { endWithParent } from '../../lib/inference/end-with-parent.ts';
import type { ProbeRequest } from '../batching/probe.ts';
import type { NodesRequest } from '../classical/compare.ts';
import type { GoldenRun } from '../golden/run.ts';
import type { PaddingRequest } from '../text/probe.ts';
import type { RewritesRequest } from '../verify/rewrites.ts';
import { traceRun } from './crash.ts';
import type { CheckRequest } from './run.ts';

/** What it does with a model. Loaded on demand, because the parent process needs no onnxruntime. */
const WORK = {
  /** Loads what a verification asks for. */
  prepare: async (_nothing: object): Promise<object> =>
    Promise.all([
      import('../golden/run.ts'),
      import('../verify/rewrites.ts'),
      import('../batching/probe.ts'),
    ]).then(() => ({})),
  rewrites: async (request: RewritesRequest) =>
    (await import('../verify/rewrites.ts')).compareRewrites(request),
  nodes: async (request: NodesRequest) => (await import('../classical/compare.ts')).compareNodes(request),
  check: async (request: CheckRequest) => (await import('./run.ts')).checkModel(request),
  probe: async (request: ProbeRequest) => (await import('../batching/probe.ts')).probeModel(request),
  padding: async (request: PaddingRequest) => (await import('../text/probe.ts')).probePadding(request),
  golden: async (request: GoldenRun) => (await import('../golden/run.ts')).runGolden(request),
};

export type Work = keyof typeof WORK;
export type RequestOf<Kind extends Work> = Parameters<(typeof WORK)[Kind]>[0];
export type AnswerOf<Kind extends Work> = Awaited<ReturnType<(typeof WORK)[Kind]>>;

export interface ModelRequest {
  readonly work: Work;
  readonly request: RequestOf<Work>;
  /** Writes what runs to stderr, because a request like this one ended its process. */
  readonly isTraced?: boolean;
}

export type ModelAnswer = { readonly done: AnswerOf<Work> } | { readonly failed: ErrorRecord };

/** The script to start. */
export const SCRIPT = import.meta.url;

export async function answerOf({ work, request, isTraced }: ModelRequest): Promise<ModelAnswer> {
  try {
    if (isTraced) {
      const { observeRuns } = await import('../../lib/inference/session.ts');
      observeRuns(traceRun);
    }
    return { done: await WORK[work](request as never) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { failed: { code, message } };
  }
}

if (import.meta.main && process.send) {
  endWithParent();
  // Ctrl-C reaches all processes of a terminal; the parent decides what it means and ends this one.
  process.on('SIGINT', () => undefined);
  process.on(
    'message',
    (request) => void answerOf(request as ModelRequest).then((answer) => process.send?.(answer)),
  );
  process.on('disconnect', () => process.exit());
}
