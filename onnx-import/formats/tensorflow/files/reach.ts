/**
 * Returns the given names and everything that depends on them. Graphs have loops and are deep, so each name is
 * visited once, without recursion.
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
