/** Runs seeds: bundles the programs once, and makes a Lua for each start of Redis. */
import { LuaWasm } from 'wasmoon';
import { present } from '../../lib/contract/present.ts';
import { bundlePrograms, type Evaluate, type Patch } from './machine/bundle.ts';
import { SharedClient } from './machine/shared.ts';
import { drawPlan } from './plan.ts';
import type { Plan } from './steps.ts';
import { redisStarts, type Simulated, World } from './world.ts';

/** A module keeps all states that it made, and with them the histories that they were for. */
const HISTORIES_PER_LUA = 10;

export class Simulator {
  readonly #evaluate: Evaluate;
  readonly #client: SharedClient;

  readonly #earlier: Evaluate | undefined;
  /** Each start of Redis in a history has one of its own, with a new state. */
  readonly #machines: LuaWasm[] = [];
  #histories = 0;

  private constructor(evaluate: Evaluate, client: SharedClient, earlier?: Evaluate) {
    this.#evaluate = evaluate;
    this.#client = client;
    this.#earlier = earlier;
  }

  /**
   * @param patches faults that are planted
   * @param earlier sources of the release that is deployed at first. Default: the same
   * @param bundle what bundles the programs with these faults
   */
  static async open(
    patches: readonly Patch[] = [],
    earlier?: string,
    bundle = bundlePrograms,
  ): Promise<Simulator> {
    // The first module of a process is never freed, because it is in a global, so no history gets it.
    await LuaWasm.initialize();
    const before = earlier === undefined ? undefined : await bundlePrograms([], earlier);
    return new Simulator(await bundle(patches), await SharedClient.open(), before);
  }

  seed(seed: number): Promise<Simulated> {
    return this.plan(drawPlan(seed));
  }

  async plan(plan: Plan): Promise<Simulated> {
    if (++this.#histories % HISTORIES_PER_LUA === 0) this.#machines.length = 0;
    while (this.#machines.length < redisStarts(plan)) this.#machines.push(await LuaWasm.initialize());
    let started = 0;
    const lua = () => present(this.#machines[started++], 'Lua for another start of Redis');
    const world = new World(plan, {
      evaluate: this.#earlier ?? this.#evaluate,
      nextEvaluate: this.#evaluate,
      lua,
      ioredis: this.#client.module,
    });
    this.#client.current = () => world.current;
    return world.run();
  }
}
