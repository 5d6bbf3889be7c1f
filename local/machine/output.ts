/**
 * Keeps a service running when its output cannot be written. A failed write to start.log, as on a full disk, would
 * end the process without an error listener. The lines are lost, and the log continues when there is room.
 */
export function outliveOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}
