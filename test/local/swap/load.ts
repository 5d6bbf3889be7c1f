/**
 * Keeps requests in flight to a stack whose model adds (models.ts), and returns all outcomes. A failed request is
 * recorded, not thrown, so that the others continue and the test can count the failures.
 */
import type { Stack } from '../../../local/service/stack.ts';
import { InputQueue } from '../../../sdk/input-queue.ts';
import { OutputQueue } from '../../../sdk/output-queue.ts';
import { clientOptions } from '../../support/stack.ts';
import { numberOf } from './models.ts';

const INSTANCES = 3;
const X_LIMIT = 1_000;

export interface Answer {
  readonly endpoint: 'predict' | 'queue';
  /** Of the model, by the answer's numbers: one for each instance. */
  readonly numbers: readonly number[];
  /** Version of the model, where the answer tells it. */
  readonly model?: string;
}

export interface Load {
  readonly answers: Answer[];
  readonly failures: string[];
  /** Most requests that were under way at once. */
  mostInFlight: number;
  /** No new ones; resolves when all have their answer. */
  stop(): Promise<void>;
}

/** Keeps so many requests of each endpoint in flight until it is stopped. */
export function startLoad(
  stack: Stack,
  inFlight: { readonly predict: number; readonly queue: number },
): Load {
  const { input, output } = clientOptions(stack);
  const inputQueue = new InputQueue({ ...input, name: stack.job });
  const outputQueue = new OutputQueue({ ...output, name: stack.job });
  const state = { going: true };
  let sent = 0;
  let now = 0;
  const predict = async (): Promise<Answer> => {
    const first = (sent++ * INSTANCES) % X_LIMIT;
    const xs = Array.from({ length: INSTANCES }, (_, i) => first + i);
    const response = await fetch(`${stack.url}/predict`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ instances: xs.map((x) => ({ x: [x] })) }),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    const { predictions } = JSON.parse(text) as { predictions: string[] };
    if (predictions.length !== xs.length) throw new Error(`${predictions.length} answers for ${xs.length}`);
    return { endpoint: 'predict', numbers: xs.map((x, i) => numberOf(x, valueOf(predictions[i] as string))) };
  };
  const queue = async (): Promise<Answer> => {
    const uri = `swap-${sent++}`;
    const x = sent % X_LIMIT;
    await inputQueue.enqueue(uri, { x: Float32Array.of(x) });
    const { outputs, model } = await outputQueue.wait(uri, { timeoutMs: 600_000 });
    return { endpoint: 'queue', numbers: [numberOf(x, Number(outputs[0]?.data[0]))], model };
  };
  const worker = async (ask: () => Promise<Answer>) => {
    while (state.going) {
      now++;
      load.mostInFlight = Math.max(load.mostInFlight, now);
      try {
        load.answers.push(await ask());
      } catch (error) {
        load.failures.push(String(error));
        // Failures come fast: without a pause they would fill the memory.
        await new Promise((resolve) => setTimeout(resolve, 100));
      } finally {
        now--;
      }
    }
  };
  const workers: Promise<void>[] = [];
  const load: Load = {
    answers: [],
    failures: [],
    mostInFlight: 0,
    async stop() {
      state.going = false;
      await Promise.all(workers);
      await inputQueue.close();
      await outputQueue.close();
    },
  };
  for (let i = 0; i < inFlight.predict; i++) workers.push(worker(predict));
  for (let i = 0; i < inFlight.queue; i++) workers.push(worker(queue));
  return load;
}

/** `{value=...}`: the number in it, whatever brackets are around. */
function valueOf(prediction: string): number {
  return Number(/-?\d+(?:\.\d+)?/.exec(prediction)?.[0] ?? Number.NaN);
}
