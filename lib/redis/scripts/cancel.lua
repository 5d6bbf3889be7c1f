-- Cancels every enqueue of a uri that has no outcome. A cancellation is later than every enqueue up to now by the clock of Redis.
-- The clock of SQS may be ahead, so the announced enqueues are also listed by their identities; and behind, so what is announced
-- after a cancellation is later than it (save.lua).
--
-- KEYS: result, state, idempotency record, index.
-- ARGV[1]: options
--   uri, now, ttlMs, error, channel
--   latestOrder    the latest place in the order that the queue gave; 0 if it is not known
-- Returns 1; 0 when every known enqueue has its outcome.

-- @include includes/order.lua
-- @include includes/identities.lua
-- @include includes/clock.lua
-- @include includes/index.lua

-- The records of an earlier cancellation may still be in the queue. Twice as many are listed as an announcement lists.
local function withEarlier(list, earlier)
  local count = 0
  for _ in string.gmatch(list, '%S+') do count = count + 1 end
  for one in string.gmatch(earlier, '%S+') do
    if count < 14 and not has(list, one) then list, count = list .. ' ' .. one, count + 1 end
  end
  return list
end

local options = cjson.decode(ARGV[1])
local result, state, newestKey, ttl = KEYS[1], KEYS[2], KEYS[3], options.ttlMs
local status = redis.call('HGET', result, 'status')
local held = redis.call('HMGET', state, 'pending', 'done')
local newest = redis.call('GET', newestKey)
local pending = not held[2] and held[1] or ''
if pending == '' then
  if status == 'cancelled' then return 1 end
  if newest or held[2] or redis.call('EXISTS', result) == 1 then return 0 end
end
local cancelled = withEarlier(pending, status == 'cancelled' and redis.call('HGET', result, 'cancelled') or '')
redis.call('DEL', result)
redis.call('HSET', result, 'status', 'cancelled', 'value', 'NaN', 'error', options.error, 'model', '', 'finishedAt', options.now,
  'identity', '')
if cancelled ~= '' then redis.call('HSET', result, 'cancelled', cancelled) end
if newest then redis.call('HSET', result, 'after', newest) end
redis.call('PEXPIRE', result, ttl)
-- `~` sorts after every identity that was sent in the same ms.
local at = math.max(today, tonumber(options.latestOrder))
if newest then at = math.max(at, (orderOf(newest))) end
local record = recordAfter(string.format('%.0f ~', at), newest)
redis.call('SET', newestKey, withSettled(record, cancelled), 'PX', ttl)
if redis.call('PEXPIRE', state, ttl) == 1 then redis.call('HSET', state, 'pending', '', 'done', 1) end
list(KEYS[4], options.uri, ttl)
redis.call('PUBLISH', options.channel, 'cancelled')
return 1
