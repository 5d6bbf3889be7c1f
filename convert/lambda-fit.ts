/**
 * In: a model's size and the memory it took. Out: whether a Lambda function can serve it, limit by limit.
 * Trap: memory is measured in one process on this machine; what a larger batch takes comes on top.
 */

export interface LambdaFit {
  readonly fits: boolean;
  readonly limits: readonly LimitFact[];
  /** The smallest function.memoryMB that holds the model, in steps of 64. */
  readonly memoryMB: number;
  /** Default memory does. */
  readonly fitsDefault: boolean;
}

export interface LimitFact {
  readonly limit: string;
  readonly mostMB: number;
  readonly needsMB: number;
  readonly fits: boolean;
  /** False for what is only good to know. */
  readonly required: boolean;
}

const MB = 1024 * 1024;
/** Resident memory of the predict function without a model: 116 MiB (Node 24, Linux), rounded up. */
const FUNCTION_MB = 128;
/** onnxruntime and our code in a function's bundle. */
const BUNDLE_MB = 47;
const TMP_MB = 512;
const MOST_MEMORY_MB = 10_240;
const DEFAULT_MEMORY_MB = 1_769;
/** For what one run of one row does not show: requests in flight, larger batches. */
const RESERVE = 1.25;

export function lambdaFit(modelBytes: number, memoryPeakBytes: number): LambdaFit {
  const model = Math.ceil(modelBytes / MB);
  const memory = Math.ceil(FUNCTION_MB + (memoryPeakBytes / MB) * RESERVE);
  const fact = (limit: string, mostMB: number, needsMB: number, required = true): LimitFact => ({
    limit,
    mostMB,
    needsMB,
    fits: needsMB <= mostMB,
    required,
  });
  const limits = [
    fact('memory of a function', MOST_MEMORY_MB, memory),
    fact('/tmp, where the model is downloaded to', TMP_MB, model),
    fact('/tmp while a new version takes over', TMP_MB, 2 * model, false),
    fact('unzipped deployment package, if the model were inside', 250, BUNDLE_MB + model, false),
  ];
  return {
    fits: limits.every(({ fits, required }) => fits || !required),
    limits,
    memoryMB: Math.ceil(memory / 64) * 64,
    fitsDefault: memory <= DEFAULT_MEMORY_MB,
  };
}

export function lambdaText({ fits, limits, memoryMB }: LambdaFit): string {
  const exceeded = limits.filter((limit) => !limit.fits);
  const over = exceeded.map(({ limit, mostMB, needsMB }) => `${limit}: ${needsMB} of ${mostMB} MB`);
  const tail = over.length > 0 ? `; over the limit: ${over.join(', ')}` : '';
  return `${fits ? 'fits' : 'DOES NOT FIT'}, needs ${memoryMB} MB of memory as measured here${tail}`;
}
