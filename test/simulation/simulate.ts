/** Runs seeds: bundles the programs once, and makes a Lua for each start of Redis. */
import { LuaWasm } from 'wasmoon';
import { bundlePrograms, type Evaluate, type Patch } from './machine/bundle.ts';
import { SharedClient } from './machine/shared.ts';
import { drawPlan, type Plan } from './plan.ts';
import { redisStarts, type Simulated, World } from './world.ts';

export class Simulator {
  readonly #evaluate: Evaluate;
  readonly #client: SharedClient;

  private constructor(evaluate: Evaluate, client: SharedClient) {
    this.#evaluate = evaluate;
    this.#client = client;
  }

  /** @param patches faults that are planted */
  static async open(patches: readonly Patch[] = []): Promise<Simulator> {
    return new Simulator(await bundlePrograms(patches), await SharedClient.open());
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
    const world = new World(plan, { evaluate: this.#evaluate, lua, ioredis: this.#client.module });
    this.#client.current = () => world.current;
    return world.run();
  }
}
