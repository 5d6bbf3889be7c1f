-- Marks the records that are about to run. Only announced records without an outcome are marked, and a key of another type is
-- left alone (pcall).
--
-- KEYS: the states.
-- ARGV[1]: options
--   forMs         how long the mark holds, by the clock of Redis
--   identities    list, one for each key
-- Returns nothing.

-- @include includes/identities.lua
-- @include includes/clock.lua

local options = cjson.decode(ARGV[1])
local over = string.format('%.0f', today + options.forMs)
for i, identity in ipairs(options.identities) do
  local held = redis.pcall('HMGET', KEYS[i], 'pending', 'done')
  if held[1] and not held[2] and has(held[1], identity) then
    redis.call('HSET', KEYS[i], 'running', over, 'runs', identity)
  end
end
