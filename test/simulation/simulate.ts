/** Runs seeds: bundles the programs once, and makes a Lua for each start of Redis. */
import { LuaWasm } from 'wasmoon';
import { bundlePrograms, type Evaluate, type Patch } from './machine/bundle.ts';
import { SharedClient } from './machine/shared.ts';
import { drawPlan, type Plan } from './plan.ts';
import { redisStarts, type Simulated, World } from './world.ts';

export class Simulator {
  readonly #evaluate: Evaluate;
  readonly #client: SharedClient;

  readonly #earlier: Evaluate | undefined;

  private constructor(evaluate: Evaluate, client: SharedClient, earlier?: Evaluate) {
    this.#evaluate = evaluate;
    this.#client = client;
    this.#earlier = earlier;
  }

  /**
   * @param patches faults that are planted
   * @param earlier sources of the release that is deployed at first. Default: the same
   */
  static async open(patches: readonly Patch[] = [], earlier?: string): Promise<Simulator> {
    const before = earlier === undefined ? undefined : await bundlePrograms([], earlier);
    return new Simulator(await bundlePrograms(patches), await SharedClient.open(), before);
  }

  seed(seed: number): Promise<Simulated> {
    return this.plan(drawPlan(seed));
  }

  async plan(plan: Plan): Promise<Simulated> {
    const machines = await Promise.all(Array.from({ length: redisStarts(plan) }, () => LuaWasm.initialize()));
    const lua = () => {
      const next = machines.shift();
      if (!next) throw new Error('Redis started more often than the plan says');
      return next;
    };
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
