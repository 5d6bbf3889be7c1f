/** Composes what counts costs against the budget of a job. Loaded only where there is one. */
import { budgetMark } from '../contract/names.ts';
import { type ShownBudget, shownBudget } from '../metrics/budget.ts';
import { Budget } from '../observe/budget.ts';
import { deployedSpending, machineSpending } from '../observe/spending.ts';
import type { Payloads } from '../pipeline/chunks.ts';
import type { Observer } from '../pipeline/observer.ts';
import type { LargeStore } from '../results/large.ts';
import { CLOCK } from './clock.ts';
import { observers } from './observers.ts';
import type { Scope } from './scope.ts';

export function budget(scope: Scope): Budget {
  return new Budget({
    limits: scope.environment.job.budget,
    add: async (month, dollars) => {
      const { costs } = await import('./results.ts');
      return scope.get(costs).add(month, dollars);
    },
    now: CLOCK.now,
    date: () => Date.now(),
    onRefused: (reached) => scope.get(observers).budgetExceeded?.(reached),
  });
}

const ARCH = process.arch === 'arm64' ? 'arm64' : 'x86_64';

export async function shown(scope: Scope): Promise<ShownBudget> {
  const { job } = scope.environment;
  const size = { memoryMB: job.function.memoryMB, arch: ARCH } as const;
  return shownBudget(job.budget, await scope.get(budget).read(), size, Date.now());
}

export function spending(scope: Scope): Observer {
  const { environment } = scope;
  const size = { memoryMB: environment.memoryMB, arch: ARCH } as const;
  if (!environment.inLambda) return machineSpending(scope.get(budget), size);
  return deployedSpending(scope.get(budget), {
    size,
    isProvisioned: environment.isProvisioned,
    isTraced: () => environment.isTraced,
    now: CLOCK.now,
    onUnknown: (error) => scope.get(observers).budgetUnknown?.(error),
    onOver: (reached) => scope.get(observers).budgetExceeded?.(reached),
  });
}

/** Writes an object for the function `throttle`, which is outside the VPC and cannot ask Redis. */
export function tellThrottle(scope: Scope): void {
  const { bucket, job, inLambda } = scope.environment;
  if (!inLambda) return;
  scope.get(budget).onReached = async (spent) => {
    const [{ s3Client }, { putText }] = await Promise.all([import('./s3.ts'), import('../s3/objects.ts')]);
    const place = { bucket, key: budgetMark(job.jobName) };
    await putText(scope.get(s3Client), place, JSON.stringify(spent));
  };
}

/** Counts the objects of large records and results. */
export function countedStores(scope: Scope, large: LargeStore, payloads: Payloads) {
  const { spendObjects } = scope.get(budget);
  const countedLarge: LargeStore = {
    put(...content) {
      // One for readers of Redis and one for HTTPS, of which one is read.
      spendObjects(2, 1);
      return large.put(...content);
    },
  };
  const countedPayloads: Payloads = {
    async resolve(bodies) {
      const resolved = await payloads.resolve(bodies);
      const objects = resolved.filter((body, i) => body !== bodies[i]).length;
      spendObjects(objects, objects);
      return resolved;
    },
  };
  return { large: countedLarge, payloads: countedPayloads };
}
