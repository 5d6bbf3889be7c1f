/**
 * In: the output of a service. Out: a service that runs on when nobody can take what it says.
 * Trap: on a file (start.log) a write that finds no room fails with an error that ends the process when nobody listens.
 * The lines are lost; the next one is tried again, so that the log goes on when there is room.
 */
export function outliveOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}
