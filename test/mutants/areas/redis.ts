/** Bugs in lib/redis beside its scripts for results: states, replacements, leases, waits, the rate limiter. */
import type { Suite } from '../mutant.ts';

const SCRIPTS = 'test/lib/redis/scripts.test.ts';
const RESULTS = 'test/lib/redis/results.test.ts';
const LEASES = 'test/lib/redis/leases.test.ts';
const STATES = 'test/lib/redis/record-states.test.ts';
const REPLACE = 'test/lib/redis/replace-result.test.ts';
const LIMITER = 'test/lib/redis/rate-limiter.test.ts';

/** These files test each case twice. */
const EMBEDDED_TOO = '^the embedded Redis';

export const REDIS: readonly Suite[] = [
  {
    file: 'lib/redis/record-states.ts',
    tests: [STATES, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'announcements outlast the queue, which keeps a message for 14 days at most',
        find: 'OUTLASTS_QUEUE_MS = 15 * 24',
        replace: 'OUTLASTS_QUEUE_MS = 3 * 24',
      },
      {
        guarantee: 'status: an expired record is not queued',
        find: "return done == null ? 'unknown' : 'expired';",
        replace: "return 'queued';",
      },
      {
        guarantee: 'status: a hash of the old server that says NaN is a failure',
        find: "value === 'NaN' ? 'failed' : 'succeeded'",
        replace: "value === 'nan' ? 'failed' : 'succeeded'",
      },
      {
        guarantee: 'status: a run whose time is up is no longer running',
        find: 'return Number(running ?? 0) > nowMs && listed(pending, runs)',
        replace: 'return Number(running ?? 0) > 0 && listed(pending, runs)',
      },
      {
        guarantee: 'status: the run of another enqueue is not taken for that of the announced one',
        find: '> nowMs && listed(pending, runs)',
        replace: '> nowMs',
      },
      {
        guarantee: 'status: a uri with a result that is announced again is queued',
        find: 'if (pending && done == null)\n',
        replace: 'if (pending && done == null && value == null)\n',
      },
      {
        guarantee: 'status: of one enqueue, the run of another is not its own',
        find: 'return runs === wanted && Number',
        replace: 'return Number',
      },
      {
        guarantee: 'status: a replaced enqueue is unknown, and not as good as the newest',
        find: 'if (value != null && identity === wanted) return',
        replace: 'if (value != null) return',
      },
      {
        guarantee: 'status: an enqueue that a cancellation lists is cancelled',
        find: "if (listed(cancelled, wanted)) return 'cancelled';",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/replace-result.ts',
    tests: [REPLACE, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a uri that is queued for another record gets nothing',
        find: "return isForOther(held, enqueue.identity) ? 'conflict' : 'replaced';",
        replace: "return 'replaced';",
      },
      {
        guarantee: 'without an idempotency record another result stays',
        find: "return newest && identity !== undefined ? 'replaced' : 'conflict';",
        replace: "return 'replaced';",
      },
      {
        guarantee: 'a record that was enqueued later keeps its result',
        find: 'if (newest && !isLater(enqueue, newest)) {',
        replace: 'if (newest && false) {',
      },
      {
        guarantee: 'a replay of a record that has its result changes nothing',
        find: "if (status === 'succeeded') return 'superseded';",
        replace: "if (status === 'succeeded') return 'replaced';",
      },
    ],
  },
  {
    file: 'lib/redis/leases.ts',
    tests: [LEASES, SCRIPTS, RESULTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'what was taken can be asked for again for ten minutes (docs: reliability)',
        find: 'LEASE_MS = 10 * 60 * 1000',
        replace: 'LEASE_MS = 10 * 60',
      },
      {
        guarantee: 'an answer that got lost is asked for again under the same lease id',
        find: 'this.#unanswered.get(askedKey(uri, identity)) ?? fresh',
        replace: 'fresh',
      },
      {
        guarantee: 'a failed lease is remembered',
        find: 'for (const uri of isId(large) ? [] : uris) this.#remember(askedKey(uri, identity), fresh);',
        replace: '',
      },
      {
        guarantee: 'a result that arrived is not asked for under its old lease id again',
        find: 'this.#unanswered.delete(askedKey(lease.uri, identity));',
        replace: '',
      },
      {
        guarantee: 'what arrived is removed with the next lease',
        find: 'if (acknowledged.length > 0) pipeline.unlink(...acknowledged.map((one) => leaseKeyOf(home, one)));',
        replace: '',
      },
      {
        guarantee: 'a result that is put back is not removed with the next lease',
        find: 'this.#acknowledged = this.#acknowledged.filter((one) => !held.includes(one));',
        replace: '',
      },
      {
        guarantee: 'what cannot be put back now is taken again by this client',
        find: 'for (const { uri, leaseId } of held) this.#remember(uri, leaseId);',
        replace: '',
      },
      {
        guarantee: 'a lease takes 32 MiB at most where the caller sets no limit',
        find: 'maxBytes = MAX_BYTES,',
        replace: 'maxBytes = Number.MAX_SAFE_INTEGER,',
      },
      {
        guarantee: 'a client remembers a bounded number of lost answers',
        find: 'if (this.#unanswered.size < MAX_UNANSWERED && ',
        replace: 'if (',
      },
    ],
  },
  {
    file: 'lib/redis/rate-limiter.ts',
    tests: [LIMITER, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a request that got its token waits for it',
        find: 'if (waitMs > 0) await this.#options.sleep(waitMs, caller?.signal);',
        replace: '',
      },
      {
        guarantee: 'a token that is not used is given back',
        find: 'await this.#give();',
        replace: '',
      },
      {
        guarantee: 'Retry-After is at least one second',
        find: 'Math.max(1, Math.ceil(backMs / 1000))',
        replace: 'Math.floor(backMs / 1000)',
      },
      {
        guarantee: 'requests go on when Redis cannot be reached',
        find: 'onError(error);\n      return 0;',
        replace: 'onError(error);\n      throw error;',
      },
    ],
  },
  {
    file: 'lib/redis/results.ts',
    tests: [RESULTS, LEASES],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a result that cannot be used is put back',
        find: 'await this.#leases.release([taken]);',
        replace: '',
      },
      {
        guarantee: 'a wait ends with timeout',
        find: "if (timeout.aborted) throw new ServingError('timeout'",
        replace: "if (timeout.aborted) throw new ServingError('internal'",
      },
      {
        guarantee: 'a wait ends with the reason of its signal',
        find: 'if (signal?.aborted) throw signal.reason;',
        replace: '',
        survives:
          'Equivalent: the wait is aborted by both signals together, whose reason is that of the first that aborted.',
      },
      {
        guarantee: 'a wait keeps to its time although Redis is silent',
        find: 'return await orAborted(this.#waitUntil(uri, identity, stop), stop);',
        replace: 'return await this.#waitUntil(uri, identity, stop);',
      },
      {
        guarantee: 'what a drain took and did not yield is put back',
        find: 'await this.#leases.release(page.slice(used)).catch(() => undefined);',
        replace: '',
      },
      {
        guarantee: 'what a drain has yielded is not put back',
        find: 'this.#leases.release(page.slice(used))',
        replace: 'this.#leases.release(page)',
      },
      {
        guarantee: 'of two who dequeue a uri, one gets it',
        find: '.filter(({ wasListed }) => wasListed)',
        replace: '',
        tests: [RESULTS, LEASES, STATES],
      },
    ],
  },
  {
    file: 'lib/redis/result/writer.ts',
    tests: ['test/lib/redis/writer.test.ts'],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'one script call holds a bounded number of records',
        find: 'const RECORDS_PER_CALL = 1_000;',
        replace: 'const RECORDS_PER_CALL = 100_000;',
      },
      {
        guarantee: 'the bytes of one round trip do not grow with the batch',
        find: 'if (bytes > TRIP_BYTES && ',
        replace: 'if (bytes > 1_000 * TRIP_BYTES && ',
      },
      {
        guarantee: 'measurements that could not be delivered are delivered with the next',
        find: 'if (measured) timers?.restore(measured);',
        replace: '',
      },
      {
        guarantee: 'measurements are delivered once, also when a later round trip fails',
        find: 'also when a later round trip fails.\n        measured = undefined;\n',
        replace: 'also when a later round trip fails.\n',
      },
      {
        guarantee: 'metrics are kept for a week after the last measurement',
        find: 'METRICS_TTL_MS = String(7 * 24 * 3600 * 1000)',
        replace: 'METRICS_TTL_MS = String(7 * 24 * 3600)',
      },
      {
        guarantee: 'results stay for the seconds of the configuration',
        find: 'ttlMs: String(ttlSeconds * 1000),',
        replace: 'ttlMs: String(ttlSeconds),',
      },
      {
        guarantee: 'the blocked records of a later call are named by their own uri',
        find: 'records[call * RECORDS_PER_CALL + place]',
        replace: 'records[place]',
      },
    ],
  },
  {
    file: 'lib/redis/result/fields.ts',
    tests: [SCRIPTS, RESULTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'outputs that are not float32 are stored a second time, exactly',
        find: "outputs.every((output) => output.dtype === 'float32')",
        replace: "outputs.some((output) => output.dtype !== 'string')",
      },
      {
        guarantee: 'a failed record has the value NaN, which old clients read',
        find: "status: 'failed', value: 'NaN'",
        replace: "status: 'failed', value: ''",
        tests: [SCRIPTS],
      },
      {
        guarantee: 'a cancelled record throws its error when it is read',
        find: "status === 'failed' || status === 'cancelled' ||",
        replace: "status === 'failed' ||",
        tests: [STATES],
      },
      {
        guarantee: 'NaN of the old server is a failure',
        find: " || (status === undefined && value === 'NaN')",
        replace: '',
        tests: [SCRIPTS],
      },
    ],
  },
  {
    file: 'lib/redis/result/sink.ts',
    tests: [SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a record whose key holds something else comes again',
        find: 'blocked.add(uri);',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/connection.ts',
    tests: ['test/lib/redis/connection.test.ts', RESULTS, 'test/faults/redis/server.test.ts'],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a command that must not be repeated is sent once',
        find: 'let attempt = repeatable ? 1 : 2;',
        replace: 'let attempt = 1;',
      },
      {
        guarantee: 'a command that may be repeated is repeated once on a fresh connection',
        find: 'let attempt = repeatable ? 1 : 2;',
        replace: 'let attempt = 2;',
      },
      {
        guarantee: 'an answer that says no does not cost the others their connection',
        find: "if (name === 'ReplyError' && !WRONG_SERVER.test(message)) throw this.unavailable(error);",
        replace: '',
      },
      {
        guarantee: 'after a failover the connection to the old server is given up',
        find: "if (name === 'ReplyError' && !WRONG_SERVER.test(message))",
        replace: "if (name === 'ReplyError')",
      },
      {
        guarantee: 'a timed-out connection is not used again',
        find: 'await this.#drop(connection);',
        replace: '',
      },
      {
        guarantee: 'an error of an old connection does not end a newer one',
        find: 'if (connection === this.#connection) {',
        replace: 'if (connection >= 0) {',
      },
      {
        guarantee: 'the password of the url is in no message',
        find: '`${protocol}//${host}`',
        replace: 'url',
      },
      {
        guarantee: 'a command has a time limit of a second',
        find: 'commandTimeout: commandTimeoutMs,',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/wait-deadline.ts',
    tests: ['test/lib/redis/wait-deadline.test.ts'],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a wait of NaN is refused and not endless',
        find: '!(timeoutMs >= 0)',
        replace: 'timeoutMs < 0',
      },
      {
        guarantee: 'a wait longer than a timer can take does not end at once',
        find: 'return Math.min(Math.ceil(timeoutMs), MAX_WAIT_MS);',
        replace: 'return Math.ceil(timeoutMs);',
      },
    ],
  },
  {
    file: 'lib/redis/running.ts',
    tests: ['test/lib/redis/record-states.test.ts', 'test/e2e/running.test.ts'],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a short run costs no second call to Redis',
        find: '>= REPORT_FROM_MS;',
        replace: '>= 0;',
      },
      {
        guarantee: 'a run of a tenth of a second and more is reported as running',
        find: 'REPORT_FROM_MS = 100',
        replace: 'REPORT_FROM_MS = 100_000',
      },
    ],
  },
  {
    file: 'lib/redis/cluster/slots.ts',
    tests: ['test/lib/redis/cluster.test.ts'],
    bugs: [
      {
        guarantee: 'empty braces decide nothing about a slot',
        find: 'close > open + 1',
        replace: 'close > open',
      },
      {
        guarantee: 'the first tag of a slot stays its tag',
        find: 'tags[slotOf(text)] ??= text;',
        replace: 'tags[slotOf(text)] = text;',
      },
    ],
  },
  {
    file: 'lib/redis/cluster/connection.ts',
    tests: ['test/lib/redis/cluster.test.ts', 'test/system/redis-cluster.test.ts'],
    bugs: [
      {
        guarantee: 'a result that has moved ahead of its slot is read there',
        find: "isAsking: kind === 'ASK'",
        replace: 'isAsking: false',
      },
      {
        guarantee: 'after a node is lost, its slots are looked up again',
        find: 'const isElsewhere = repeatable &&',
        replace: 'const isElsewhere = false &&',
      },
      {
        guarantee: 'another setting than ?cluster=on is refused',
        find: 'if (/[?&]cluster=/.test(url))',
        replace: 'if (false)',
      },
    ],
  },
  {
    file: 'lib/redis/result-index.ts',
    tests: ['test/system/redis-cluster.test.ts'],
    bugs: [
      {
        guarantee: 'a slot stays listed for as long as a result may still be written into it',
        find: 'WRITTEN_WITHIN_MS = 60_000',
        replace: 'WRITTEN_WITHIN_MS = -60_000',
      },
    ],
  },
];
