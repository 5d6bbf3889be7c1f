/**
 * Ends this process when its parent ends. A run may block the JS thread forever, so a separate thread watches.
 */
import { Worker } from 'node:worker_threads';

/** An orphaned process gets another parent. The parent is passed in: it may end while the thread starts. */
const WATCH = `
const parent = require('node:worker_threads').workerData;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, 500);`;

export function endWithParent(): void {
  new Worker(WATCH, { eval: true, execArgv: [], workerData: process.ppid }).unref();
}
