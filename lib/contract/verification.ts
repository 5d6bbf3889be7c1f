/**
 * What was found out about a version of a model before it may serve: whether records may share a run, and which of
 * onnxruntime's rewrites change its answers. Made by convert/verify, stored with the version, and obeyed wherever the
 * model is opened.
 */

/** Version of the rules behind a batching verdict. A verdict of another version is not used. */
export const ANALYSER_VERSION = 1;

export const OPTIMIZATION_LEVELS = ['all', 'extended', 'basic', 'disabled'] as const;
export type OptimizationLevel = (typeof OPTIMIZATION_LEVELS)[number];

/** How onnxruntime may rewrite a model when it opens it. */
export interface Optimization {
  readonly level: OptimizationLevel;
  /** Names of rewrites that stay off, besides those that are off for every model. */
  readonly disabledOptimizers: readonly string[];
}

export interface BatchingVerdict {
  readonly verdict: 'proven' | 'not proven';
  /** Why not; undefined when proven. */
  readonly reason?: string | undefined;
  /** The operator at which the proof ended; undefined when a run ended it. */
  readonly operator?: string | undefined;
  /** Name of its node; may be empty. */
  readonly node?: string | undefined;
  /** The version of the rules, see ANALYSER_VERSION. */
  readonly analyser: number;
}

export interface Verification {
  readonly batching: BatchingVerdict;
  readonly runtime: Runtime & Optimization;
  /** Whether the optimized model answers as the unoptimized one does, and why that is not known. */
  readonly comparison: 'agrees' | 'skipped';
  readonly reason?: string | undefined;
}

/** What a comparison of sessions holds for. */
export interface Runtime {
  /** Version of onnxruntime. */
  readonly onnxruntime: string;
  /** As in `process.arch`. */
  readonly architecture: string;
}

type Unknown<T> = { readonly [Key in keyof T]?: unknown };

/** A stored verification; undefined when it is damaged or of a release that wrote another form. */
export function readVerification(value: unknown): Verification | undefined {
  const { batching, runtime, comparison, reason } = (value ?? {}) as Unknown<Verification>;
  const verdict = readVerdict(batching);
  const rewrites = readRuntime(runtime);
  if (!verdict || !rewrites || (comparison !== 'agrees' && comparison !== 'skipped')) return undefined;
  return { batching: verdict, runtime: rewrites, comparison, ...texts({ reason }) };
}

function readVerdict(value: unknown): BatchingVerdict | undefined {
  const { verdict, reason, operator, node, analyser } = (value ?? {}) as Unknown<BatchingVerdict>;
  if (verdict !== 'proven' && verdict !== 'not proven') return undefined;
  if (typeof analyser !== 'number') return undefined;
  return { verdict, ...texts({ reason, operator, node }), analyser };
}

function readRuntime(value: unknown): Verification['runtime'] | undefined {
  const read = (value ?? {}) as Unknown<Verification['runtime']>;
  const { onnxruntime, architecture, disabledOptimizers } = read;
  const level = OPTIMIZATION_LEVELS.find((one) => one === read.level);
  if (typeof onnxruntime !== 'string' || typeof architecture !== 'string' || !level) return undefined;
  if (!Array.isArray(disabledOptimizers)) return undefined;
  // A separator in a name would switch off something else.
  const names = disabledOptimizers.filter((name) => typeof name === 'string' && /^\w{1,80}$/.test(name));
  if (names.length !== disabledOptimizers.length) return undefined;
  return { onnxruntime, architecture, level, disabledOptimizers: names as string[] };
}

/** Only those that are texts. */
function texts<Key extends string>(values: Readonly<Record<Key, unknown>>): { [K in Key]?: string } {
  const known = Object.entries(values).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(known) as { [K in Key]?: string };
}

export type BatchingSetting = 'proven' | 'always' | 'never';

/**
 * Whether its verdict counts: one of other rules, or behind runs of another onnxruntime, is as good as none. The
 * processor may be another one, because the proof is about the graph.
 */
function holds(
  verification: Verification | undefined,
  { onnxruntime }: Pick<Runtime, 'onnxruntime'>,
): verification is Verification {
  const { batching, runtime } = verification ?? {};
  return batching?.analyser === ANALYSER_VERSION && runtime?.onnxruntime === onnxruntime;
}

/** Whether it need not be made again. */
export function isCurrent(
  verification: Verification | undefined,
  here: Runtime,
): verification is Verification {
  return holds(verification, here) && verification.runtime.architecture === here.architecture;
}

/** @param setting always and never are the owner's word */
export function mayShareRuns(
  verification: Verification | undefined,
  here: Pick<Runtime, 'onnxruntime'>,
  setting: BatchingSetting = 'proven',
): boolean {
  if (setting !== 'proven') return setting === 'always';
  return holds(verification, here) && verification.batching.verdict === 'proven';
}

/** Whether records run one by one only because nothing is known. */
export function needsVerification(
  verification: Verification | undefined,
  here: Pick<Runtime, 'onnxruntime'>,
  setting: BatchingSetting,
): boolean {
  return setting === 'proven' && !holds(verification, here);
}

/** The verdict as one line for a person, with what the owner of the job set. */
export function batchingText(
  verification: Verification | undefined,
  setting: BatchingSetting = 'proven',
): string {
  if (setting === 'never') return 'records run one by one: batching is set to never';
  if (setting === 'always') return 'records share runs: batching is set to always, whatever the proof says';
  if (verification?.batching.analyser !== ANALYSER_VERSION) {
    return 'records run one by one: this version of the model was not verified; `model push` verifies it';
  }
  return verdictText(verification.batching);
}

export function verdictText({ verdict, reason, operator, node }: BatchingVerdict): string {
  if (verdict === 'proven') return 'records share runs: proven on the graph';
  const where = operator === undefined ? '' : `${operator}${node ? ` (node "${node}")` : ''}: `;
  return `records run one by one: ${where}${reason ?? 'its rows could not be shown to be independent'}`;
}

/** What the owner of a job should read of a verification. */
export function verificationNotes(
  verification: Verification | undefined,
  setting?: BatchingSetting,
): readonly string[] {
  const rewrites = verification && optimizationText(verification);
  return [batchingText(verification, setting), ...(rewrites === undefined ? [] : [rewrites])];
}

/** What was switched off, or was not compared, as one line for a person; undefined when there is nothing to say. */
export function optimizationText({ runtime, comparison, reason }: Verification): string | undefined {
  const { disabledOptimizers, level } = runtime;
  if (comparison === 'skipped')
    return `onnxruntime's rewrites were not compared: ${reason ?? 'no reason is known'}`;
  const parts = [
    ...(disabledOptimizers.length > 0 ? [`${disabledOptimizers.join(', ')} off`] : []),
    ...(level === 'all' ? [] : [`level ${level}`]),
  ];
  return parts.length === 0
    ? undefined
    : `onnxruntime changed the answers of this model: ${parts.join(', ')}`;
}
