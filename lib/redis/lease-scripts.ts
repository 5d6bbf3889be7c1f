/** The scripts that take results and put them back (leases.ts). */
import { ORDER } from './order.ts';
import { TODAY } from './scripts.ts';

/** What TAKE says of a result that is too large. */
export const TOO_LARGE = 'too large';

/** Of a result that was put aside: for how long it would have stayed, in ms. Never in one that lies under its own name. */
const LEFT_FIELD = 'left';

/**
 * KEYS: index, then per record its result, its state, its idempotency record, and where the result is put. ARGV: for how
 * long it is kept there in ms, prefix of taken messages, bytes of all results together, bytes of one, ttl ms of idempotency
 * records, then per record its uri and the identity that is wanted ('': any). Takes each result off its name without
 * copying it; asking again with the same fourth key, because the answer got lost, finds it there. A cancellation stays:
 * it is what keeps a record that is still in the queue from getting a result.
 * Returns per record whether it was listed; what to tell of a result that stays (its fields, or an error's text); for how
 * long it would have stayed, in ms, and the same to a client that asks again. Fewer than were asked for when the rest is
 * over the bytes of all. One that is larger than the bytes of one is taken off the index only, when it comes first.
 * Nothing here needs more memory than it frees, so that a full Redis can be emptied; what does need some are the notes of
 * a result of the first release, and how long a result had left. A full Redis goes without them: what is then put back
 * after an answer that got lost, stays for as long as it would have been kept aside.
 */
export const TAKE = `${ORDER}
local call, pcall = redis.call, redis.pcall${TODAY}
local hold, seen, budget, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function bytes(key)
  return call('HSTRLEN', key, 'value') + call('HSTRLEN', key, 'exact') + call('HSTRLEN', key, 'error')
end
local function isWanted(facts, wanted)
  if wanted == '' then return true end
  if facts[1] == 'cancelled' then return has(facts[5] or '', wanted) end
  return facts[4] == wanted
end
local replies = {}
for i = 1, (#ARGV - 5) / 2 do
  local result, state, newest, held = KEYS[i * 4 - 2], KEYS[i * 4 - 1], KEYS[i * 4], KEYS[i * 4 + 1]
  local uri, wanted = ARGV[i * 2 + 4], ARGV[i * 2 + 5]
  if call('EXISTS', held) == 1 then
    replies[i] = {1, {}, tonumber(call('HGET', held, '${LEFT_FIELD}') or call('PTTL', held))}
  else
    local facts = pcall('HMGET', result, 'status', 'message', 'until', 'identity', 'cancelled')
    if facts.err then
      replies[i] = {call('ZREM', KEYS[1], uri), facts.err, 0}
    elseif not isWanted(facts, wanted) then
      replies[i] = {0, {}, 0}
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
          local waiting = pcall('HMGET', state, 'pending', 'done')
          if waiting.err or waiting[2] or (waiting[1] or '') == '' then call('DEL', state) end
          pcall('HSET', held, '${LEFT_FIELD}', left)
          local again = (tonumber(facts[3] or '') or 0) - today
          if facts[2] and again > 0 then pcall('SET', seen .. facts[2], '', 'PX', string.format('%.0f', again)) end
          if not facts[4] then pcall('SET', newest, '0 ' .. (facts[2] or ''), 'PX', ARGV[5], 'NX') end
        end
        replies[i] = {listed, {}, left}
      end
    end
  end
end
return replies`;

/**
 * KEYS: index, then per record its result, its idempotency record, and where the result was put. ARGV: per record its uri
 * and for how long it is to stay, in ms (-1: without an end). What was taken and not used goes back to its name, unless a
 * later enqueue of the uri had its outcome since. A cancellation lies there still, and is listed again.
 */
export const RELEASE_LEASE = `${ORDER}${TODAY}
local function list(uri, left)
  redis.call('ZADD', KEYS[1], today + left, uri)
  if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end
end
for i = 1, #ARGV / 2 do
  local result, newest, held, left = KEYS[i * 3 - 1], KEYS[i * 3], KEYS[i * 3 + 1], tonumber(ARGV[i * 2])
  local was = redis.call('HMGET', held, 'identity', 'message', 'replays')
  local order = redis.call('GET', newest)
  local _, identity, replays = orderOf(order or '')
  local isNewest = not order or identity == (was[1] or was[2] or '') and replays == (tonumber(was[3] or '') or 0)
  if redis.call('EXISTS', held) == 0 then
    if redis.pcall('HGET', result, 'status') == 'cancelled' then
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
