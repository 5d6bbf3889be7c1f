/**
 * The base class of workers around an ONNX file: it opens the file and runs it, and leaves what comes before and after to
 * its subclasses. onnxruntime-node is loaded when a model is opened, because workers of other kinds do without it.
 */
import { join } from 'node:path';
import { isTensorLike } from '../codecs/values/tensor-like.ts';
import type { Tensor } from '../contract/tensor.ts';
import type { NamedTensor } from '../contract/values.ts';
import type { Session } from '../inference/session.ts';
import { stack, WKRHardWorker } from './hard-worker.ts';
import { rowsOf } from './rows.ts';

/**
 * The argument of `predict`: `run` takes tensors in the order of `inputs`, and returns some in the order of `outputs`.
 */
export type OnnxModel = Session;

export class WKROnnxWorker<Envs = unknown> extends WKRHardWorker<Envs, OnnxModel> {
  /** Threads of one run in one process; 0 is one for each core. */
  threads = 1;

  /** Opens `modelDir/modelName`. */
  async getModel(_envs: Envs, modelDir: string, modelName: string): Promise<OnnxModel> {
    if (modelName === '') throw new TypeError('the name of the ONNX file is missing (worker.modelName)');
    if (this.deviceId >= 0) {
      throw new RangeError(
        'WKROnnxWorker in TypeScript runs on the CPU, device -1; that in Python on a GPU too',
      );
    }
    const { openSession } = await import('../inference/session.ts').catch((error: unknown) => {
      throw isMissing(error) ? new Error(MISSING, { cause: error }) : error;
    });
    return openSession(join(modelDir, modelName), { threads: this.threads });
  }

  /**
   * Runs the model once.
   * @param input a tensor, or a list of tensors, which are stacked; for several inputs, tensors by name
   * @returns the output; of several, for each row a dict by name
   */
  async predict(model: OnnxModel, input: unknown): Promise<unknown> {
    const outputs = await model.run(feedsOf(model, input));
    return outputs.length === 1 ? outputs[0] : byRow(outputs);
  }

  override offModel(model: OnnxModel): Promise<void> {
    return model.close();
  }
}

/** Its install script downloads GPU libraries, which nothing here uses. */
const MISSING = 'WKROnnxWorker needs onnxruntime-node: npm install --ignore-scripts onnxruntime-node';

function isMissing(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return code.endsWith('MODULE_NOT_FOUND') && message.includes("'onnxruntime-node'");
}

function feedsOf({ inputs }: OnnxModel, input: unknown): Tensor[] {
  const names = inputs.map(({ name }) => name);
  const given: unknown = Array.isArray(input) ? stack(input) : input;
  const isTensor = isTensorLike(given);
  if (isTensor && names.length === 1) return [given];
  const byName = new Map(isTensor ? [] : Object.entries(Object(given) as object));
  const feeds = names.map((name): unknown => byName.get(name));
  if (byName.size === names.length && feeds.every(isTensorLike)) return feeds;
  const found = isTensor ? 'one tensor' : `[${[...byName.keys()].slice(0, 10).join(', ')}]`;
  throw new TypeError(`predict takes a tensor for each input [${names.join(', ')}], not ${found}`);
}

function byRow(outputs: readonly NamedTensor[]): Readonly<Record<string, unknown>>[] {
  const columns = outputs.map((output) => [output.name, rowsOf(output) ?? []] as const);
  const lengths = columns.map(([, rows]) => rows.length);
  if (new Set(lengths).size > 1) throw new RangeError(`the outputs have ${lengths.join(', ')} rows`);
  return Array.from({ length: lengths[0] ?? 0 }, (_, i) =>
    Object.fromEntries(columns.map(([name, rows]) => [name, rows[i]])),
  );
}
