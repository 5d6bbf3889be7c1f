/** Bugs in lib/redis beside its scripts for results: states, replacements, leases, waits, the rate limiter. */
import type { Suite } from '../mutant.ts';

const SCRIPTS = 'test/lib/redis/scripts.test.ts';
const RESULTS = 'test/lib/redis/results.test.ts';
const LEASES = 'test/lib/redis/leases.test.ts';
const STATES = 'test/lib/redis/record-states.test.ts';
const REPLACE = 'test/lib/redis/replace-result.test.ts';
const ORDER = 'test/lib/redis/order.test.ts';
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
    file: 'lib/redis/state-scripts.ts',
    tests: [STATES, ORDER, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'ANNOUNCE: a key stands for one request',
        find: 'if used and used ~= ARGV[4] then return 0 end',
        replace: '',
        tests: ['test/e2e/idempotency.test.ts'],
      },
      {
        guarantee: 'ANNOUNCE: what was announced before and waits stays announced',
        find: "local pending = not held[2] and held[1] or ''\nredis.call('HSET'",
        replace: "local pending = ''\nredis.call('HSET'",
      },
      {
        guarantee: 'ANNOUNCE: a uri that is announced again is not done',
        find: "redis.call('HDEL', KEYS[1], 'done')",
        replace: '',
      },
      {
        guarantee: 'ANNOUNCE: an announcement ends by itself',
        find: "redis.call('PEXPIRE', KEYS[1], ARGV[3])\nreturn 1",
        replace: 'return 1',
      },
      {
        guarantee: 'WITHDRAW: what is not announced is not withdrawn',
        find: 'if held[2] or not held[1] or not has(held[1], ARGV[1]) then return 0 end',
        replace: '',
      },
      {
        guarantee: 'WITHDRAW: other enqueues stay announced',
        find: "if left ~= '' or redis.call('EXISTS', KEYS[2]) == 1 then",
        replace: "if redis.call('EXISTS', KEYS[2]) == 1 then",
      },
      {
        guarantee: 'WITHDRAW: the status of a result that is there is known again',
        find: "if left == '' then redis.call('HSET', KEYS[1], 'done', 1) end",
        replace: "if left == '' then redis.call('DEL', KEYS[2]) end",
      },
      {
        guarantee: 'CANCEL: cancelling a second time is true again',
        find: "if status == 'cancelled' then return 1 end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: it is too late to cancel what has, or had, a result',
        find: "if newest or held[2] or redis.call('EXISTS', KEYS[1]) == 1 then return 0 end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: it is too late to cancel what was taken',
        find: 'if newest or held[2] or',
        replace: 'if held[2] or',
      },
      {
        guarantee: 'CANCEL: a uri that is queued again can be cancelled',
        find: "if pending == '' then\n  if status",
        replace: 'if true then\n  if status',
      },
      {
        guarantee: 'CANCEL: a cancellation has a time to live',
        find: "redis.call('PEXPIRE', KEYS[1], ARGV[3])\nredis.call('SET'",
        replace: "redis.call('SET'",
      },
      {
        guarantee: 'CANCEL: the state of a cancelled record is done',
        find: "redis.call('HSET', KEYS[2], 'pending', '', 'done', 1)",
        replace: '',
      },
      {
        guarantee: 'CANCEL: no state is made up for a record that was not announced',
        find: "if redis.call('PEXPIRE', KEYS[2], ARGV[3]) == 1 then",
        replace: "if redis.call('PEXPIRE', KEYS[2], ARGV[3]) >= 0 then",
      },
      {
        guarantee: 'CANCEL: the announced enqueues are cancelled by their identities',
        find: "if pending ~= '' then redis.call('HSET', KEYS[1], 'cancelled', pending) end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: what had its outcome before is not cancelled',
        find: "if newest then redis.call('HSET', KEYS[1], 'after', newest) end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: a deleted cancellation still keeps earlier records out',
        find: "redis.call('SET', KEYS[3], orderOfCancellation(math.max(today, tonumber(ARGV[6])), newest), 'PX', ARGV[3])",
        replace: '',
      },
      {
        guarantee: 'CANCEL: a cancelled record is dequeued',
        find: "redis.call('ZADD', KEYS[4], today + ARGV[3], ARGV[1])",
        replace: '',
      },
      {
        guarantee: 'CANCEL: the index lives as long as the cancellation',
        find: "if redis.call('PTTL', KEYS[4]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[4], ARGV[3]) end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: a waiting client is notified of the cancellation',
        find: "redis.call('PUBLISH', ARGV[5], 'cancelled')",
        replace: '',
      },
      {
        guarantee: 'MARK_RUNNING: a record that was not announced does not become running',
        find: 'if held[1] and not held[2] and has(held[1], identity) then',
        replace: 'if not held[2] then',
      },
      {
        guarantee: 'MARK_RUNNING: a finished record does not become running again',
        find: 'if held[1] and not held[2] and',
        replace: 'if held[1] and',
        survives:
          'Equivalent: a finished state lists no enqueue that waits, so the next condition marks none.',
      },
      {
        guarantee: 'MARK_RUNNING: the run of another enqueue is not reported',
        find: ' and has(held[1], identity) then',
        replace: ' then',
      },
      {
        guarantee: 'MARK_RUNNING: a foreign key costs its own record and no neighbour',
        find: "redis.pcall('HMGET', KEYS[i], 'pending'",
        replace: "redis.call('HMGET', KEYS[i], 'pending'",
      },
      {
        guarantee: 'MARK_RUNNING: a run that never ends is forgotten after its time',
        find: 'today + ARGV[1])',
        replace: 'today + 1000 * ARGV[1])',
      },
    ],
  },
  {
    file: 'lib/redis/replace-result.ts',
    tests: [REPLACE, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'REPLACE: a result that changed since it was read is not replaced',
        find: "for i = 1, 5 do if (held[i] or '') ~= ARGV[i] then return 0 end end",
        replace: '',
      },
      {
        guarantee: 'REPLACE: a uri whose state changed since it was read is not replaced',
        find: "for i = 1, 4 do if (state[i] or '') ~= ARGV[5 + i] then return 0 end end",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the fields of the failure do not stay in the new result',
        find: "redis.call('DEL', KEYS[1])\nlocal _",
        replace: 'local _',
      },
      {
        guarantee: 'REPLACE: a freed uri leaves the index',
        find: "redis.call('ZREM', KEYS[3], uri)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: a freed uri is queued again',
        find: "redis.call('HSET', KEYS[2], 'payload', payload, 'last', identity, 'pending', withFirst(pending, identity))",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the announcement of a freed uri ends by itself',
        find: "redis.call('PEXPIRE', KEYS[2], keep)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the new result has its time to live',
        find: "redis.call('PEXPIRE', KEYS[1], ttl)${TODAY}",
        replace: '${TODAY}',
      },
      {
        guarantee: 'REPLACE: the new result is dequeued',
        find: "redis.call('ZADD', KEYS[3], today + ttl, uri)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the index lives as long as the new result',
        find: "if redis.call('PTTL', KEYS[3]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[3], ttl) end",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the state of the replaced record is done',
        find: "redis.call('HSET', KEYS[2], 'done', 1)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: a waiting client is notified of the new result',
        find: "redis.call('PUBLISH', channel, status)",
        replace: '',
      },
      {
        guarantee: 'a uri that is queued for another record gets nothing',
        find: "return isForOther(held, enqueue.identity) ? 'conflict' : 'replaced';",
        replace: "return 'replaced';",
      },
      {
        guarantee: 'without an idempotency record another result stays',
        find: "return newest && identity != null ? 'replaced' : 'conflict';",
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
      {
        guarantee: 'REPLACE: a replay is remembered as later than its own failure',
        find: "redis.call('SET', KEYS[4], order, 'PX', math.max(tonumber(ttl), tonumber(keep)))",
        replace: '',
      },
      {
        guarantee: 'REPLACE: an outcome that came since it was read is not replaced',
        find: "if (redis.call('GET', KEYS[4]) or '') ~= ARGV[10] then return 0 end",
        replace: '',
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
        guarantee: 'the tokens of one second may go at once, and not one more',
        find: '(math.max(1, rate) - 1) * interval',
        replace: 'math.max(1, rate) * interval',
      },
      {
        guarantee: 'a request that would wait too long is refused',
        find: 'if wait > maxWait then',
        replace: 'if wait > maxWait * 1000 then',
      },
      {
        guarantee: 'a request that may wait for as long as it takes is not refused',
        find: 'if wait > maxWait then',
        replace: 'if wait > 0 then',
      },
      {
        guarantee: 'an idle bucket does not gather more than the tokens of one second',
        find: "math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)",
        replace: "tonumber(redis.call('GET', KEYS[1]) or 0)",
      },
      {
        guarantee: 'the key of the bucket has a time to live',
        find: ", 'PX', math.ceil(full + interval - now) + 1000)",
        replace: ')',
      },
      {
        guarantee: 'every request takes a token',
        find: "string.format('%.3f', full + interval)",
        replace: "string.format('%.3f', full)",
      },
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
        find: 'METRICS_TTL_MS = 7 * 24 * 3600 * 1000',
        replace: 'METRICS_TTL_MS = 7 * 24 * 3600',
      },
      {
        guarantee: 'results stay for the seconds of the configuration',
        find: 'ttlSeconds * 1000,',
        replace: 'ttlSeconds,',
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
      {
        guarantee: 'a slot that was listed again since it was read stays listed',
        find: "if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('ZREM', KEYS[1], ARGV[i]) end",
        replace: "redis.call('ZREM', KEYS[1], ARGV[i])",
      },
      {
        guarantee: 'a slot is listed before a result is written there',
        find: "for i = 2, #ARGV do redis.call('ZADD', KEYS[1], today, ARGV[i]) end",
        replace: '',
      },
    ],
  },
];
