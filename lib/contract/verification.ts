/**
 * The facts about a version of a model that must be known before it serves: whether records may share a run, and which of
 * onnxruntime's rewrites change its answers. Made and explained by onnx-import/verify, stored with the version, and obeyed
 * wherever the model is opened.
 */

/** Version of the rules behind a batching verdict. A verdict of another version is not used. */
export const ANALYSER_VERSION = 3;

const LEVELS = ['all', 'extended', 'basic', 'disabled'] as const;

/** How onnxruntime may rewrite a model when it opens it. */
export interface Optimization {
  readonly level: (typeof LEVELS)[number];
  /** Names of rewrites that stay off, besides those that are off for every model. */
  readonly disabledOptimizers: readonly string[];
}

export const ALL_REWRITES: Optimization = { level: 'all', disabledOptimizers: [] };
/** Without any rewrite. Sums of int8 are exact all the same. */
export const AS_WRITTEN: Optimization = { level: 'disabled', disabledOptimizers: [] };

/** By name: the axis of the rows, or `none` for an input that all rows of a run share. 0 for names that are missing. */
export type BatchAxes = Readonly<Record<string, number | 'none'>>;

export interface BatchingVerdict {
  readonly verdict: 'proven' | 'not proven';
  /** Why records run alone, as a part of a sentence about the operator; undefined where they share runs. */
  readonly reason?: string | undefined;
  /** The operator at which the proof ended; undefined when a run ended it. */
  readonly operator?: string | undefined;
  /** Why no run stands behind the proof; undefined where runs do, or there is none. */
  readonly unconfirmed?: string | undefined;
  /** Name of its node; may be empty. */
  readonly node?: string | undefined;
  /** The inputs' axes that it was proven for; undefined when all are 0. */
  readonly inputAxes?: BatchAxes | undefined;
  /** The axis of each output's rows; undefined when all are 0. */
  readonly outputAxes?: BatchAxes | undefined;
  /**
   * For a model of texts: whether a padded text gets the same answer as alone. Only then do texts of different lengths
   * share a run.
   */
  readonly padding?: 'agrees' | 'differs' | undefined;
  /** Why it differs, for a person. */
  readonly paddingReason?: string | undefined;
  /** The version of the rules, see ANALYSER_VERSION. */
  readonly analyser: number;
}

export interface Verification {
  readonly batching: BatchingVerdict;
  readonly runtime: Runtime & Optimization;
  /** The comparison of the optimized model's answers with the unoptimized model's, or why there is none. */
  readonly comparison: 'agrees' | 'skipped';
  readonly reason?: string | undefined;
  /**
   * The inputs and outputs that the file declares with rank 0. An empty shape that is not listed has an undeclared rank;
   * undefined if the file was not read.
   */
  readonly scalars?: readonly string[] | undefined;
}

/** The conditions under which a comparison of sessions holds. */
export interface Runtime {
  /** Version of onnxruntime. */
  readonly onnxruntime: string;
  /** As in `process.arch`. */
  readonly architecture: string;
  /**
   * The processor features that choose the kernels for quantized numbers, as Linux names them. Undefined where nothing
   * names them.
   */
  readonly features?: readonly string[] | undefined;
  /** True: it holds for all features of the architecture, because every kernel gives the same. Default false. */
  readonly anyFeatures?: boolean | undefined;
}

/**
 * The rewrites of nodes that quantize, or compute with quantized numbers. What they make of a node runs in a kernel that
 * depends on the processor; without them the numbers are float32, or the model's own integers.
 */
const OF_QUANTIZED: readonly string[] = [
  'DoubleQDQPairsRemover',
  'QDQPropagationTransformer',
  'WeightBiasQuantization',
  'EnsureUniqueDQForNodeUnit',
  'ClipQuantRewrite',
  'ReluQuantRewrite',
  'QDQS8ToU8Transformer',
  'QDQSelectorActionTransformer',
  'MatMulIntegerToFloatFusion',
  'DynamicQuantizeMatMulFusion',
  'MatMulNBitsFusion',
  'QDQFinalCleanupTransformer',
  'NhwcTransformer',
];

export type BatchingSetting = 'proven' | 'always' | 'never';

/** The batch settings of a job. */
export interface BatchingChoice {
  /** Default proven: as the verification says. Always and never are the owner's word. */
  readonly batching?: BatchingSetting | undefined;
  /** Default: 0 for each input. */
  readonly batchAxes?: BatchAxes | undefined;
}

/** As it was stored. */
export type Unknown<T> = { readonly [Key in keyof T]?: unknown };

/** A stored verification; undefined when it is damaged or of a release that wrote another form. */
export function readVerification(value: unknown): Verification | undefined {
  return isVerification(value) ? value : undefined;
}

function isVerification(value: unknown): value is Verification {
  const { batching, runtime, comparison, reason, scalars = [] }: Unknown<Verification> = Object(value);
  const isCompared = comparison === 'agrees' || comparison === 'skipped';
  const areNames = Array.isArray(scalars) && scalars.every((name) => typeof name === 'string');
  return isCompared && areNames && isOptionalText(reason) && isVerdict(batching) && isRuntime(runtime);
}

function isVerdict(value: unknown): value is BatchingVerdict {
  const read: Unknown<BatchingVerdict> = Object(value);
  const { verdict, reason, operator, node, inputAxes, outputAxes, padding, paddingReason, analyser } = read;
  const texts = [reason, operator, node, paddingReason, read.unconfirmed];
  return (
    (verdict === 'proven' || verdict === 'not proven') &&
    texts.every(isOptionalText) &&
    (padding === undefined || padding === 'agrees' || padding === 'differs') &&
    [inputAxes, outputAxes].every((axes) => axes === undefined || isBatchAxes(axes)) &&
    typeof analyser === 'number'
  );
}

function isBatchAxes(value: unknown): value is BatchAxes {
  if (typeof value !== 'object' || value === null) return false;
  return Object.values(value).every((axis) => axis === 'none' || (Number.isInteger(axis) && axis >= 0));
}

function isRuntime(value: unknown): value is Verification['runtime'] {
  const read: Unknown<Verification['runtime']> = Object(value);
  const { onnxruntime, architecture, features = [], anyFeatures = false, level, disabledOptimizers } = read;
  return (
    typeof onnxruntime === 'string' &&
    typeof architecture === 'string' &&
    typeof anyFeatures === 'boolean' &&
    LEVELS.some((one) => one === level) &&
    // A separator in a name would switch off something else.
    [features, disabledOptimizers].every((names) => Array.isArray(names) && names.every(isName))
  );
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && /^\w{1,80}$/.test(value);
}

function isOptionalText(value: unknown): boolean {
  return value === undefined || typeof value === 'string';
}

/**
 * True if its verdict counts. It does not under other rules, with another onnxruntime, or for other batch axes. The
 * processor may differ, because the proof is about the graph.
 */
export function isVerdictCurrent(
  verification: Verification | undefined,
  { onnxruntime }: Pick<Runtime, 'onnxruntime'>,
  { batchAxes }: BatchingChoice = {},
): verification is Verification {
  const { batching, runtime } = verification ?? {};
  const isOfRelease = batching?.analyser === ANALYSER_VERSION && runtime?.onnxruntime === onnxruntime;
  return isOfRelease && hasInputAxes(verification, batchAxes);
}

/** True if it was made for these axes. All rows share a scalar, even if a job does not say so. */
function hasInputAxes(verification: Verification | undefined, batchAxes: BatchAxes | undefined): boolean {
  const { batching, scalars } = verification ?? {};
  return axesText(batching?.inputAxes, scalars) === axesText(batchAxes, scalars);
}

function axesText(axes: BatchAxes = {}, scalars: readonly string[] = []): string {
  const isImplied = (name: string, axis: number | 'none') =>
    axis === 0 || (axis === 'none' && scalars.includes(name));
  const others = Object.entries(axes).filter(([name, axis]) => !isImplied(name, axis));
  return JSON.stringify(others.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** True if it need not be made again on this machine. */
export function isCurrent(
  verification: Verification | undefined,
  here: Runtime,
  choice?: BatchingChoice,
): verification is Verification {
  return isVerdictCurrent(verification, here, choice) && isComparedFor(verification.runtime, here);
}

function isComparedFor(there: Runtime, here: Runtime): boolean {
  const { onnxruntime, architecture, features, anyFeatures } = there;
  const hasFeatures = anyFeatures === true || features?.join() === here.features?.join();
  return onnxruntime === here.onnxruntime && architecture === here.architecture && hasFeatures;
}

/**
 * How a model is opened on this machine. Where the rewrites were compared under other kernels, those of quantized nodes are
 * off too. The others do the same under every kernel.
 * @returns undefined for an unverified model
 */
export function optimizationFor(
  verification: Verification | undefined,
  here: Runtime,
): (Optimization & { readonly isElsewhere: boolean }) | undefined {
  if (!verification) return undefined;
  const { level, disabledOptimizers } = verification.runtime;
  if (isComparedFor(verification.runtime, here)) return { level, disabledOptimizers, isElsewhere: false };
  const off = new Set([...disabledOptimizers, ...OF_QUANTIZED]);
  return { level, disabledOptimizers: [...off], isElsewhere: true };
}

/**
 * The axis of an output's rows according to the verification, of any release; undefined if it does not say.
 * @param isOneRow the file fixes a run to one row
 */
export function storedOutputAxis(
  name: string,
  { verification, batchAxes }: { readonly verification?: Verification | undefined } & BatchingChoice,
  isOneRow: boolean,
): number | 'none' | undefined {
  const { outputAxes, verdict } = verification?.batching ?? {};
  if (!hasInputAxes(verification, batchAxes)) return undefined;
  if (outputAxes) return Object.hasOwn(outputAxes, name) ? outputAxes[name] : undefined;
  return verdict === 'proven' && !isOneRow ? 0 : undefined;
}

export function mayShareRuns(
  verification: Verification | undefined,
  here: Pick<Runtime, 'onnxruntime'>,
  choice: BatchingChoice = {},
): boolean {
  const { batching = 'proven' } = choice;
  if (batching !== 'proven') return batching === 'always';
  return isVerdictCurrent(verification, here, choice) && verification.batching.verdict === 'proven';
}
