/** The Lua scripts that lease results and release them (leases.ts). */
import { ORDER } from './order.ts';
import { TODAY } from './scripts.ts';

/** The reply of TAKE for a result that is larger than the caller accepts. */
export const TOO_LARGE = 'too large';

/** Field of a leased result: the time to live it had left, in ms. A result under its own key never has this field. */
const LEFT_FIELD = 'left';

/**
 * Moves each result from its own key to a lease key, without copying it. A client whose answer was lost asks again with
 * the same lease key and finds the result there. A cancellation is not moved, because it keeps a record that is still in
 * the queue from getting a result. Nor is a large result, whose client has yet to fetch it from S3: it is moved when the
 * client asks for it by its id (idOfLarge), having fetched it.
 * KEYS: index, then for each record its result, its state and its lease key. ARGV: time to live
 * of a lease in ms, limit in bytes of all results together, limit of one result, what large results do ('list': stay and leave the index; '': stay; an id: only the
 * result with it is moved); then for each record its uri and the wanted identity ('': any).
 * Returns for each record: whether it was in the index; the fields of a result that was not moved, or the text of an error;
 * the time to live it had left, in ms. Returns fewer records than asked for when the next one would exceed the limit of
 * all. A first result that exceeds the limit of one is only removed from the index.
 * Moving needs no memory, so a full Redis can be emptied. Only the note of the time to live that was left needs some, and a
 * full Redis goes without it; a result that is released after that lives as long as its lease would have.
 */
export const TAKE = `${ORDER}
local call, pcall = redis.call, redis.pcall
local hold, budget, limit, fetched = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local function bytes(key)
  return call('HSTRLEN', key, 'value') + call('HSTRLEN', key, 'exact') + call('HSTRLEN', key, 'error')
end
local function isWanted(facts, wanted)
  if wanted == '' then return true end
  if facts[1] == 'cancelled' then return has(facts[3] or '', wanted) end
  return facts[2] == wanted
end
local function isFetched(large)
  return fetched == '' or fetched == 'list' or string.find(large, fetched, 1, true)
end
local replies = {}
for i = 1, (#ARGV - 4) / 2 do
  local result, state, held = KEYS[i * 3 - 1], KEYS[i * 3], KEYS[i * 3 + 1]
  local uri, wanted = ARGV[i * 2 + 3], ARGV[i * 2 + 4]
  if call('EXISTS', held) == 1 then
    replies[i] = {1, {}, tonumber(call('HGET', held, '${LEFT_FIELD}') or call('PTTL', held))}
  else
    local facts = pcall('HMGET', result, 'status', 'identity', 'cancelled', 'large')
    if facts.err then
      replies[i] = {call('ZREM', KEYS[1], uri), facts.err, 0}
    elseif not (isWanted(facts, wanted) and isFetched(facts[4] or '')) then
      replies[i] = {0, {}, 0}
    elseif facts[4] and fetched == '' then
      replies[i] = {0, call('HGETALL', result), call('PTTL', result)}
    else
      local size = bytes(result)
      if size > limit and i == 1 then
        replies[i] = {call('ZREM', KEYS[1], uri), '${TOO_LARGE}', 0}
        break
      end
      if size > budget and i > 1 then break end
      budget = budget - size
      local listed, left = call('ZREM', KEYS[1], uri), call('PTTL', result)
      if facts[1] == 'cancelled' or facts[4] and fetched == 'list' then
        replies[i] = {listed, call('HGETALL', result), left}
      else
        if left ~= -2 then
          call('RENAME', result, held)
          call('PEXPIRE', held, hold)
          local waiting = pcall('HMGET', state, 'pending', 'done')
          if waiting.err or waiting[2] or (waiting[1] or '') == '' then call('DEL', state) end
          pcall('HSET', held, '${LEFT_FIELD}', left)
        end
        replies[i] = {listed, {}, left}
      end
    end
  end
end
return replies`;

/**
 * Moves leased results that were not used back to their own keys, unless a later enqueue of the uri has had its outcome
 * since. A cancellation and a large result were never moved, and only return to the index.
 * KEYS: index, then for each record its result, its idempotency record and its lease key. ARGV: for each record its uri and
 * its time to live in ms (-1: none).
 */
export const RELEASE_LEASE = `${ORDER}${TODAY}
local function list(uri, left)
  redis.call('ZADD', KEYS[1], today + left, uri)
  if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end
end
for i = 1, #ARGV / 2 do
  local result, newest, held, left = KEYS[i * 3 - 1], KEYS[i * 3], KEYS[i * 3 + 1], tonumber(ARGV[i * 2])
  local was = redis.call('HMGET', held, 'identity', 'replays')
  local order = redis.call('GET', newest)
  local _, identity, replays = orderOf(order or '')
  local isNewest = not order or identity == (was[1] or '') and replays == (tonumber(was[2] or '') or 0)
  if redis.call('EXISTS', held) == 0 then
    local facts = redis.pcall('HMGET', result, 'status', 'large')
    if facts[1] == 'cancelled' or facts[2] then
      list(ARGV[i * 2 - 1], redis.call('PTTL', result))
    end
  elseif not isNewest or redis.call('RENAMENX', held, result) == 0 then
    redis.call('DEL', held)
  else
    redis.call('HDEL', result, '${LEFT_FIELD}')
    if left > 0 then
      redis.call('PEXPIRE', result, left)
      list(ARGV[i * 2 - 1], left)
    else
      redis.call('PERSIST', result)
    end
  end
end
return 0`;
