/**
 * Completes answers of POST /predict with facts about the model: names, dtypes and classes of its outputs, and the
 * job's filter. The service is asked once for each version of the model, and once for its job, unless the client knows
 * it.
 */
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { malformed } from '../fetch.ts';

/** An output as a model declares it. */
export interface DeclaredOutput {
  readonly name: string;
  readonly dtype: string;
  /** The names of its classes. */
  readonly labels?: readonly string[];
}

export interface ModelFacts {
  readonly outputs: readonly DeclaredOutput[];
  /** `topN(2)`; undefined without a filter. */
  readonly filter: string | undefined;
  readonly isWorker: boolean;
}

/** Gets JSON from a path of the service. @throws the service's errors */
type Get = (path: string) => Promise<unknown>;

/** Fields of any JSON. */
type Fields = Readonly<Record<string, unknown>>;

/** Codes of those who may call /predict alone, and of services without the metadata. */
const UNKNOWN: readonly string[] = ['bad_config', 'unauthorized'];

export class ServedModel {
  readonly #get: Get;
  readonly #name: string | undefined;
  #job: string | undefined;
  /** The last two versions that answered: a canary answers beside the version that serves. */
  #known: readonly { readonly version: string; readonly facts: Promise<ModelFacts | undefined> }[] = [];

  /** @param name of the job; undefined to ask the service for it */
  constructor(name: string | undefined, get: Get) {
    this.#name = name;
    this.#get = get;
  }

  /**
   * Calls at the same time share a question.
   * @returns undefined when the service does not say it. @throws bad_config for a name of another job; and as `get`
   */
  of(version: string): Promise<ModelFacts | undefined> {
    const known = this.#known.find((one) => one.version === version);
    if (known) return known.facts;
    const asked = { version, facts: this.#ask(version) };
    this.#known = [...this.#known.slice(-1), asked];
    asked.facts.catch(() => {
      this.#known = this.#known.filter((one) => one !== asked);
    });
    return asked.facts;
  }

  async #ask(version: string): Promise<ModelFacts | undefined> {
    const known = this.#name ?? this.#job;
    try {
      const job = known ?? (this.#job = await servedJob(this.#get));
      if (job === undefined) return undefined;
      const path = `/v2/models/${encodeURIComponent(job)}`;
      const serving = await this.#get(path);
      if (isOf(serving, version)) return modelFacts(serving);
      // A canary, or the model has just changed: then JSON alone says the dtypes.
      const other = await this.#get(`${path}/versions/${encodeURIComponent(version)}`).catch(notFound);
      return isOf(other, version) ? modelFacts(other) : undefined;
    } catch (error) {
      const { code, message } = ServingError.from(error);
      if (UNKNOWN.includes(code)) return undefined;
      if (code !== 'not_found') throw error;
      if (this.#name) throw badConfig(`name: ${message}`, { cause: error });
      // The address has another job by now.
      this.#job = undefined;
      return known ? this.#ask(version) : undefined;
    }
  }
}

function isOf(metadata: unknown, version: string): boolean {
  const { versions }: Fields = Object(metadata);
  return Array.isArray(versions) && versions.includes(version);
}

/** @throws any other error */
function notFound(error: unknown): undefined {
  if (ServingError.from(error).code !== 'not_found') throw error;
}

/** The output with the names of its classes, if it has as many values as there are. */
export function labelled(output: NamedTensor, declared: DeclaredOutput | undefined): NamedTensor {
  const { labels } = declared ?? {};
  return labels && output.shape.at(-1) === labels.length ? { ...output, labels } : output;
}

/** The job that a service serves; undefined where it does not say it. @throws as `get` */
export async function servedJob(get: Get): Promise<string | undefined> {
  const { model_stats: models }: Fields = Object(await get('/v2/models/stats'));
  const { name }: Fields = Object(Array.isArray(models) && models[0]);
  return typeof name === 'string' ? name : undefined;
}

/** @throws internal */
function modelFacts(metadata: unknown): ModelFacts {
  const { outputs, parameters, platform }: Fields = Object(metadata);
  if (!Array.isArray(outputs)) throw malformed('the metadata has no outputs');
  // It is only shown.
  const { post_processing: filter }: { readonly post_processing?: string } = Object(parameters);
  return {
    outputs: outputs.map((output: unknown) => {
      const { name, datatype, parameters: own }: Fields = Object(output);
      const { names }: Fields = Object(own);
      const labels = Array.isArray(names) && { labels: names.map(String) };
      // A datatype that is unknown is refused where its elements are read.
      return { name: String(name), dtype: dtypeIn(String(datatype)), ...labels };
    }),
    filter,
    isWorker: platform === 'worker',
  };
}

/** The datatypes of /v2 are FP16, FP32, FP64, BYTES, and otherwise the names in capital letters. */
function dtypeIn(datatype: string): string {
  return datatype.replace('FP', 'float').replace('BYTES', 'string').toLowerCase();
}
