/**
 * The process that runs a model in isolation: it opens the model, then runs records. A run that never ends cannot
 * notice that its parent has gone, so a separate thread watches for that.
 */
import { ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome } from '../contract/values.ts';
import { endWithParent } from '../inference/end-with-parent.ts';
import type {
  IsolatedModel,
  IsolatedReply,
  IsolatedRequest,
  SentOutcome,
} from '../inference/isolated-runner.ts';
import { type OnnxRunner, openOnnx } from './onnx.ts';

endWithParent();

let runner: Promise<OnnxRunner> | undefined;

function open({ file, version, settings }: IsolatedModel): void {
  runner = openOnnx(file, version, settings);
  // Reported to the first run.
  runner.catch(() => undefined);
}

async function run(records: readonly Inputs[]): Promise<IsolatedReply> {
  try {
    if (!runner) throw new ServingError('internal', 'no model was opened');
    return { outcomes: (await (await runner).run(records)).map(sent) };
  } catch (error) {
    return { failed: recordOf(ServingError.from(error)) };
  }
}

function sent(outcome: Outcome): SentOutcome {
  return outcome.ok ? { ok: true, outputs: outcome.outputs } : { ok: false, error: recordOf(outcome.error) };
}

/** Keeps the full message even of an internal error: it stays within the function, which logs it. */
function recordOf({ code, message }: ServingError) {
  return { code, message };
}

process.on('message', (question: IsolatedRequest) => {
  if ('open' in question) open(question.open);
  else void run(question.run).then((answer) => process.send?.(answer));
});
process.on('disconnect', () => process.exit());
