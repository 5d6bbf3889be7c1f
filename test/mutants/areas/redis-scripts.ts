/** Bugs in the Lua scripts of the result store, one for each of their conditions. */
import type { Suite } from '../mutant.ts';

const SCRIPTS = 'test/lib/redis/scripts.test.ts';
const RESULTS = 'test/lib/redis/results.test.ts';
const INDEX = 'test/lib/redis/results-index.test.ts';
const LEASES = 'test/lib/redis/leases.test.ts';
const ORDER = 'test/lib/redis/order.test.ts';
const STATES = 'test/lib/redis/record-states.test.ts';

/** These files test each case twice. */
const EMBEDDED_TOO = '^the embedded Redis';

export const REDIS_SCRIPTS: readonly Suite[] = [
  {
    file: 'lib/redis/result/save-script.ts',
    tests: [SCRIPTS, RESULTS, LEASES, INDEX, STATES, ORDER],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee:
          'SAVE: what is earlier than the idempotency record changes nothing (docs: the life of a uri)',
        find: 'if held and not isLater(order, held) and not isAnnouncedAfter(held, state, identity) then return false end',
        replace: 'if held and held == order then return false end',
      },
      {
        guarantee: 'SAVE: every result has its time to live',
        find: "call('PEXPIRE', key, ttl)\n      call('SET'",
        replace: "call('SET'",
      },
      {
        guarantee: 'SAVE: the metrics have a time to live',
        find: "call('PEXPIRE', KEYS[2], ARGV[5])",
        replace: "call('EXISTS', KEYS[2])",
      },
      {
        guarantee: 'SAVE: the time of the first measurement stays',
        find: "call('HSETNX', KEYS[2]",
        replace: "call('HSET', KEYS[2]",
      },
      {
        guarantee: 'SAVE: measurements of several environments add up',
        find: "pcall('HINCRBYFLOAT', KEYS[2]",
        replace: "pcall('HSET', KEYS[2]",
      },
      {
        guarantee: 'SAVE: a foreign metrics key costs the metrics and no result',
        find: "counted = pcall('HINCRBYFLOAT'",
        replace: "counted = call('HINCRBYFLOAT'",
      },
      {
        guarantee: 'SAVE: a foreign metrics key is neither written nor given a time to live',
        find: "if type(counted) ~= 'table' then\n",
        replace: 'if true then\n',
      },
      {
        guarantee: 'SAVE: counting stops at the first refusal',
        find: "if type(counted) == 'table' then break end",
        replace: '',
        survives:
          'Equivalent for the case it is for: of a foreign key every pair is refused, and the script only ends sooner.',
      },
      {
        guarantee: 'SAVE: a foreign index is reported before anything is written',
        find: "if #records > 0 then call('ZCARD', KEYS[1]) end",
        replace: '',
      },
      {
        guarantee: 'SAVE: saving metrics alone does not ask the index',
        find: "if #records > 0 then call('ZCARD', KEYS[1]) end",
        replace: "call('ZCARD', KEYS[1])",
      },
      {
        guarantee: 'SAVE: a foreign result key costs its own record and no neighbour',
        find: "local before = pcall('HGET'",
        replace: "local before = call('HGET'",
      },
      {
        guarantee: 'SAVE: the place of a foreign key is returned, counted from 0',
        find: 'replies[#replies + 1] = i - 1',
        replace: 'replies[#replies + 1] = i',
      },
      {
        guarantee: 'SAVE: an error other than a wrong type is not taken for one',
        find: "if string.sub(before.err, 1, 9) ~= 'WRONGTYPE' then return before end",
        replace: '',
        survives:
          'Not reachable: redis-server refuses HGET with nothing else. It is there for what another server says.',
      },
      {
        guarantee: 'SAVE: an absent error is no field',
        find: "if text == '' then return end",
        replace: '',
      },
      {
        guarantee: 'SAVE: the fields of one record do not reach the next',
        find: 'fields[2], fields[4], fields[6], fields[12], count = key, status, ARGV[first + i], identity, 12',
        replace: 'fields[2], fields[4], fields[6], fields[12] = key, status, ARGV[first + i], identity',
      },
      {
        guarantee: 'SAVE: a foreign state key costs no result',
        find: "local pending = pcall('HGET', state, 'pending')\n  if type(pending)",
        replace: "local pending = call('HGET', state, 'pending')\n  if type(pending)",
      },
      {
        guarantee: 'SAVE: the index is scored by the expiry of the result',
        find: 'local replies, listed, expiry = {0}, {}, today + ttl',
        replace: 'local replies, listed, expiry = {0}, {}, today',
      },
      {
        guarantee: 'SAVE: a waiting client is notified of the result',
        find: "call('PUBLISH', channel .. uri, status)",
        replace: '',
      },
      {
        guarantee: 'SAVE: returns how many were written',
        find: 'replies[1] = replies[1] + 1',
        replace: 'replies[1] = 1',
      },
      {
        guarantee: 'SAVE: a redelivery alone lists nothing',
        find: 'if replies[1] > 0 then',
        replace: 'if replies[1] >= 0 then',
      },
      {
        guarantee: 'SAVE: only expired entries leave the index',
        find: "call('ZCOUNT', KEYS[1], '-inf', '(' .. today)",
        replace: "call('ZCOUNT', KEYS[1], '-inf', '+inf')",
      },
      {
        guarantee: 'SAVE: expired entries leave the index',
        find: 'if late > 0 then',
        replace: 'if late > 1000000 then',
      },
      {
        guarantee: 'SAVE: the last entry that is removed is an expired one',
        find: '2 * replies[1] + ${EXPIRED_PER_CALL}) - 1)',
        replace: '2 * replies[1] + ${EXPIRED_PER_CALL}))',
      },
      {
        guarantee: 'SAVE: one call takes a bounded number of expired entries off the index',
        find: 'math.min(late, 2 * replies[1] + ${EXPIRED_PER_CALL}) - 1)',
        replace: 'late - 1)',
      },
      {
        guarantee: 'SAVE: the index lives as long as its last result',
        find: "if call('PTTL', KEYS[1]) < tonumber(ttl) then call('PEXPIRE', KEYS[1], ttl) end\nend",
        replace: 'end',
      },
      {
        guarantee: 'SAVE: a shorter time to live never shortens that of the index',
        find: "if call('PTTL', KEYS[1]) < tonumber(ttl) then call('PEXPIRE', KEYS[1], ttl) end\nend",
        replace: "call('PEXPIRE', KEYS[1], ttl)\nend",
      },
      {
        guarantee: 'SAVE: a later enqueue takes the place of a result',
        find: 'if not status then return true end',
        replace: 'if status then return false end',
      },
      {
        guarantee:
          'SAVE: without an idempotency record, only what was sent after a result was finished takes its place',
        find: " and orderOf(order) > (tonumber(was[2] or '') or 0)",
        replace: '',
      },
      {
        guarantee: 'SAVE: what was cancelled by its identity stays so, whatever the clocks say',
        find: 'if was[3] and has(was[3], identity) then return false end',
        replace: '',
      },
      {
        guarantee: 'SAVE: a retry moves the place of its enqueue in the order',
        find: 'elseif held and isRetry(order, held) then',
        replace: 'elseif false then',
      },
      {
        guarantee: 'SAVE: a record that was cancelled before it ran is listed',
        find: "call('HSET', key, 'cancelled', withFirst(was[2] or '', identity))",
        replace: '',
      },
      {
        guarantee: 'SAVE: a record that is older than what was there before a cancellation was not cancelled',
        find: 'or was[1] and not isLater(order, was[1]) then',
        replace: 'then',
      },
      {
        guarantee: 'SAVE: an announced record that has its outcome is queued no more',
        find: "call('HSET', state, 'pending', left)",
        replace: '',
      },
      {
        guarantee: 'SAVE: the state of a uri is done when nothing waits',
        find: "call('HSET', state, 'done', 1)",
        replace: '',
      },
      {
        guarantee: 'SAVE: a finished state outlives the result by its time to live',
        find: "call('PEXPIRE', state, 2 * ttl)",
        replace: '',
      },
      {
        guarantee: 'SAVE: the fields of an earlier result do not stay in a later one',
        find: "if before then call('DEL', key) end",
        replace: '',
      },
      {
        guarantee: 'SAVE: the idempotency record has a time to live',
        find: "call('SET', newest[i], order, 'PX', ARGV[9])\n      latest[key] = order\n      listed",
        replace: "call('SET', newest[i], order)\n      latest[key] = order\n      listed",
      },
      {
        guarantee: 'SAVE: two records of a uri in one batch are compared with each other',
        find: 'local held = latest[key] or orders[i]',
        replace: 'local held = orders[i]',
      },
    ],
  },
  {
    file: 'lib/redis/lease-scripts.ts',
    tests: [SCRIPTS, RESULTS, LEASES, INDEX, STATES, ORDER],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'TAKE: a second call with the same lease id finds what the first set aside',
        find: "if call('EXISTS', held) == 1 then",
        replace: "if call('EXISTS', held) == 2 then",
      },
      {
        guarantee: 'TAKE: a second call knows how long the result would have stayed',
        find: "tonumber(call('HGET', held, '${LEFT_FIELD}') or call('PTTL', held))",
        replace: "call('PTTL', held)",
      },
      {
        guarantee: 'TAKE: what a full Redis set aside without a note of its time can be asked for again',
        find: "tonumber(call('HGET', held, '${LEFT_FIELD}') or call('PTTL', held))",
        replace: "tonumber(call('HGET', held, '${LEFT_FIELD}') or 0)",
      },
      {
        guarantee: "TAKE: a foreign key is reported as its own record's error",
        find: "local facts = pcall('HMGET', result",
        replace: "local facts = call('HMGET', result",
      },
      {
        guarantee: 'TAKE: a foreign key leaves the index',
        find: "replies[i] = {call('ZREM', KEYS[1], uri), facts.err, 0}",
        replace: 'replies[i] = {1, facts.err, 0}',
      },
      {
        guarantee: 'TAKE: a first result over the limit of one is not taken',
        find: 'if size > limit and i == 1 then',
        replace: 'if size > limit and i == 0 then',
      },
      {
        guarantee: 'TAKE: a result over the limit of one ends a page and is not reported in the middle of it',
        find: 'if size > limit and i == 1 then',
        replace: 'if size > limit then',
      },
      {
        guarantee: 'TAKE: a result of exactly the limit is taken',
        find: 'if size > limit and i == 1 then',
        replace: 'if size >= limit and i == 1 then',
      },
      {
        guarantee: 'TAKE: a result that is too large is dequeued no more',
        find: "replies[i] = {call('ZREM', KEYS[1], uri), '${TOO_LARGE}', 0}",
        replace: "replies[i] = {1, '${TOO_LARGE}', 0}",
      },
      {
        guarantee: 'TAKE: a page keeps to its bytes',
        find: 'if size > budget and i > 1 then break end',
        replace: '',
      },
      {
        guarantee: 'TAKE: the first result is taken although it is larger than the page',
        find: 'if size > budget and i > 1 then break end',
        replace: 'if size > budget then break end',
      },
      {
        guarantee: 'TAKE: the bytes of all results of a page count',
        find: 'budget = budget - size',
        replace: 'budget = budget - 0',
      },
      {
        guarantee: 'TAKE: the exact values count as bytes of a page',
        find: " + call('HSTRLEN', key, 'exact')",
        replace: '',
      },
      {
        guarantee: 'TAKE: the text of a failure counts as bytes of a page',
        find: " + call('HSTRLEN', key, 'error')",
        replace: '',
      },
      {
        guarantee: 'TAKE: a taken result leaves the index',
        find: "local listed, left = call('ZREM', KEYS[1], uri), call('PTTL', result)",
        replace: "local listed, left = 1, call('PTTL', result)",
      },
      {
        guarantee: 'TAKE: a cancellation stays when it is taken',
        find: "if facts[1] == 'cancelled' or facts[4] and fetched == 'list' then",
        replace: "if facts[1] == 'canceled' or facts[4] and fetched == 'list' then",
      },
      {
        guarantee: 'TAKE: a uri without a result is no error',
        find: 'if left ~= -2 then',
        replace: 'if left ~= -3 then',
      },
      {
        guarantee: 'TAKE: what was taken can be asked for again for ten minutes, and no longer',
        find: "call('PEXPIRE', held, hold)",
        replace: "call('EXISTS', held)",
      },
      {
        guarantee: 'TAKE: a uri is free again once its result was taken',
        find: "then call('DEL', state) end",
        replace: 'then end',
      },
      {
        guarantee: 'TAKE: what is set aside has a note of how long it would have stayed',
        find: "pcall('HSET', held, '${LEFT_FIELD}', left)",
        replace: '',
      },
      {
        guarantee: 'TAKE: a full Redis can be emptied: the note of the time may be refused',
        find: "pcall('HSET', held, '${LEFT_FIELD}', left)",
        replace: "call('HSET', held, '${LEFT_FIELD}', left)",
      },
      {
        guarantee: 'RELEASE_LEASE: a newer result of the uri is not overwritten by one that is put back',
        find: "or redis.call('RENAMENX', held, result) == 0 then",
        replace: "or redis.call('RENAME', held, result) == 0 then",
      },
      {
        guarantee: 'RELEASE_LEASE: a cancellation that was taken and not used is listed again',
        find: "list(ARGV[i * 2 - 1], redis.call('PTTL', result))",
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: only a cancellation is listed again without having been set aside',
        find: "if facts[1] == 'cancelled' or facts[2] then",
        replace: "if redis.call('EXISTS', result) == 1 then",
      },
      {
        guarantee: 'RELEASE_LEASE: a foreign key under the uri is no error',
        find: "redis.pcall('HMGET', result, 'status', 'large')",
        replace: "redis.call('HMGET', result, 'status', 'large')",
      },
      {
        guarantee: 'RELEASE_LEASE: what was set aside and has expired is no error',
        find: "if redis.call('EXISTS', held) == 0 then",
        replace: "if redis.call('EXISTS', held) == 2 then",
      },
      {
        guarantee: 'RELEASE_LEASE: a result under its own name has no note of its time',
        find: "redis.call('HDEL', result, '${LEFT_FIELD}')",
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: what is put back stays for as long as it had',
        find: "redis.call('PEXPIRE', result, left)",
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: what is put back is dequeued again',
        find: '      list(ARGV[i * 2 - 1], left)\n',
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: a result without an end stays so (the old server set none)',
        find: "redis.call('PERSIST', result)",
        replace: '',
      },
      {
        guarantee: 'TAKE: a take for one enqueue leaves the result of another',
        find: 'return facts[2] == wanted',
        replace: 'return true',
      },
      {
        guarantee: 'TAKE: a cancellation is the outcome of the enqueues that it lists',
        find: "return has(facts[3] or '', wanted)",
        replace: 'return true',
      },
      {
        guarantee: 'TAKE: a uri that is queued again stays so when its earlier result is taken',
        find: "or (waiting[1] or '') == '' then",
        replace: 'or true then',
      },
      {
        guarantee: 'RELEASE_LEASE: a result stays away when a later one had its outcome',
        find: 'elseif not isNewest or redis.call',
        replace: 'elseif redis.call',
      },
      {
        guarantee: 'RELEASE_LEASE: the index lives as long as what is put back',
        find: "if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/order.ts',
    tests: [ORDER, STATES],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a tie is decided by the identities, byte by byte',
        find: 'return bytesAfter(identity, identityBefore)',
        replace: 'return false',
      },
      {
        guarantee: 'of two identities that begin alike the longer one is later',
        find: 'return #one > #other',
        replace: 'return #one < #other',
      },
      {
        guarantee: 'of one identity a later replay is later',
        find: 'if identity == identityBefore then return replays > replaysBefore end',
        replace: 'if identity == identityBefore then return false end',
      },
      {
        guarantee: 'an identity is listed whole, and not as a part of another',
        find: "string.find(' ' .. list .. ' ', ' ' .. identity .. ' ', 1, true)",
        replace: 'string.find(list, identity, 1, true)',
      },
      {
        guarantee: 'a bounded number of identities is listed',
        find: 'if #all < ${LISTED_IDENTITIES} then',
        replace: 'if true then',
      },
      {
        guarantee: 'a cancellation is later than everything before it, whatever the clocks say',
        find: 'if before then at = math.max(at, (orderOf(before))) end',
        replace: '',
      },
    ],
  },
];
