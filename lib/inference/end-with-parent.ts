/**
 * In: nothing. Out: this process ends when the one that started it does.
 * Trap: a model's run holds the JS thread, for ever perhaps; so a thread of its own looks, and kills.
 */
import { Worker } from 'node:worker_threads';

/** Another parent than at the start is 1, or whoever takes orphans. */
const WATCH = `
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, 500);`;

export function endWithParent(): void {
  new Worker(WATCH, { eval: true, execArgv: [] }).unref();
}
