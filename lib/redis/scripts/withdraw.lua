-- Removes the announcement of a record that could not be sent.
--
-- KEYS: state, result.
-- ARGV[1]: options
--   identity
-- Returns nothing.

-- @include includes/identities.lua

local identity = cjson.decode(ARGV[1]).identity
local held = redis.call('HMGET', KEYS[1], 'pending', 'done')
if held[2] or not held[1] or not has(held[1], identity) then return end
local left = without(held[1], identity)
if left ~= '' or redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HSET', KEYS[1], 'pending', left)
  if left == '' then redis.call('HSET', KEYS[1], 'done', 1) end
else
  redis.call('DEL', KEYS[1])
end
