/** Everything that goes wrong around the programs: services, network, clocks, and processes that end. */
import type { TroubleFact } from './history.ts';
import type { Environment } from './models/lambda.ts';
import type { Stage } from './stage.ts';
import type { EndStep, RedisStep, Step, TroubleStep } from './steps.ts';

const KINDS: ReadonlySet<string> = new Set([
  'redis',
  'service',
  'delivery',
  'kill',
  'reap',
  'network',
  'forget',
  'clock',
  'bridge',
]);

export function isTrouble(step: Step): step is TroubleStep {
  return KINDS.has(step.kind);
}

const secondsOf = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

export class Troubles {
  readonly #world: Stage;
  readonly #killBridge: (downMs: number) => void;
  /** Ms after which the next invocation of a function is killed. */
  readonly #victims = new Map<string, number>();

  constructor(world: Stage, killBridge: (downMs: number) => void) {
    this.#world = world;
    this.#killBridge = killBridge;
  }

  begin(step: TroubleStep): void {
    const world = this.#world;
    switch (step.kind) {
      case 'redis':
        return this.#redis(step);
      case 'network':
        world.slowMs = step.slowMs;
        return this.#during(
          'network',
          step.forMs,
          `The network takes up to ${step.slowMs} ms more for ${secondsOf(step.forMs)}.`,
          () => (world.slowMs = 0),
        );
      case 'service': {
        world.troubled.set(step.service, step);
        const what = `${step.share * 100} % of the calls to ${step.service.toUpperCase()} are hit for ${secondsOf(step.forMs)}: ${step.how}.`;
        return this.#during(step.service, step.forMs, what, () => world.troubled.delete(step.service));
      }
      case 'delivery':
        world.delivery = step;
        return this.#during(
          'sqs',
          step.forMs,
          `SQS delivers late, twice, and again what was deleted, for ${secondsOf(step.forMs)}.`,
          () => (world.delivery = { twice: 0, lostDelete: 0, delayMs: 0 }),
        );
      case 'kill':
      case 'reap':
        return this.#end(step);
      case 'forget':
        for (const link of world.network.links)
          if (link.sides[0].owner.state === 'stopped') link.isForgotten = true;
        return world.tell(
          'outside',
          'network',
          'The connections of stopped environments are forgotten on the way.',
        );
      case 'clock':
        return this.#setClock(step.jumpMs);
      case 'bridge':
        return this.#killBridge(step.downMs);
    }
  }

  #during(what: TroubleFact['what'], forMs: number, text: string, end: () => unknown): void {
    const { history, nowMs, scheduler } = this.#world;
    history.troubles.push({ what, fromMs: nowMs, toMs: nowMs + forMs });
    this.#world.tell('outside', what, text);
    scheduler.after(forMs, undefined, () => void end());
  }

  #redis({ how, forMs }: RedisStep): void {
    const world = this.#world;
    const { network } = world;
    if (how === 'reset') {
      for (const link of network.links) link.reset();
      return this.#during('redis', 2_000, 'Every connection to Redis is reset.', () => undefined);
    }
    if (how === 'restart') {
      world.redis?.end('SIGKILL');
      const text = `The process of Redis is killed, and starts again with its data after ${secondsOf(forMs)}.`;
      return this.#during('redis', forMs, text, () => {
        if (world.redis?.state === 'ended') world.startRedis();
      });
    }
    world.reach = how;
    const text = `Redis ${how === 'silent' ? 'does not answer' : 'refuses connections'} for ${secondsOf(forMs)}.`;
    this.#during('redis', forMs, text, () => {
      world.reach = 'open';
      for (const link of network.links) link.resume();
    });
  }

  #end({ kind, program, afterMs }: EndStep): void {
    if (kind === 'kill') return void this.#victims.set(program, afterMs);
    const pool = Object.values(this.#world.functions).find(({ options }) => options.name === program);
    const idle = pool?.environments.filter(({ invocation }) => !invocation) ?? [];
    if (pool && idle.length > 0) pool.reap(this.#world.choices.pick('victim', idle));
  }

  #setClock(jumpMs: number): void {
    const world = this.#world;
    const alive = Object.values(world.functions).flatMap(({ environments }) => environments);
    if (alive.length === 0) return;
    const environment = world.choices.pick('victim', alive);
    environment.wall.offsetMs += jumpMs;
    world.history.troubles.push({ what: 'clock', fromMs: world.nowMs, toMs: world.nowMs });
    world.tell('outside', environment.name, `The clock of ${environment.name} is set by ${jumpMs / 1000} s.`);
  }

  /** Kills a victim in the middle of its next invocation. */
  onInvoke({ of, process }: Environment): void {
    const afterMs = this.#victims.get(of.options.name);
    if (afterMs === undefined) return;
    this.#victims.delete(of.options.name);
    this.#world.scheduler.after(afterMs, undefined, () => process?.end('SIGKILL'));
  }

  calm(): void {
    this.#victims.clear();
  }
}
