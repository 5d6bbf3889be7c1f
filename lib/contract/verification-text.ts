/** A verification as lines for a person. */
import {
  ANALYSER_VERSION,
  type BatchingSetting,
  type BatchingVerdict,
  type Verification,
} from './verification.ts';

/** The lines of a verification for the owner of a job: the verdict, and each part that was switched off or not compared. */
export function verificationNotes(
  verification: Verification | undefined,
  setting: BatchingSetting = 'proven',
): readonly string[] {
  const rewrites = verification && optimizationText(verification);
  const padding = verification?.batching.padding === 'differs' ? [paddingText(verification.batching)] : [];
  return [batchingText(verification, setting), ...padding, ...(rewrites === undefined ? [] : [rewrites])];
}

function paddingText({ paddingReason }: BatchingVerdict): string {
  return `only texts of equal length share a run: ${paddingReason ?? 'padding changes the answers'}`;
}

function batchingText(verification: Verification | undefined, setting: BatchingSetting): string {
  if (setting === 'never') return 'records run one by one: batching is set to never';
  if (setting === 'always') return 'records share runs: batching is set to always, whatever the proof says';
  if (verification?.batching.analyser !== ANALYSER_VERSION) {
    return 'records run one by one: this version of the model was not verified; `model push` verifies it';
  }
  return verdictText(verification.batching);
}

function verdictText({ verdict, reason, operator, node, unconfirmed }: BatchingVerdict): string {
  if (verdict === 'proven' && reason === undefined) {
    const untried =
      unconfirmed === undefined ? '' : '; no run has tried it, because no made-up input was accepted';
    return `records share runs: the graph shows that none changes the answer of another${untried}`;
  }
  const where = operator === undefined ? '' : `${operator}${node ? ` (node "${node}")` : ''}: `;
  return `records run one by one: ${where}${reason ?? 'its rows could not be shown to be independent'}`;
}

/** Undefined when there is nothing to say. */
function optimizationText({ runtime, comparison, reason }: Verification): string | undefined {
  const { disabledOptimizers, level } = runtime;
  if (comparison === 'skipped')
    return `onnxruntime's rewrites were not compared${level === 'disabled' ? ', so the model runs without them' : ''}: ${reason ?? 'no reason is known'}`;
  const off = level === 'disabled' ? 'all of them are' : `${disabledOptimizers.join(', ')} is`;
  if (level === 'all' && disabledOptimizers.length === 0) return undefined;
  return `onnxruntime's rewrites changed the answers of this model: ${off} off`;
}

/** A note for the user. @param count of golden requests that came from the version that served before */
export function keptGoldenNotes(count: number): string[] {
  if (count === 0) return [];
  const requests = count === 1 ? '1 golden request' : `${count} golden requests`;
  return [`asked and kept ${requests} of the version that served before; --drop-golden drops them`];
}
