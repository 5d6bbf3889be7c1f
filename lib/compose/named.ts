/**
 * Composes the further models of a job. Loaded at the first request that names one: a job without them has neither this code nor a
 * call of S3 for it.
 */
import { modelsBudget } from '../config/job.ts';
import { isCapturing } from '../contract/capture.ts';
import type { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import { namedModelsPrefix } from '../contract/names.ts';
import { ModelShelf } from '../inference/model-shelf.ts';
import { Inferences } from '../observe/inferences.ts';
import {
  type ListedModel,
  type NamedModel,
  type NamedModels,
  unknownModel,
} from '../pipeline/named-models.ts';
import { memoryOf } from '../registry/memory.ts';
import { listModelNames, ModelNames } from '../registry/model-names.ts';
import { NamedFolders } from '../registry/named-folders.ts';
import { captureSlot } from './capture-slot.ts';
import { onnxSettings, openModel, versionsOf } from './model.ts';
import { namedObservers } from './observers.ts';
import type { OnnxRunner } from './onnx.ts';
import { modelLocation, s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

/** The further models of this environment, none of which is open yet. */
export function namedModels(scope: Scope): Shelved {
  return new Shelved(scope);
}

class Shelved implements NamedModels {
  readonly #scope: Scope;
  readonly #names: ModelNames;
  readonly #shelf: ModelShelf<OnnxRunner>;
  readonly #found = new Map<string, NamedModel>();

  constructor(scope: Scope) {
    this.#scope = scope;
    const { job, bucket } = scope.environment;
    const location = { bucket, prefix: namedModelsPrefix(job.jobName) };
    this.#shelf = shelfOf(scope);
    this.#names = new ModelNames(() => listModelNames(scope.get(s3Client), location), {
      refreshMs: job.modelRefreshSeconds * 1000,
      now: Date.now,
      onList: (names) => this.#keep(names),
    });
  }

  async find(name: string, since?: number): Promise<NamedModel> {
    if (!(await this.#names.has(name, since))) {
      const { jobName } = this.#scope.environment.job;
      throw unknownModel(name, jobName, [...(await this.#names.known())]);
    }
    const known = this.#found.get(name);
    if (known) return known;
    const statistics = new Inferences(Date.now);
    const { capture } = this.#scope.environment.job;
    const captures = isCapturing(capture) ? [this.#scope.get(captureSlot).ofModel(name)] : [];
    const further = () => ({ name, among: this.#names.size });
    const observers = namedObservers(this.#scope, [statistics, ...captures], further);
    const found = { model: this.#shelf.model(name), observers, statistics };
    this.#found.set(name, found);
    return found;
  }

  async list(): Promise<readonly ListedModel[]> {
    const names = [...(await this.#names.known())].sort();
    return names.map((name) => {
      const { version } = this.#shelf.model(name);
      return { name, version, error: this.#shelf.failureOf(name) };
    });
  }

  close(): Promise<void> {
    return this.#shelf.close();
  }

  #keep(names: ReadonlySet<string>): void {
    for (const name of this.#found.keys()) if (!names.has(name)) this.#found.delete(name);
    this.#shelf.keep(names);
  }
}

function shelfOf(scope: Scope): ModelShelf<OnnxRunner> {
  const { job, modelDirectory } = scope.environment;
  const { canaries, onChange: _, ...versions } = versionsOf(scope);
  // Beside the folder of the job's own model, which removes what it does not know.
  const folders = new NamedFolders(`${modelDirectory}.named`, { isUsed: (name) => shelf.holds(name) });
  const copies = scope.own.openNamed ? job.processes : 1;
  const shelf = new ModelShelf<OnnxRunner>({
    budgetBytes: modelsBudget(job),
    pinned: job.models.pinned,
    now: versions.now,
    manager: (name, makeRoom) => {
      const { openNamed } = scope.own;
      const observers = namedObservers(scope, []);
      return openModel({
        ...versions,
        canaries: canaries?.ofModel(name),
        location: modelLocation(scope, name),
        directory: folders.of(name),
        settings: scope.get(onnxSettings),
        onError: (error: ServingError) => logError(error, { phase: 'model', model: name }),
        makeRoom: async (version, signal, isServing) => {
          const leaveRoom = await makeRoom(memoryOf(version) * copies, signal, isServing);
          try {
            await folders.makeRoom(name, version);
            return leaveRoom;
          } catch (error) {
            leaveRoom();
            throw error;
          }
        },
        ...(openNamed && { openRunner: (...version) => openNamed(observers, ...version) }),
      });
    },
  });
  return shelf;
}
