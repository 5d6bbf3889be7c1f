/**
 * Shrinks a plan whose history breaks an invariant to the fewest steps that still break it: parts of the steps are left out,
 * large ones first, as long as that works (delta debugging).
 */
import type { Plan, Step } from '../steps.ts';

const MINUTE = 60_000;

/** @param breaks whether the history of a plan still breaks the invariant */
export async function shrinkPlan(plan: Plan, breaks: (smaller: Plan) => Promise<boolean>): Promise<Plan> {
  let least = plan;
  const keeps = async (steps: readonly Step[], endMs: number) => {
    const smaller = { ...least, steps, endMs };
    if (!(await breaks(smaller))) return false;
    least = smaller;
    return true;
  };
  for (let parts = 2; least.steps.length > 1; ) {
    const size = Math.ceil(least.steps.length / parts);
    let hasShrunk = false;
    for (let at = least.steps.length - size; at > -size && !hasShrunk; at -= size) {
      const left = [
        ...least.steps.slice(0, Math.max(0, at)),
        ...least.steps.slice(Math.max(0, at) + size + Math.min(0, at)),
      ];
      if (left.length < least.steps.length) hasShrunk = await keeps(left, least.endMs);
    }
    if (hasShrunk) parts = Math.max(2, parts - 1);
    else if (size === 1) break;
    else parts = Math.min(least.steps.length, parts * 2);
  }
  const lastMs = least.steps.at(-1)?.atMs ?? 0;
  if (lastMs + MINUTE < least.endMs) await keeps(least.steps, lastMs + MINUTE);
  return least;
}
