/** Who pushes, rolls back and deletes further models. What is about one model is done in order; all else at the same time. */
import { asError } from '../../../lib/contract/errors.ts';
import { modelPrefix } from '../../../lib/contract/names.ts';
import type { ModelLocation } from '../../../lib/registry/download.ts';
import type { PublishOptions } from '../../../lib/registry/publish.ts';
import type { SimulatedProcess } from '../machine/process.ts';
import { modelFile } from '../models/inference.ts';
import { BUCKET, JOB, type Stage } from '../stage.ts';
import type { NamedOrder, Settings } from '../steps.ts';

const MB = 1024 * 1024;
/** A version that mends a model is none of those that a plan numbers. */
const FIRST_REPAIR = 1_000;

interface Program {
  openS3(options: object): unknown;
  publishModel(
    s3: unknown,
    location: ModelLocation,
    directory: string,
    options: PublishOptions,
  ): Promise<unknown>;
  rollBack(
    s3: unknown,
    location: ModelLocation,
    version: undefined,
    options: { readonly now: () => number },
  ): Promise<unknown>;
}

export class NamedOperators {
  readonly #world: Stage;
  readonly #open: (name: string) => SimulatedProcess;
  readonly #settings: Settings['named'];
  readonly #processes = new Map<string, SimulatedProcess>();
  readonly #last = new Map<string, Promise<void>>();
  #repairs = FIRST_REPAIR;
  /** Orders that have not ended. */
  underWay = 0;

  constructor(world: Stage, settings: Settings['named'], open: (name: string) => SimulatedProcess) {
    this.#world = world;
    this.#settings = settings;
    this.#open = open;
  }

  order(order: NamedOrder): void {
    const { model } = order;
    this.underWay++;
    const before = this.#last.get(model) ?? Promise.resolve();
    const run = before.then(() =>
      this.#inProcess(model, (program, process) => this.#run(order, program, process)),
    );
    const ended = run.then(
      () => this.#note(`The ${order.what} of ${model} is done.`),
      (error: unknown) => this.#note(`The ${order.what} of ${model} fails: ${asError(error).message}.`),
    );
    this.#last.set(
      model,
      ended.then(() => void this.underWay--),
    );
  }

  #note(text: string): void {
    this.#world.tell('operator', 'S3', text, []);
  }

  #inProcess<T>(
    model: string,
    work: (program: Program, process: SimulatedProcess) => Promise<T>,
  ): Promise<T> {
    const process = this.#processes.get(model) ?? this.#open(`operator of ${model}`);
    this.#processes.set(model, process);
    return new Promise((resolve, reject) => {
      process.after(0, () => {
        void (async () =>
          work(Object((await process.programs['operator']?.()) ?? {}) as Program, process))().then(
          resolve,
          reject,
        );
      });
    });
  }

  async #run(order: NamedOrder, program: Program, process: SimulatedProcess): Promise<void> {
    const { model } = order;
    const location = { bucket: BUCKET, prefix: modelPrefix(JOB, model) };
    if (order.what === 'delete') return this.#world.deleteModel(model);
    const s3 = program.openS3({});
    const now = () => process.clock.wallMs();
    if (order.what === 'rollback') return void (await program.rollBack(s3, location, undefined, { now }));
    const { version, flaw, memoryMB } = order;
    const directory = `/models/${version}`;
    process.disk.write(`${directory}/model.onnx`, modelFile(version, { flaw, model, memoryMB }));
    await program.publishModel(s3, location, directory, {
      now,
      memoryBytes: memoryMB === undefined ? undefined : memoryMB * MB,
      named: { name: model, budgetBytes: (this.#settings?.memoryMB ?? 0) * MB },
    });
  }

  /** Models that cannot be opened get a version that can, so that their records have to be answered. */
  mend(): void {
    const { named } = this.#world.history;
    for (const model of this.#settings?.names ?? []) {
      const push = () => {
        const { version } = named.pointerAt(model, this.#world.nowMs) ?? {};
        const flaw = named.versions.get(version ?? '')?.flaw;
        const isThere = version !== undefined && flaw !== 'broken' && flaw !== 'ends';
        if (isThere || !named.uploaded.has(model)) return;
        this.order({ what: 'push', model, version: ++this.#repairs, flaw: undefined, memoryMB: undefined });
      };
      void (this.#last.get(model) ?? Promise.resolve()).then(push);
    }
  }
}
