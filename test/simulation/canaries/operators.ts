/** Operators who try versions, each order in a process of its own, and the schedule that looks at the canary. */
import { ServingError } from '../../../lib/contract/errors.ts';
import { trialKey } from '../../../lib/contract/names.ts';
import type { ModelLocation } from '../../../lib/registry/download.ts';
import type { CurrentModel } from '../../../lib/registry/pointer.ts';
import type { PublishOptions } from '../../../lib/registry/publish.ts';
import type { CanaryEnd } from '../../../lib/registry/trial.ts';
import type { SimulatedProcess } from '../machine/process.ts';
import { modelFile } from '../models/inference.ts';
import { BUCKET, JOB, type Stage } from '../stage.ts';
import type { OrderStep } from '../steps.ts';

/** The parts of `programs/operator.ts`. */
interface Program {
  openS3(options: object): unknown;
  readCurrent(s3: unknown, location: ModelLocation): Promise<CurrentModel>;
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
  endCanary(s3: unknown, location: ModelLocation, current: CurrentModel, end: CanaryEnd): Promise<unknown>;
}

const LOCATION: ModelLocation = { bucket: BUCKET, prefix: `models/${JOB}/` };
const MINUTE = 60_000;
/** As EventBridge calls a function of a schedule. */
const SCHEDULED = { source: 'aws.events', 'detail-type': 'Scheduled Event' };

export class Operators {
  readonly #world: Stage;
  readonly #open: (name: string) => SimulatedProcess;
  #orders = 0;
  /** Orders that have not ended. */
  underWay = 0;

  constructor(world: Stage, open: (name: string) => SimulatedProcess) {
    this.#world = world;
    this.#open = open;
  }

  order({ order }: OrderStep): void {
    const name = `operator ${++this.#orders}`;
    const process = this.#open(name);
    const { canaries } = this.#world.history;
    this.underWay++;
    process.after(0, () => {
      void (async () => {
        const program = Object((await process.programs['operator']?.()) ?? {}) as Program;
        let error: string | undefined;
        try {
          await this.#run(order, program, process);
        } catch (thrown) {
          error = ServingError.from(thrown).code;
          const { code }: { code?: unknown } = Object(thrown);
          if (typeof code === 'string') error = code;
        }
        canaries.orders.push({ by: name, what: order.what, error });
        this.#world.tell(
          'operator',
          'S3',
          `The ${order.what} of ${name} ${error === undefined ? 'is done' : `fails: ${error}`}.`,
          [],
        );
        this.underWay--;
      })();
    });
  }

  async #run(order: OrderStep['order'], program: Program, process: SimulatedProcess): Promise<void> {
    const s3 = program.openS3({});
    const now = () => process.clock.wallMs();
    if (order.what === 'rollback') return void (await program.rollBack(s3, LOCATION, undefined, { now }));
    if (order.what === 'promote') {
      const current = await program.readCurrent(s3, LOCATION);
      // Who promotes has looked at what it answers.
      if (this.#world.history.canaries.isFlawed(current.canary?.version))
        throw new ServingError('not_found', 'bad');
      const end = { isPromoted: true, reason: 'by hand', at: new Date(now()).toISOString() };
      return void (await program.endCanary(s3, LOCATION, current, end));
    }
    const { version } = order;
    const directory = `/models/${version}`;
    const isCanary = order.what === 'canary';
    process.disk.write(
      `${directory}/model.onnx`,
      modelFile(version, { flaw: isCanary ? order.flaw : undefined }),
    );
    const trial = isCanary ? ({ kind: 'canary', share: order.share } as const) : undefined;
    await program.publishModel(s3, LOCATION, directory, { now, trial });
  }

  /** From now on the scheduled function is called each minute. */
  schedule(): void {
    this.#look();
    this.#world.scheduler.after(MINUTE, undefined, () => this.schedule());
  }

  #look(): void {
    const { history, functions, nowMs: startedMs } = this.#world;
    const { canary } = history.canaries.pointer ?? {};
    const before = this.#counts(canary);
    functions['trials']?.invoke(SCHEDULED, ({ kind }) => {
      if (kind !== 'answered' || !canary) return;
      const { nowMs: endedMs } = this.#world;
      history.canaries.looks.push({ canary, startedMs, endedMs, counts: [before, this.#counts(canary)] });
    });
  }

  #counts(canary: { readonly version: string; readonly since: string } | undefined): Map<string, number> {
    const counted = canary && this.#world.hashOf(trialKey(JOB, `${canary.version} ${canary.since}`));
    return new Map([...(counted ?? [])].map(([name, count]) => [name, Number(count)]));
  }
}
