/** When something is killed: by progress, not by time, so that a run of any length on any machine has its share. */
import { type Random, whole } from './seeds.ts';

export interface KillPlan {
  readonly random: Random;
  /** Of progress between two kills, about. */
  readonly every: number;
  readonly progress: () => number;
  /** True when no more kills are wanted. */
  readonly isOver: () => boolean;
}

/** Kills again and again. @param kill returns whether there was something to kill */
export async function killAgain(
  { random, every, progress, isOver }: KillPlan,
  kill: () => Promise<boolean>,
): Promise<number> {
  let kills = 0;
  let killAt = whole(random, 1, 2 * every);
  while (!isOver()) {
    if (progress() >= killAt && (await kill())) {
      kills++;
      killAt = progress() + whole(random, 1, 2 * every);
    }
    await new Promise((resolve) => setTimeout(resolve, whole(random, 1, 20)));
  }
  return kills;
}
