/** Writes golden.json (`node test/lib/observe/make.ts`, then `npm run format`). What it says may only change where an observer is to say something else. */
import { writeFile } from 'node:fs/promises';
import { observe } from './sequence.ts';

const hooks: (() => Promise<void>)[] = [];
const said = await observe({ after: (hook) => hooks.unshift(hook) });
for (const hook of hooks) await hook();
await writeFile(new URL('golden.json', import.meta.url), `${JSON.stringify(said, null, 1)}\n`);
