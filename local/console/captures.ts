/** Reads for a console how many captures were lost, and the report of the last replay. */
import type { Part } from '../../console/api.ts';
import type { CaptureFacts, ReplayFacts } from '../../console/captures.ts';
import type { CaptureReader } from '../../lib/s3/capture-reader.ts';

const NOTHING = 'Nothing is captured: `capture.share` in config.yaml.';
const NO_REPLAY =
  '`cluster-serving model replay` asks a model what was captured, and its report is shown here.';
const OTHER =
  'The last replay was written by another release: `cluster-serving model replay` makes a new one.';

export async function captureFacts(
  captures: Pick<CaptureReader, 'lastReport'>,
  lost: number,
  isCapturing: boolean,
): Promise<Part<CaptureFacts>> {
  const text = await captures.lastReport();
  if (text === undefined && lost === 0 && !isCapturing) return { unavailable: NOTHING };
  return { lost, replay: text === undefined ? { unavailable: NO_REPLAY } : replayOf(text) };
}

function replayOf(text: string): Part<ReplayFacts> {
  try {
    const { form, at, model, compared, flips, problems, outputs, worst }: ReplayFacts = JSON.parse(text);
    if (form === 1) return { form, at, model, compared, flips, problems, outputs, worst };
  } catch {
    // Somebody else wrote it.
  }
  return { unavailable: OTHER };
}
