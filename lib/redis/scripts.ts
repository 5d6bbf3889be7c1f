/**
 * The Lua scripts of the result store; each is one step inside Redis. A script that raises an error stops, and what it
 * has written stays written, so whatever can go wrong for one record alone is asked with pcall.
 */
import type { Redis } from 'ioredis';
import { SINCE_FIELD } from '../metrics/fields.ts';

/** Runs a script: how many of the arguments are keys, then the keys, then the values. */
type Command<R> = (keys: number, ...keysAndValues: (string | number)[]) => Promise<R>;

/** A script that is sent to Redis once; from then on its hash is enough. */
export function script<R>(name: string, lua: string): (redis: Redis) => Command<R> {
  return (redis) => {
    if (!(name in redis)) redis.defineCommand(name, { lua });
    const commands = redis as unknown as Record<typeof name, Command<R>>;
    return (commands[name] as Command<R>).bind(redis);
  };
}

/** What TAKE says of a result that is too large. */
export const TOO_LARGE = 'too large';

/** Of a result that was put aside: for how long it would have stayed, in ms. Never in one that lies under its own name. */
const LEFT_FIELD = 'left';

/** `today`: now in ms by the clock of Redis. A caller whose own is wrong would take everybody's results away. */
export const TODAY = `
local clock = redis.call('TIME')
local today = clock[1] * 1000 + math.floor(clock[2] / 1000)`;

/**
 * Expired entries that one saving takes off the index, beside two for each it adds. After a lull there can be a million:
 * all at once, they held Redis for 0.4 s, and with it everybody who asked it.
 */
const EXPIRED_PER_CALL = 1_000;

/**
 * KEYS: index, metrics, then one hash per record. ARGV: ttl ms, now ms, model, channel prefix, metrics ttl ms, number
 * of metric pairs, state prefix, seen prefix, for how long a message may come again in ms; then those pairs, then 7
 * texts per record: uri, status, value, error, outputs, exact, message id.
 * Returns how many were written and the places (from 0) of those whose key holds something else than a hash.
 * A claim, where there is one, is marked as done and outlives the result by its time to live. A message whose result
 * was taken (see TAKE) gets no second one.
 * What somebody else put under one of our names costs that record, or the metrics, and no neighbour; a foreign index
 * is told before anything is written.
 * Redis is busy with this for about as long as onnxruntime is with a small model: what can be asked or written for all
 * records at once, is.
 */
export const SAVE = `
local call, pcall = redis.call, redis.pcall
local ttl, now, model, channel, pairs = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local seen, again = ARGV[8], ARGV[9]
if #KEYS > 2 then call('ZCARD', KEYS[1]) end${TODAY}
if pairs > 0 then
  local counted = 0
  for i = 1, pairs do
    counted = pcall('HINCRBYFLOAT', KEYS[2], ARGV[8 + i * 2], ARGV[9 + i * 2])
    if type(counted) == 'table' then break end
  end
  if type(counted) ~= 'table' then
    call('HSETNX', KEYS[2], '${SINCE_FIELD}', now)
    call('PEXPIRE', KEYS[2], ARGV[5])
  end
end
local first, uris, ids = 10 + pairs * 2, {}, {}
for i = 3, #KEYS do
  local a = first + (i - 3) * 7
  uris[i - 2] = ARGV[7] .. ARGV[a]
  if ARGV[a + 6] ~= '' then ids[#ids + 1] = seen .. ARGV[a + 6] end
end
local taken = #ids > 0 and call('EXISTS', unpack(ids)) > 0
local claimed = #uris > 0 and call('EXISTS', unpack(uris)) > 0
local fields, count = {'HSET', '', 'status', '', 'value', '', 'model', model, 'finishedAt', now}, 10
local function put(name, text)
  if text == '' then return end
  fields[count + 1], fields[count + 2] = name, text
  count = count + 2
end
local replies, listed, expiry = {0}, {}, today + ttl
local last = again ~= '0' and string.format('%.0f', today + again) or ''
for i = 3, #KEYS do
  local a, key = first + (i - 3) * 7, KEYS[i]
  local uri, status, id = ARGV[a], ARGV[a + 1], ARGV[a + 6]
  local there = pcall('HEXISTS', key, 'status')
  if type(there) == 'table' then
    if string.sub(there.err, 1, 9) ~= 'WRONGTYPE' then return there end
    replies[#replies + 1] = i - 3
  elseif taken and id ~= '' and call('EXISTS', seen .. id) == 1 then
    call('PEXPIRE', seen .. id, again)
  elseif there == 0 then
    fields[2], fields[4], fields[6], count = key, status, ARGV[a + 2], 10
    put('error', ARGV[a + 3])
    put('outputs', ARGV[a + 4])
    put('exact', ARGV[a + 5])
    if id ~= '' and last ~= '' then
      put('message', id)
      put('until', last)
    end
    call(unpack(fields, 1, count))
    call('PEXPIRE', key, ttl)
    local state = uris[i - 2]
    if claimed then
      local held = pcall('HLEN', state)
      if type(held) == 'number' and held > 0 then
        call('HSET', state, 'done', 1)
        call('PEXPIRE', state, 2 * ttl)
      end
    end
    listed[#listed + 1] = expiry
    listed[#listed + 1] = uri
    call('PUBLISH', channel .. uri, status)
    replies[1] = replies[1] + 1
  end
end
if replies[1] > 0 then
  call('ZADD', KEYS[1], unpack(listed))
  local late = call('ZCOUNT', KEYS[1], '-inf', '(' .. today)
  if late > 0 then
    call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(late, 2 * replies[1] + ${EXPIRED_PER_CALL}) - 1)
  end
  if call('PTTL', KEYS[1]) < tonumber(ttl) then call('PEXPIRE', KEYS[1], ttl) end
end
return replies`;

/**
 * KEYS: index, then per record its result, its state, and where the result is put. ARGV: for how long it is kept there
 * in ms, seen prefix, bytes of all results together, bytes of one, then the uris. Takes each result off its name without
 * copying it; whoever asks again with the same third key, because the answer got lost, finds it there. A cancellation
 * stays: it is what keeps a record that is still in the queue from getting a result.
 * Returns per record whether it was listed; what to tell of a result that stays (its fields, or an error's text); for how
 * long it would have stayed, in ms, and the same to who asks again. Fewer than were asked for when the rest is over the
 * bytes of all. One that is larger than the bytes of one is taken off the index only, when it comes first.
 * Nothing here needs more memory than it frees, so that a full Redis can be emptied; what does need some are the notes
 * that a message has had its result, and how long that had left. A full Redis goes without them: what is then put back
 * after an answer that got lost, stays for as long as it would have been kept aside.
 */
export const TAKE = `
local call, pcall = redis.call, redis.pcall${TODAY}
local hold, seen, budget, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function bytes(key)
  return call('HSTRLEN', key, 'value') + call('HSTRLEN', key, 'exact') + call('HSTRLEN', key, 'error')
end
local replies = {}
for i = 1, #ARGV - 4 do
  local result, state, held, uri = KEYS[i * 3 - 1], KEYS[i * 3], KEYS[i * 3 + 1], ARGV[i + 4]
  if call('EXISTS', held) == 1 then
    replies[i] = {1, {}, tonumber(call('HGET', held, '${LEFT_FIELD}') or call('PTTL', held))}
  else
    local facts = pcall('HMGET', result, 'status', 'message', 'until')
    if facts.err then
      replies[i] = {call('ZREM', KEYS[1], uri), facts.err, 0}
    else
      local size = bytes(result)
      if size > limit and i == 1 then
        replies[i] = {call('ZREM', KEYS[1], uri), '${TOO_LARGE}', 0}
        break
      end
      if size > budget and i > 1 then break end
      budget = budget - size
      local listed, left = call('ZREM', KEYS[1], uri), call('PTTL', result)
      if facts[1] == 'cancelled' then
        replies[i] = {listed, call('HGETALL', result), left}
      else
        if left ~= -2 then
          call('RENAME', result, held)
          call('PEXPIRE', held, hold)
          call('DEL', state)
          pcall('HSET', held, '${LEFT_FIELD}', left)
          local again = (tonumber(facts[3] or '') or 0) - today
          if facts[2] and again > 0 then pcall('SET', seen .. facts[2], '', 'PX', string.format('%.0f', again)) end
        end
        replies[i] = {listed, {}, left}
      end
    end
  end
end
return replies`;

/**
 * KEYS: index, then per record its result and where it was put. ARGV: per record its uri and for how long it is to stay,
 * in ms (-1: without an end). What was taken and not used goes back to its name, unless that has another result by now.
 * A cancellation lies there still, and is listed again.
 */
export const RELEASE_LEASE = `${TODAY}
for i = 1, #ARGV / 2 do
  local result, held, left = KEYS[i * 2], KEYS[i * 2 + 1], tonumber(ARGV[i * 2])
  if redis.call('EXISTS', held) == 0 then
    if redis.pcall('HGET', result, 'status') == 'cancelled' then
      redis.call('ZADD', KEYS[1], today + redis.call('PTTL', result), ARGV[i * 2 - 1])
    end
  elseif redis.call('RENAMENX', held, result) == 1 then
    redis.call('HDEL', result, '${LEFT_FIELD}')
    if left > 0 then
      redis.call('PEXPIRE', result, left)
      redis.call('ZADD', KEYS[1], today + left, ARGV[i * 2 - 1])
    else
      redis.call('PERSIST', result)
    end
  end
end
return 0`;
