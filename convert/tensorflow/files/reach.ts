/**
 * In: names to begin with, and who takes from whom. Out: those names and everything behind them.
 * Trap: graphs have loops and are deep: each name is visited once, and without recursion.
 */
export function allBehind(
  starts: Iterable<string>,
  consumers: ReadonlyMap<string, readonly string[]>,
): Set<string> {
  const found = new Set(starts);
  const pending = [...found];
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    for (const consumer of consumers.get(name) ?? []) {
      if (found.has(consumer)) continue;
      found.add(consumer);
      pending.push(consumer);
    }
  }
  return found;
}
