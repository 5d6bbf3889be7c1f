/** Calls `stop` at the first Ctrl-C or TERM. The second one ends the process at once. */
export function onStopSignal(stop: (signal: string) => void): void {
  let asked = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (asked) process.exit(130);
      asked = true;
      stop(signal);
    });
  }
}
