-- Saves the outcomes of a batch, and what its timers measured. It keeps Redis busy for about as long as a small model keeps
-- onnxruntime, so it reads and writes for all records at once wherever that is possible. A key of the wrong type fails only its
-- own record (or the metrics); a foreign index is reported before anything is written. A client's retry of an enqueue that has
-- its outcome moves its place in the order and changes nothing else: what was sent before the retry is earlier than it.
--
-- KEYS: index, metrics; in cluster mode also all other keys that the script touches.
-- ARGV[1]: options
--   ttlMs, now, model, channel   of the results; channel, results, states and newest are prefixes before the uri
--   results, states, newest, newestTtlMs
--   metrics                      absent without measurements: { ttlMs, pairs = list of { field, increment } }
--   records                      absent without records: list of { uri, status, order, error, outputs, exact, large }; what is
--                                empty is absent
-- ARGV[2...]: the value of each record, which may be long.
-- Returns how many were written, then the places (from 0) of the records whose key has another type.

-- @include includes/order.lua
-- @include includes/identities.lua
-- @include includes/clock.lua

local call, pcall = redis.call, redis.pcall
local options = cjson.decode(ARGV[1])
local index, ttl, now, model, channel = KEYS[1], options.ttlMs, options.now, options.model, options.channel
local metrics, records = options.metrics, options.records or {}

local function isRetry(one, other)
  local sent, identity, replays = orderOf(one)
  local sentBefore, identityBefore, replaysBefore = orderOf(other)
  return identity == identityBefore and replays == replaysBefore and sent > sentBefore
end

-- A cancellation removes all announcements of its uri, so an announcement came after it, regardless of the clocks of
-- SQS and Redis.
local function isAnnouncedAfter(held, state, identity)
  local _, cancellation = orderOf(held)
  if cancellation ~= '~' then return false end
  local pending = pcall('HGET', state, 'pending')
  return type(pending) == 'string' and has(pending, identity)
end

-- An outcome becomes the result of its uri when its enqueue is later than every enqueue that has had an outcome. Without an
-- idempotency record, which a full Redis may have evicted, it is when it was sent after the result was finished.
local function isNew(key, status, held, order, identity, state)
  if held and isSettled(held, identity) then return false end
  if held and not isLater(order, held) and not isAnnouncedAfter(held, state, identity) then return false end
  if not status then return true end
  local was = call('HMGET', key, 'identity', 'finishedAt', 'cancelled')
  if was[3] and has(was[3], identity) then return false end
  return held or was[1] ~= identity and orderOf(order) > (tonumber(was[2] or '') or 0)
end

-- A record that a cancellation came before has that as its outcome, unless it had one, or is older than what was there before.
local function isCancelled(key, held, order, identity)
  if identity == '' or isSettled(held, identity) then return false end
  local after = call('HGET', key, 'after')
  return not after or isLater(order, after)
end

-- Removes an enqueue from `pending` once it has an outcome.
local function settle(state, identity)
  local pending = pcall('HGET', state, 'pending')
  if type(pending) ~= 'string' then return end
  local left = without(pending, identity)
  if left == pending then return end
  call('HSET', state, 'pending', left)
  if left ~= '' then return end
  call('HSET', state, 'done', 1)
  call('PEXPIRE', state, 2 * ttl)
end

local function count(key)
  for _, pair in ipairs(metrics.pairs) do
    if type(pcall('HINCRBYFLOAT', key, pair[1], pair[2])) == 'table' then return end
  end
  call('HSETNX', key, 'since', now)
  if model ~= '' and call('HSET', key, 'serving|' .. model, now) == 1 then
    local all = call('HGETALL', key)
    for i = 1, #all, 2 do
      local isServing = string.sub(all[i], 1, 8) == 'serving|'
      if isServing and now - all[i + 1] > tonumber(metrics.ttlMs) then call('HDEL', key, all[i]) end
    end
  end
  call('PEXPIRE', key, metrics.ttlMs)
end

if #records > 0 then call('ZCARD', index) end
if metrics then count(KEYS[2]) end
local states, newest = {}, {}
for i, record in ipairs(records) do
  states[i], newest[i] = options.states .. record.uri, options.newest .. record.uri
end
local announced = #states > 0 and call('EXISTS', unpack(states)) > 0
local orders, latest = #newest > 0 and call('MGET', unpack(newest)) or {}, {}
local function remember(i, key, record)
  call('SET', newest[i], record, 'PX', options.newestTtlMs)
  latest[key] = record
end
local fields, filled = {'HSET', '', 'status', '', 'value', '', 'model', model, 'finishedAt', now, 'identity', ''}, 12
local function put(name, text)
  if not text then return end
  fields[filled + 1], fields[filled + 2] = name, text
  filled = filled + 2
end
local replies, listed, expiry = {0}, {}, today + ttl
for i, record in ipairs(records) do
  local uri, order = record.uri, record.order
  local key = options.results .. uri
  local held = latest[key] or orders[i]
  local before = pcall('HGET', key, 'status')
  if type(before) == 'table' then
    if string.sub(before.err, 1, 9) ~= 'WRONGTYPE' then return before end
    replies[#replies + 1] = i - 1
  else
    local _, identity, replays = orderOf(order)
    if isNew(key, before, held, order, identity, states[i]) then
      if before then call('DEL', key) end
      fields[2], fields[4], fields[6], fields[12], filled = key, record.status, ARGV[i + 1], identity, 12
      put('error', record.error)
      put('outputs', record.outputs)
      put('exact', record.exact)
      put('large', record.large)
      if replays > 0 then put('replays', replays) end
      call(unpack(fields, 1, filled))
      call('PEXPIRE', key, ttl)
      remember(i, key, recordAfter(order, held))
      listed[#listed + 1] = expiry
      listed[#listed + 1] = uri
      call('PUBLISH', channel .. uri, record.status)
      replies[1] = replies[1] + 1
    elseif held and isRetry(order, held) then
      remember(i, key, recordAfter(order, held))
    elseif before == 'cancelled' and held and isCancelled(key, held, order, identity) then
      call('HSET', key, 'cancelled', withFirst(call('HGET', key, 'cancelled') or '', identity, 14))
      remember(i, key, withSettled(held, identity))
    end
    if announced then settle(states[i], identity) end
  end
end
if replies[1] > 0 then
  call('ZADD', index, unpack(listed))
  -- After a lull a million entries can have expired: removing them all in one call kept Redis busy for 0.4 s.
  local late = call('ZCOUNT', index, '-inf', '(' .. today)
  if late > 0 then call('ZREMRANGEBYRANK', index, 0, math.min(late, 2 * replies[1] + 1000) - 1) end
  if call('PTTL', index) < tonumber(ttl) then call('PEXPIRE', index, ttl) end
end
return replies
