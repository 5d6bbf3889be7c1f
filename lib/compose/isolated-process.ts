/**
 * The process that runs a model in isolation: it opens the model, then runs records. A run that never ends cannot
 * notice that its parent has gone, so a separate thread watches for that.
 */
import { ServingError } from '../contract/errors.ts';
import type { Outcome } from '../contract/values.ts';
import { endWithParent } from '../inference/end-with-parent.ts';
import type {
  IsolatedModel,
  IsolatedReply,
  IsolatedRequest,
  SentOutcome,
} from '../inference/isolated-runner.ts';
import { pack, unpackRecords } from '../inference/packed.ts';
import { type OnnxRunner, openOnnx } from './onnx.ts';

endWithParent();

const runners = new Map<string | undefined, Promise<OnnxRunner>>();

function open({ file, version, settings }: IsolatedModel, key: string | undefined): void {
  // A process that was left while it started had another model.
  close(key);
  const runner = openOnnx(file, version, settings);
  runners.set(key, runner);
  // Reported to the first run.
  runner.catch(() => undefined);
}

function close(key: string | undefined): void {
  const closing = runners.get(key)?.then((runner) => runner.close());
  runners.delete(key);
  closing?.catch(() => undefined);
}

/** True once the time of the run is over. onnxruntime lets the event loop turn between two runs. */
let isOver = false;

async function answer(
  request: Exclude<IsolatedRequest, { open: unknown } | { close: string } | { stop: true }>,
): Promise<IsolatedReply> {
  isOver = false;
  try {
    const runner = runners.get(request.key);
    if (!runner) throw new ServingError('internal', 'no model was opened');
    const opened = await runner;
    if ('run' in request) {
      const policy = { ...request.policy, isOver: () => isOver };
      const isOwnForm = policy.exactSignature || policy.isRow;
      const sentBlock = 'columns' in request.run && !isOwnForm ? request.run : undefined;
      const made = sentBlock && (await opened.runBlock?.(sentBlock));
      if (made) return { outputs: made };
      const outcomes = await opened.run(unpackRecords(request.run, request.bindings), policy);
      const outputs = pack(outcomes.map((outcome) => (outcome.ok ? outcome.outputs : [])));
      if (!outputs || !outcomes.every(({ ok }) => ok)) return { outcomes: outcomes.map(sent) };
      return { outputs, places: outcomes.map((outcome) => (outcome.ok ? outcome.place : undefined)) };
    }
    const { inputs, outputs, separable, names, image } = opened;
    return { facts: { inputs, outputs, separable, names, image } };
  } catch (error) {
    return { failed: recordOf(ServingError.from(error)) };
  }
}

/** Labels stay here: the parent has them. */
function sent(outcome: Outcome): SentOutcome {
  if (!outcome.ok) return { ok: false, error: recordOf(outcome.error) };
  const outputs = outcome.outputs.map((output) => {
    const { labels: _, ...unlabelled } = output;
    return unlabelled;
  });
  return { ...outcome, outputs };
}

/** Keeps the full message even of an internal error: it stays within the function, which logs it. */
function recordOf({ code, message }: ServingError) {
  return { code, message };
}

process.on('message', (question: IsolatedRequest) => {
  if ('open' in question) open(question.open, question.key);
  else if ('close' in question) close(question.close);
  else if ('stop' in question) isOver = true;
  else void answer(question).then((reply) => process.send?.(reply));
});
process.on('disconnect', () => process.exit());
