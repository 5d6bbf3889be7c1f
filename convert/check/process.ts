/**
 * The separate process in which models are tried: a request over the channel, an answer, the next request.
 * onnxruntime blocks its thread, so a model with an endless loop freezes its process, and a broken one may end it. In the
 * installed package this file is part of a chunk, so it exports its own URL.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { endWithParent } from '../../lib/inference/end-with-parent.ts';
import type { ProbeReport, ProbeRequest } from '../batching/probe.ts';
import type { GoldenAnswer, GoldenRun } from '../golden/run.ts';
import type { PaddingReport } from '../text/probe.ts';
import type { RewritesReport, RewritesRequest } from '../verify/rewrites.ts';
import type { CheckReport, CheckRequest } from './run.ts';

/** What is undefined is not done. */
interface VerifyRequest {
  /** The file of a model of texts. */
  readonly padding: string | undefined;
  readonly probe: ProbeRequest | undefined;
  readonly rewrites: RewritesRequest | undefined;
}

export type ModelRequest =
  | { readonly check: CheckRequest }
  | { readonly verify: VerifyRequest }
  | { readonly golden: GoldenRun };
export type ModelAnswer =
  | { readonly report: CheckReport }
  | {
      readonly verified: {
        readonly probe: ProbeReport | undefined;
        readonly rewrites: RewritesReport | undefined;
        readonly padding: PaddingReport | undefined;
      };
    }
  | { readonly golden: GoldenAnswer }
  | { readonly failed: ErrorRecord };

/** The script to start. */
export const SCRIPT = import.meta.url;

export async function answerOf(request: ModelRequest): Promise<ModelAnswer> {
  try {
    // Loaded on demand, because the parent process needs no onnxruntime.
    if ('verify' in request) return { verified: await verified(request.verify) };
    if ('golden' in request) {
      const { runGolden } = await import('../golden/run.ts');
      return { golden: await runGolden(request.golden) };
    }
    const { checkModel } = await import('./run.ts');
    return { report: await checkModel(request.check) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { failed: { code, message } };
  }
}

async function verified({ probe, rewrites, padding }: VerifyRequest) {
  const [{ probeModel }, { probePadding }, { compareRewrites }] = await Promise.all([
    import('../batching/probe.ts'),
    import('../text/probe.ts'),
    import('../verify/rewrites.ts'),
  ]);
  return {
    probe: probe && (await probeModel(probe)),
    rewrites: rewrites && (await compareRewrites(rewrites)),
    padding: padding === undefined ? undefined : await probePadding(padding),
  };
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
