/** Bugs in the console: who may ask it, and what it remembers. */
import type { Suite } from '../mutant.ts';

const PARTS = 'test/console/parts.test.ts';
const STATISTICS = 'test/workers/http/statistics.test.ts';
const CONSOLE = 'test/console/console.test.ts';

export const CONSOLE_PAGE: readonly Suite[] = [
  {
    file: 'lib/observe/history.ts',
    tests: [PARTS],
    bugs: [
      {
        guarantee: 'an hour of steps is kept',
        find: 'this.#steps.splice(0, this.#steps.length - steps);',
        replace: '',
      },
      {
        guarantee: 'a step is what the counters have grown by',
        find: 'this.#atStep = { ...totals, batchMs };',
        replace: '',
      },
      {
        guarantee: 'the age of the queue is the longest wait',
        find: 'this.#waited = Math.max(this.#waited ?? 0, tookMs);',
        replace: 'this.#waited = tookMs;',
      },
    ],
  },
  {
    file: 'lib/observe/counts.ts',
    tests: [STATISTICS],
    bugs: [
      {
        guarantee: 'requests are those that ask for predictions',
        find: "if (method === 'POST' && functionName === 'predict') this.#predictions++;",
        replace: 'this.#predictions++;',
      },
      {
        guarantee: 'a record of the queue is counted once',
        find: "if (source === 'request') this.#count",
        replace: 'this.#count',
      },
    ],
  },
  {
    file: 'local/worker/statistics.ts',
    tests: [STATISTICS],
    bugs: [
      {
        guarantee: 'what happens after the end of a step is of the next one',
        find: 'return [this.past, this.counts, this.#samples];',
        replace: 'return [this.counts, this.past, this.#samples];',
      },
    ],
  },
  {
    file: 'lib/observe/recent.ts',
    tests: [PARTS],
    bugs: [
      {
        guarantee: 'the last 200 records are remembered, and no more',
        find: 'this.#records.splice(0, this.#records.length - this.#options.most);',
        replace: '',
      },
      {
        guarantee: 'a record that was not saved is not listed',
        find: '!unsaved.includes(id)',
        replace: 'true',
      },
      {
        guarantee: 'an error shows what everybody may read',
        find: 'error: publicMessage.slice(0, SHOWN_CHARACTERS)',
        replace: 'error: outcome.error.message',
      },
    ],
  },
  {
    file: 'local/console/routes.ts',
    tests: [CONSOLE],
    bugs: [
      {
        guarantee: 'pages of other origins get nothing',
        find: 'const isForeign = origin !== undefined && !isOwnOrigin(origin, host, { allowedHosts });',
        replace: 'const isForeign = !isOwnOrigin && !host && !allowedHosts;',
      },
      {
        guarantee: 'an action needs the header of the page',
        find: "if (method === 'POST' && headers[ACTION_HEADER] === undefined)",
        replace: "if (method === 'PUT' && headers[ACTION_HEADER] === undefined)",
      },
    ],
  },
  {
    file: 'local/gateway/requests.ts',
    tests: [CONSOLE],
    bugs: [
      {
        guarantee: 'only the page of the console needs no token',
        find: 'match?.route.isOpen?.(head.headers) ? undefined',
        replace: 'match ? undefined',
      },
    ],
  },
];
