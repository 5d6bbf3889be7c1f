/** Bugs in the Lua scripts of the result store, one for each of their conditions. */
import type { Suite } from '../mutant.ts';

const SCRIPTS = 'test/lib/redis/scripts.test.ts';
const RESULTS = 'test/lib/redis/results.test.ts';
const INDEX = 'test/lib/redis/results-index.test.ts';
const LEASES = 'test/lib/redis/leases.test.ts';
const ORDER = 'test/lib/redis/order.test.ts';
const STATES = 'test/lib/redis/record-states.test.ts';
const CLUSTER = 'test/system/redis-cluster.test.ts';
const REPLACE = 'test/lib/redis/replace-result.test.ts';
const LIMITER = 'test/lib/redis/rate-limiter.test.ts';

/** These files test each case twice. */
const EMBEDDED_TOO = '^the embedded Redis';

export const REDIS_SCRIPTS: readonly Suite[] = [
  {
    file: 'lib/redis/scripts/save.lua',
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
        find: "call('PEXPIRE', key, metrics.ttlMs)",
        replace: "call('EXISTS', key)",
      },
      {
        guarantee: 'SAVE: the time of the first measurement stays',
        find: "call('HSETNX', key",
        replace: "call('HSET', key",
      },
      {
        guarantee: 'SAVE: measurements of several environments add up',
        find: "pcall('HINCRBYFLOAT', key",
        replace: "pcall('HSET', key",
      },
      {
        guarantee: 'SAVE: a foreign metrics key costs the metrics and no result',
        find: "type(pcall('HINCRBYFLOAT'",
        replace: "type(call('HINCRBYFLOAT'",
      },
      {
        guarantee: 'SAVE: a foreign metrics key is neither written nor given a time to live',
        find: " == 'table' then return end",
        replace: " == 'table' then break end",
      },
      {
        guarantee: 'SAVE: a foreign index is reported before anything is written',
        find: "if #records > 0 then call('ZCARD', index) end",
        replace: '',
      },
      {
        guarantee: 'SAVE: saving metrics alone does not ask the index',
        find: "if #records > 0 then call('ZCARD', index) end",
        replace: "call('ZCARD', index)",
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
        find: 'if not text then return end',
        replace: '',
      },
      {
        guarantee: 'SAVE: the fields of one record do not reach the next',
        find: 'fields[2], fields[4], fields[6], fields[12], filled = key, record.status, ARGV[i + 1], identity, 12',
        replace: 'fields[2], fields[4], fields[6], fields[12] = key, record.status, ARGV[i + 1], identity',
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
        find: "call('PUBLISH', channel .. uri, record.status)",
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
        find: "call('ZCOUNT', index, '-inf', '(' .. today)",
        replace: "call('ZCOUNT', index, '-inf', '+inf')",
      },
      {
        guarantee: 'SAVE: expired entries leave the index',
        find: 'if late > 0 then',
        replace: 'if late > 1000000 then',
      },
      {
        guarantee: 'SAVE: the last entry that is removed is an expired one',
        find: '2 * replies[1] + 1000) - 1)',
        replace: '2 * replies[1] + 1000))',
      },
      {
        guarantee: 'SAVE: one call takes a bounded number of expired entries off the index',
        find: 'math.min(late, 2 * replies[1] + 1000) - 1)',
        replace: 'late - 1)',
      },
      {
        guarantee: 'SAVE: the index lives as long as its last result',
        find: "if call('PTTL', index) < tonumber(ttl) then call('PEXPIRE', index, ttl) end\nend",
        replace: 'end',
      },
      {
        guarantee: 'SAVE: a shorter time to live never shortens that of the index',
        find: "if call('PTTL', index) < tonumber(ttl) then call('PEXPIRE', index, ttl) end\nend",
        replace: "call('PEXPIRE', index, ttl)\nend",
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
        find: "call('SET', newest[i], order, 'PX', options.newestTtlMs)\n      latest[key] = order\n      listed",
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
    file: 'lib/redis/scripts/take.lua',
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
        find: "tonumber(call('HGET', held, 'left') or call('PTTL', held))",
        replace: "call('PTTL', held)",
      },
      {
        guarantee: 'TAKE: what a full Redis set aside without a note of its time can be asked for again',
        find: "tonumber(call('HGET', held, 'left') or call('PTTL', held))",
        replace: "tonumber(call('HGET', held, 'left') or 0)",
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
        find: 'if size > tonumber(options.maxBytesOfOne) and i == 1 then',
        replace: 'if size > tonumber(options.maxBytesOfOne) and i == 0 then',
      },
      {
        guarantee: 'TAKE: a result over the limit of one ends a page and is not reported in the middle of it',
        find: 'if size > tonumber(options.maxBytesOfOne) and i == 1 then',
        replace: 'if size > tonumber(options.maxBytesOfOne) then',
      },
      {
        guarantee: 'TAKE: a result of exactly the limit is taken',
        find: 'if size > tonumber(options.maxBytesOfOne) and i == 1 then',
        replace: 'if size >= tonumber(options.maxBytesOfOne) and i == 1 then',
      },
      {
        guarantee: 'TAKE: a result that is too large is dequeued no more',
        find: "replies[i] = {call('ZREM', KEYS[1], uri), 'too large', 0}",
        replace: "replies[i] = {1, 'too large', 0}",
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
        find: "if status == 'cancelled' or large and fetched == 'list' then",
        replace: "if status == 'canceled' or large and fetched == 'list' then",
      },
      {
        guarantee: 'TAKE: a uri without a result is no error',
        find: 'if left ~= -2 then',
        replace: 'if left ~= -3 then',
      },
      {
        guarantee: 'TAKE: what was taken can be asked for again for ten minutes, and no longer',
        find: "call('PEXPIRE', held, options.leaseMs)",
        replace: "call('EXISTS', held)",
      },
      {
        guarantee: 'TAKE: a uri is free again once its result was taken',
        find: "then call('DEL', state) end",
        replace: 'then end',
      },
      {
        guarantee: 'TAKE: what is set aside has a note of how long it would have stayed',
        find: "pcall('HSET', held, 'left', left)",
        replace: '',
      },
      {
        guarantee: 'TAKE: a full Redis can be emptied: the note of the time may be refused',
        find: "pcall('HSET', held, 'left', left)",
        replace: "call('HSET', held, 'left', left)",
      },
      {
        guarantee: 'TAKE: a take for one enqueue leaves the result of another',
        find: 'return identity == wanted',
        replace: 'return true',
      },
      {
        guarantee: 'TAKE: a cancellation is the outcome of the enqueues that it lists',
        find: "return has(cancelled or '', wanted)",
        replace: 'return true',
      },
      {
        guarantee: 'TAKE: a uri that is queued again stays so when its earlier result is taken',
        find: "or (waiting[1] or '') == '' then",
        replace: 'or true then',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/release.lua',
    tests: [SCRIPTS, RESULTS, LEASES, INDEX, STATES, ORDER],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'RELEASE_LEASE: a newer result of the uri is not overwritten by one that is put back',
        find: "or redis.call('RENAMENX', held, result) == 0 then",
        replace: "or redis.call('RENAME', held, result) == 0 then",
      },
      {
        guarantee: 'RELEASE_LEASE: a cancellation that was taken and not used is listed again',
        find: "list(KEYS[1], uri, redis.call('PTTL', result))",
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
        find: "redis.call('HDEL', result, 'left')",
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: what is put back stays for as long as it had',
        find: "redis.call('PEXPIRE', result, left)",
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: what is put back is dequeued again',
        find: '      list(KEYS[1], uri, left)\n',
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: a result without an end stays so (the old server set none)',
        find: "redis.call('PERSIST', result)",
        replace: '',
      },
      {
        guarantee: 'RELEASE_LEASE: a result stays away when a later one had its outcome',
        find: 'elseif not isNewest or redis.call',
        replace: 'elseif redis.call',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/announce.lua',
    tests: [STATES, ORDER, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'ANNOUNCE: a key stands for one request',
        find: 'if used and used ~= request then return 0 end',
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
        find: "redis.call('PEXPIRE', KEYS[1], ttl)\nreturn 1",
        replace: 'return 1',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/withdraw.lua',
    tests: [STATES, ORDER, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'WITHDRAW: what is not announced is not withdrawn',
        find: 'if held[2] or not held[1] or not has(held[1], identity) then return 0 end',
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
    ],
  },
  {
    file: 'lib/redis/scripts/cancel.lua',
    tests: [STATES, ORDER, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'CANCEL: cancelling a second time is true again',
        find: "if status == 'cancelled' then return 1 end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: it is too late to cancel what has, or had, a result',
        find: "if newest or held[2] or redis.call('EXISTS', result) == 1 then return 0 end",
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
        find: "redis.call('PEXPIRE', result, ttl)\n-- `~`",
        replace: '-- `~`',
      },
      {
        guarantee: 'CANCEL: the state of a cancelled record is done',
        find: "redis.call('HSET', state, 'pending', '', 'done', 1)",
        replace: '',
      },
      {
        guarantee: 'CANCEL: no state is made up for a record that was not announced',
        find: "if redis.call('PEXPIRE', state, ttl) == 1 then",
        replace: "if redis.call('PEXPIRE', state, ttl) >= 0 then",
      },
      {
        guarantee: 'CANCEL: the announced enqueues are cancelled by their identities',
        find: "if pending ~= '' then redis.call('HSET', result, 'cancelled', pending) end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: what had its outcome before is not cancelled',
        find: "if newest then redis.call('HSET', result, 'after', newest) end",
        replace: '',
      },
      {
        guarantee: 'CANCEL: a deleted cancellation still keeps earlier records out',
        find: "redis.call('SET', newestKey, string.format('%.0f ~', at), 'PX', ttl)",
        replace: '',
      },
      {
        guarantee: 'CANCEL: a cancelled record is dequeued',
        find: 'list(KEYS[4], options.uri, ttl)',
        replace: '',
      },
      {
        guarantee: 'CANCEL: a waiting client is notified of the cancellation',
        find: "redis.call('PUBLISH', options.channel, 'cancelled')",
        replace: '',
      },
      {
        guarantee: 'a cancellation is later than everything before it, whatever the clocks say',
        find: 'if newest then at = math.max(at, (orderOf(newest))) end',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/mark-running.lua',
    tests: [STATES, ORDER, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
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
        find: 'today + options.forMs)',
        replace: 'today + 1000 * options.forMs)',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/replace.lua',
    tests: [REPLACE, SCRIPTS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'REPLACE: a result that changed since it was read is not replaced',
        find: 'for i, name in ipairs(names) do held[name] = values[i] end',
        replace: 'for i, name in ipairs(names) do held[name] = key ~= result and values[i] or was[name] end',
      },
      {
        guarantee: 'REPLACE: a uri whose state changed since it was read is not replaced',
        find: 'for i, name in ipairs(names) do held[name] = values[i] end',
        replace: 'for i, name in ipairs(names) do held[name] = key ~= state and values[i] or was[name] end',
      },
      {
        guarantee: 'REPLACE: the fields of the failure do not stay in the new result',
        find: "redis.call('DEL', result)\nlocal _",
        replace: 'local _',
      },
      {
        guarantee: 'REPLACE: a freed uri leaves the index',
        find: "redis.call('ZREM', KEYS[3], options.uri)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: a freed uri is queued again',
        find: "redis.call('HSET', state, 'payload', options.payload, 'last', identity, 'pending', withFirst(pending, identity))",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the announcement of a freed uri ends by itself',
        find: "redis.call('PEXPIRE', state, keep)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the new result has its time to live',
        find: "redis.call('PEXPIRE', result, ttl)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: the new result is dequeued',
        find: 'list(KEYS[3], options.uri, ttl)',
        replace: '',
      },
      {
        guarantee: 'REPLACE: the state of the replaced record is done',
        find: "redis.call('HSET', state, 'done', 1)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: a waiting client is notified of the new result',
        find: "redis.call('PUBLISH', options.channel, options.status)",
        replace: '',
      },
      {
        guarantee: 'REPLACE: a replay is remembered as later than its own failure',
        find: "redis.call('SET', KEYS[4], options.order, 'PX', math.max(tonumber(ttl), tonumber(keep)))",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/includes/order.lua',
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
    ],
  },
  {
    file: 'lib/redis/scripts/includes/identities.lua',
    tests: [ORDER, STATES],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'an identity is listed whole, and not as a part of another',
        find: "string.find(' ' .. list .. ' ', ' ' .. identity .. ' ', 1, true)",
        replace: 'string.find(list, identity, 1, true)',
      },
      {
        guarantee: 'a bounded number of identities is listed',
        find: 'if #all < 7 then',
        replace: 'if true then',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/acquire-token.lua',
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
        find: 'if wait > tonumber(options.maxWaitMs) then',
        replace: 'if wait > 1000 * options.maxWaitMs then',
      },
      {
        guarantee: 'a request that may wait for as long as it takes is not refused',
        find: 'if wait > tonumber(options.maxWaitMs) then',
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
    ],
  },
  {
    file: 'lib/redis/scripts/forget-homes.lua',
    tests: [CLUSTER],
    bugs: [
      {
        guarantee: 'a slot that was listed again since it was read stays listed',
        find: "if redis.call('ZSCORE', KEYS[1], one[1]) == one[2] then redis.call('ZREM', KEYS[1], one[1]) end",
        replace: "redis.call('ZREM', KEYS[1], one[1])",
      },
    ],
  },
  {
    file: 'lib/redis/scripts/list-homes.lua',
    tests: [CLUSTER],
    bugs: [
      {
        guarantee: 'a slot is listed before a result is written there',
        find: "for _, home in ipairs(options.homes) do redis.call('ZADD', KEYS[1], today, home) end",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/includes/index.lua',
    tests: [SCRIPTS, LEASES, STATES, REPLACE],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'the index lives as long as its last result, cancellation or released lease',
        find: "if redis.call('PTTL', index) < tonumber(ttl) then redis.call('PEXPIRE', index, ttl) end",
        replace: '',
      },
    ],
  },
];
