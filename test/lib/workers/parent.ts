/** A service that starts a worker, lets it run, and is then killed by its test. It reports the worker's pid. */
import assert from 'node:assert/strict';
import { until } from '../../support/until.ts';
import { WorkerChild } from './child.ts';

const [, , language, source, method] = process.argv;
assert.ok((language === 'python' || language === 'typescript') && source !== undefined);
const child = await WorkerChild.open(language, source);
child.send({ type: 'run', id: 1, items: [method] });
await until(() => child.stdout === 'begun\n');
process.send?.(child.process.pid);
