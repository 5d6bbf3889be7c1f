/**
 * In: nothing. Out: the Lua scripts of the result store; each is one step inside Redis.
 * Trap: a script that raises an error stops where it is, and what it has written stays written. What can go wrong for
 * one record alone is asked with pcall.
 */
import { SINCE_FIELD } from '../metrics/fields.ts';

/**
 * KEYS: index, metrics, then one hash per record. ARGV: ttl ms, now ms, model, channel prefix, metrics ttl ms, number
 * of metric pairs, state prefix; then those pairs, then 6 texts per record: uri, status, value, error, outputs, exact.
 * Returns how many were written and the places (from 0) of those whose key holds something else than a hash.
 * A claim, where there is one, is marked as done and outlives the result by its time to live.
 * What somebody else put under one of our names costs that record, or the metrics, and no neighbour; a foreign index
 * is told before anything is written. The index goes by the clock of Redis: a writer whose own is ahead would take
 * everybody's results off it.
 */
export const SAVE = `
local ttl, now, model, channel, pairs = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
if #KEYS > 2 then redis.call('ZCARD', KEYS[1]) end
local clock = redis.call('TIME')
local today = clock[1] * 1000 + math.floor(clock[2] / 1000)
if pairs > 0 then
  local counted = 0
  for i = 1, pairs do
    counted = redis.pcall('HINCRBYFLOAT', KEYS[2], ARGV[6 + i * 2], ARGV[7 + i * 2])
    if type(counted) == 'table' then break end
  end
  if type(counted) ~= 'table' then
    redis.call('HSETNX', KEYS[2], '${SINCE_FIELD}', now)
    redis.call('PEXPIRE', KEYS[2], ARGV[5])
  end
end
local replies = {0}
for i = 3, #KEYS do
  local a = 8 + pairs * 2 + (i - 3) * 6
  local first = redis.pcall('HSETNX', KEYS[i], 'status', ARGV[a + 1])
  if type(first) == 'table' then
    if string.sub(first.err, 1, 9) ~= 'WRONGTYPE' then return first end
    replies[#replies + 1] = i - 3
  elseif first == 1 then
    redis.call('HSET', KEYS[i], 'value', ARGV[a + 2], 'model', model, 'finishedAt', now)
    if ARGV[a + 3] ~= '' then redis.call('HSET', KEYS[i], 'error', ARGV[a + 3]) end
    if ARGV[a + 4] ~= '' then redis.call('HSET', KEYS[i], 'outputs', ARGV[a + 4]) end
    if ARGV[a + 5] ~= '' then redis.call('HSET', KEYS[i], 'exact', ARGV[a + 5]) end
    redis.call('PEXPIRE', KEYS[i], ttl)
    redis.call('ZADD', KEYS[1], today + ttl, ARGV[a])
    local state = ARGV[7] .. ARGV[a]
    local claimed = redis.pcall('HLEN', state)
    if type(claimed) == 'number' and claimed > 0 then
      redis.call('HSET', state, 'done', 1)
      redis.call('PEXPIRE', state, 2 * ttl)
    end
    redis.call('PUBLISH', channel .. ARGV[a], ARGV[a + 1])
    replies[1] = replies[1] + 1
  end
end
if replies[1] > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. today)
  if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[1], ttl) end
end
return replies`;

/**
 * KEYS: result, state; result, state; ... Deletes what has been read. A cancellation stays: it is what keeps a record
 * that is still in the queue from getting a result.
 */
export const FORGET = `
for i = 1, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local status = redis.pcall('HGET', KEYS[i], 'status')
    if type(status) ~= 'table' and status ~= 'cancelled' then redis.call('DEL', KEYS[i], KEYS[i + 1]) end
  end
end
return 0`;
