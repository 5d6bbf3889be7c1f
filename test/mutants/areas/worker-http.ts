/** Bugs in the HTTP API of the worker service (lib/http/worker) and in what the single machine adds to it (local/worker). */
import type { Suite } from '../mutant.ts';

const FETCH = 'test/workers/http/fetch-image.test.ts';
const RESULTS = 'test/workers/http/results.test.ts';
const FORM = 'test/workers/http/form.test.ts';
const MODEL = 'test/workers/http/model.test.ts';
const STATISTICS = 'test/workers/http/statistics.test.ts';
const LIMITS = 'test/local/gateway/own-limits.test.ts';

export const WORKER_HTTP: readonly Suite[] = [
  {
    file: 'local/worker/fetch-image.ts',
    tests: [FETCH],
    bugs: [
      {
        guarantee: 'one address that is not public refuses a name',
        find: '!addresses.every(isAllowed)',
        replace: '!addresses.some(isAllowed)',
      },
      {
        guarantee: 'the address that was checked is the one that is connected to',
        find: '      lookup: (_host, { all }, found) =>\n        all ? found(null, [pinned]) : found(null, pinned.address, pinned.family),',
        replace:
          "      lookup: (name, { all }, found) =>\n        void resolve(name).then(([at = '']) => (all ? found(null, [{ address: at, family: 4 }]) : found(null, at, 4))),",
      },
      {
        guarantee: 'a redirect is 403',
        find: "if (statusCode >= 300 && statusCode < 400) throw forbidden('its server redirects, which is not followed');",
        replace: '',
      },
      {
        guarantee: 'only https is fetched',
        find: "if (url.protocol !== 'https:') throw",
        replace: "if (url.protocol === 'ftp:') throw",
      },
      {
        guarantee: 'a host is allowed with its port',
        find: 'allowedHosts.includes(url.host)',
        replace: 'allowedHosts.includes(url.hostname)',
      },
      {
        guarantee: 'the address of a cloud’s metadata is not public',
        find: "  '169.254.0.0/16',\n",
        replace: '',
      },
      {
        guarantee: 'IPv4 in IPv6 is not public',
        find: "(family === 'ipv4' || unicast.check(address, family))",
        replace: 'unicast !== undefined',
      },
      {
        guarantee: 'an image that does not announce its size is cut at the limit',
        find: '    assertSize(bytes);\n',
        replace: '',
      },
    ],
  },
  {
    file: 'local/worker/results.ts',
    tests: [RESULTS],
    bugs: [
      {
        guarantee: 'cursors of an earlier start are smaller',
        find: 'this.#cursor = options.now() * 1_000;',
        replace: 'this.#cursor = 0;',
      },
      {
        guarantee: 'a result is given after its cursor only',
        find: 'if (kept.cursor <= cursor) continue;',
        replace: 'if (kept.cursor < cursor) continue;',
      },
      {
        guarantee: 'results have a number and a size at most',
        find: 'if (kept.expiresMs > now && !isTooMuch) return;',
        replace: 'if (kept.expiresMs > now) return;',
      },
      {
        guarantee: 'items that wait are counted',
        find: 'this.#running.size >= RESULT_LIMITS.waiting ||',
        replace: '',
      },
      {
        guarantee: 'results of too many blocks come in several answers',
        find: 'page.length < 2 ||',
        replace: '',
        survives: 'Never reached with one result: each fitted into a frame of its own when it was kept.',
      },
    ],
  },
  {
    file: 'lib/http/worker/form.ts',
    tests: [FORM],
    bugs: [
      {
        guarantee: 'a field that comes twice is refused',
        find: 'if (fields.has(name)) throw',
        replace: 'if (fields.size < 0) throw',
      },
      {
        guarantee: 'a form without its last boundary is refused',
        find: "if (end < 0) throw malformed('it is cut off');",
        replace: 'if (end < 0) break;',
      },
    ],
  },
  {
    file: 'lib/http/worker/frames.ts',
    tests: [MODEL],
    bugs: [
      {
        guarantee: 'later results are refused where nothing keeps them',
        find: 'if (!later) {',
        replace: 'if (later) {',
      },
    ],
  },
  {
    file: 'lib/observe/samples.ts',
    tests: [STATISTICS],
    bugs: [
      {
        guarantee: 'the last 1,000 samples count',
        find: 'if (samples.length > SAMPLES) samples.shift();',
        replace: '',
      },
      {
        guarantee: 'the keys of a worker have a limit',
        find: 'if (samples.length === 0 && this.#samples.size >= MOST_KEYS) return;',
        replace: '',
      },
    ],
  },
  {
    file: 'local/gateway/response.ts',
    tests: [LIMITS],
    bugs: [
      {
        guarantee: 'the envelope has the status of the answer',
        find: 'error_code: wire.status,',
        replace: 'error_code: 0,',
      },
    ],
  },
];
