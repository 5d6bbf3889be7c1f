/**
 * Ends this process when its parent ends. A model's run may hold the JS thread for ever, so a thread of its own watches
 * and kills.
 */
import { Worker } from 'node:worker_threads';

/** Another parent than at the start is 1, or whoever takes orphans. */
const WATCH = `
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, 500);`;

export function endWithParent(): void {
  new Worker(WATCH, { eval: true, execArgv: [] }).unref();
}
