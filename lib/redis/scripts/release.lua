-- Moves leased results that were not used back to their own keys, unless a later enqueue of the uri has had its outcome since. A
-- cancellation and a large result were never moved, and only return to the index.
--
-- KEYS: index; then for each record its result, its idempotency record and its lease key.
-- ARGV[1]: options
--   records    list of { uri, leftMs }; leftMs -1: without an end
-- Returns nothing.

-- @include includes/order.lua
-- @include includes/clock.lua
-- @include includes/index.lua

for i, record in ipairs(cjson.decode(ARGV[1]).records) do
  local uri, left = record.uri, record.leftMs
  local result, newest, held = KEYS[i * 3 - 1], KEYS[i * 3], KEYS[i * 3 + 1]
  local was = redis.call('HMGET', held, 'identity', 'replays')
  local order = redis.call('GET', newest)
  local _, identity, replays = orderOf(order or '')
  local isNewest = not order or identity == (was[1] or '') and replays == (tonumber(was[2] or '') or 0)
  if redis.call('EXISTS', held) == 0 then
    local facts = redis.pcall('HMGET', result, 'status', 'large')
    if facts[1] == 'cancelled' or facts[2] then list(KEYS[1], uri, left) end
  elseif not isNewest or redis.call('RENAMENX', held, result) == 0 then
    redis.call('DEL', held)
  else
    redis.call('HDEL', result, 'left')
    if tonumber(left) > 0 then
      redis.call('PEXPIRE', result, left)
      list(KEYS[1], uri, left)
    else
      redis.call('PERSIST', result)
    end
  end
end
