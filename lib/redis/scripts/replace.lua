-- Replaces the failure of a dead letter by the result of its replay; without a status it deletes the failure and announces the
-- enqueue instead.
--
-- KEYS: result, state, index, idempotency record.
-- ARGV[1]: options
--   was                what was read of the keys, and the decision was based on; what is absent there is absent:
--                      { exists, status, error, finishedAt, identity, payload, done, pending, last, newest }
--   uri, identity, order, payload, keepMs    of the enqueue; time to live of the state, and at least of the idempotency record
--   status, now, ttlMs, model, channel, error, outputs, exact, large    of the result; what is empty is absent
-- ARGV[2]: the value of the result.
-- Returns 1; 0 when a stored value has changed since it was read.

-- @include includes/order.lua
-- @include includes/identities.lua
-- @include includes/clock.lua
-- @include includes/index.lua

local result, state = KEYS[1], KEYS[2]
local options = cjson.decode(ARGV[1])
local was, identity, ttl, keep = options.was, options.identity, options.ttlMs, options.keepMs

local held = {exists = redis.call('EXISTS', result) == 1 and '1', newest = redis.call('GET', KEYS[4])}
local function read(key, names)
  local values = redis.call('HMGET', key, unpack(names))
  for i, name in ipairs(names) do held[name] = values[i] end
end
read(result, {'status', 'error', 'finishedAt', 'identity'})
read(state, {'payload', 'done', 'pending', 'last'})
for name, value in pairs(held) do
  if (value or nil) ~= was[name] then return 0 end
end

local pending = not held.done and held.pending or ''
if not options.status then
  if not held.identity or held.identity == identity then
    redis.call('DEL', result)
    redis.call('ZREM', KEYS[3], options.uri)
  end
  redis.call('HSET', state, 'payload', options.payload, 'last', identity, 'pending', withFirst(pending, identity))
  redis.call('HDEL', state, 'done')
  redis.call('PEXPIRE', state, keep)
  return 1
end
redis.call('DEL', result)
local _, _, replays = orderOf(options.order)
redis.call('HSET', result, 'status', options.status, 'value', ARGV[2], 'model', options.model, 'finishedAt', options.now,
  'identity', identity, 'replays', replays)
for _, name in ipairs({'error', 'outputs', 'exact', 'large'}) do
  if options[name] then redis.call('HSET', result, name, options[name]) end
end
redis.call('PEXPIRE', result, ttl)
redis.call('SET', KEYS[4], recordAfter(options.order, held.newest), 'PX', math.max(tonumber(ttl), tonumber(keep)))
list(KEYS[3], options.uri, ttl)
if held.payload then
  local left = without(pending, identity)
  redis.call('HSET', state, 'pending', left)
  if left == '' then
    redis.call('HSET', state, 'done', 1)
    redis.call('PEXPIRE', state, 2 * ttl)
  end
end
redis.call('PUBLISH', options.channel, options.status)
return 1
